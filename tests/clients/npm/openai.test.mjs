// The official SDK for JavaScript, unmodified.
import assert from 'node:assert/strict';
import test from 'node:test';
import { toFile } from 'openai';
import { client, collect, refusedToStrangers, show } from './house.mjs';

const model = 'gpt-5';
const alice = client('alice');

test('a chain of responses is followed by its owner alone', async () => {
  const first = await alice.responses.create({ model, input: '[[script: reasoning, message]] one' });
  const second = await alice.responses.create({ model, input: 'two', previous_response_id: first.id });
  assert.match(second.output_text, /You have sent 2 user messages/);
  assert.equal(second.previous_response_id, first.id);
  assert.deepEqual((await alice.responses.retrieve(first.id)).output, first.output);
  const items = await collect(alice.responses.inputItems.list(second.id));
  assert.ok(items.length > 1);
  show(first, second, items);
  await refusedToStrangers((stranger) => stranger.responses.retrieve(first.id));
  await refusedToStrangers((stranger) => stranger.responses.delete(first.id));
  await refusedToStrangers(
    (stranger) => stranger.responses.create({ model, input: 'x', previous_response_id: first.id }),
    [400],
  );
});

test('a stream shows one ID for one thing, and the same as retrieve', async () => {
  const stream = alice.responses.stream({ model, input: '[[script: reasoning, message]] hello' });
  const events = await collect(stream);
  const final = await stream.finalResponse();
  const items = new Set(final.output.map((item) => item.id));
  for (const event of events) {
    if ('item_id' in event) assert.ok(items.has(event.item_id), event.type);
    if ('response' in event) assert.equal(event.response.id, final.id);
  }
  assert.deepEqual(new Set((await alice.responses.retrieve(final.id)).output.map((item) => item.id)), items);
  show(events, final);
});

test('a background response is polled to its end', async () => {
  let job = await alice.responses.create({ model, input: 'later', background: true });
  const { id } = job;
  for (let round = 0; ['queued', 'in_progress'].includes(job.status); round++) {
    assert.ok(round < 200, 'it never ends');
    await new Promise((resolve) => setTimeout(resolve, 20));
    job = await alice.responses.retrieve(id);
  }
  assert.equal(job.status, 'completed');
  assert.equal(job.id, id);
  show(job);
});

test('stored chats are told by their metadata, and deleted while one pages through them', async () => {
  const messages = [{ role: 'user', content: 'hello' }];
  const made = [];
  for (const coat of ['red', 'blue', 'red', 'red']) {
    made.push(await alice.chat.completions.create({ model, messages, store: true, metadata: { 'js coat': coat } }));
  }
  const red = made.filter((one, at) => at !== 1).map((one) => one.id);
  const query = { limit: 1, metadata: { 'js coat': 'red' } };
  const shown = [];
  for await (const one of alice.chat.completions.list(query)) {
    shown.push(one);
    await alice.chat.completions.delete(one.id);
  }
  assert.deepEqual(shown.map((one) => one.id), red);
  assert.deepEqual(await collect(alice.chat.completions.list(query)), []);
  for (const name of ['bob', 'carol']) {
    const seen = await collect(client(name).chat.completions.list());
    assert.ok(!seen.some((one) => made.some((other) => other.id === one.id)));
  }
  show(made, shown);
  await refusedToStrangers((stranger) => stranger.chat.completions.list({ after: made[1].id }));
});

test('a conversation is continued, listed and closed by its owner alone', async () => {
  const conversation = await alice.conversations.create({});
  await alice.responses.create({ model, input: 'one', conversation: conversation.id });
  const second = await alice.responses.create({ model, input: 'two', conversation: { id: conversation.id } });
  assert.match(second.output_text, /You have sent 2 user messages/);
  const items = await collect(alice.conversations.items.list(conversation.id, { limit: 2 }));
  assert.ok(items.length >= 4);
  show(conversation, second, items);
  await refusedToStrangers((stranger) => stranger.conversations.items.list(conversation.id));
  await refusedToStrangers((stranger) => stranger.responses.create({ model, input: 'x', conversation: conversation.id }));
  await refusedToStrangers((stranger) => stranger.conversations.delete(conversation.id));
  await alice.conversations.delete(conversation.id);
});

test('chat completions answer whole and in streams', async () => {
  const messages = [{ role: 'user', content: 'Hello' }];
  const whole = await alice.chat.completions.create({ model, messages, store: true });
  const chunks = await collect(await alice.chat.completions.create({ model, messages, stream: true }));
  assert.equal(new Set(chunks.map((chunk) => chunk.id)).size, 1);
  assert.deepEqual((await alice.chat.completions.retrieve(whole.id)).choices, whole.choices);
  show(whole, chunks);
  await refusedToStrangers((stranger) => stranger.chat.completions.retrieve(whole.id));
});

test('a file sent ahead of its purpose is used by its owner alone', async () => {
  const bytes = Buffer.from('Grüße, 0.1 1.0 resp_' + 'a1'.repeat(25) + '\r\n');
  const file = await alice.files.create({ file: await toFile(bytes, 'notes ünd.txt'), purpose: 'user_data' });
  assert.equal(file.filename, 'notes ünd.txt');
  assert.deepEqual(Buffer.from(await (await alice.files.content(file.id)).arrayBuffer()), bytes);
  const input = [{ role: 'user', content: [{ type: 'input_file', file_id: file.id }] }];
  show(file, await alice.responses.create({ model, input }));
  assert.ok((await collect(alice.files.list())).some((one) => one.id === file.id));
  for (const name of ['bob', 'carol']) {
    const seen = await collect(client(name).files.list());
    show(seen);
    assert.ok(!seen.some((one) => one.id === file.id));
  }
  await refusedToStrangers((stranger) => stranger.files.retrieve(file.id));
  await refusedToStrangers((stranger) => stranger.files.content(file.id));
  await refusedToStrangers((stranger) => stranger.responses.create({ model, input }), [400, 404]);
  await alice.files.delete(file.id);
});

test('a vector store is filled by the polling helpers and searched by its owner alone', async () => {
  const store = await alice.vectorStores.create({ name: 'coats' });
  const upload = await toFile(Buffer.from('Where is my grey coat?'), 'coats.txt');
  const file = await alice.vectorStores.files.uploadAndPoll(store.id, upload);
  assert.equal(file.status, 'completed');
  assert.equal(file.vector_store_id, store.id);
  const batch = await alice.vectorStores.fileBatches.uploadAndPoll(store.id, {
    files: [await toFile(Buffer.from('a hat'), 'hat.txt'), await toFile(Buffer.from('a scarf'), 'scarf.txt')],
  });
  assert.equal(batch.status, 'completed');
  const found = await collect(alice.vectorStores.search(store.id, { query: 'coat' }));
  assert.ok(found.length > 0);
  assert.ok((await collect(alice.vectorStores.files.list(store.id))).length >= 3);
  const answer = await alice.responses.create({
    model,
    input: '[[script: file_search]] where?',
    tools: [{ type: 'file_search', vector_store_ids: [store.id] }],
  });
  assert.deepEqual(answer.tools[0].vector_store_ids, [store.id]);
  show(store, file, batch, found, answer);
  await refusedToStrangers((stranger) => stranger.vectorStores.search(store.id, { query: 'coat' }));
  await refusedToStrangers((stranger) => stranger.vectorStores.files.list(store.id));
  await alice.vectorStores.delete(store.id);
});

test('a batch runs its lines and gives its output to its owner alone', async () => {
  const first = await alice.responses.create({ model, input: 'one' });
  const line = (custom_id, body) => JSON.stringify({ custom_id, method: 'POST', url: '/v1/responses', body });
  const lines = [line('a', { model, input: 'two', previous_response_id: first.id }), line('b', { model, input: 'x' })];
  const file = await alice.files.create({ file: await toFile(Buffer.from(lines.join('\n')), 'in.jsonl'), purpose: 'batch' });
  let batch = await alice.batches.create({ input_file_id: file.id, endpoint: '/v1/responses', completion_window: '24h' });
  const { id } = batch;
  for (let round = 0; !['completed', 'failed', 'expired'].includes(batch.status); round++) {
    assert.ok(round < 200, 'it never ends');
    await new Promise((resolve) => setTimeout(resolve, 20));
    batch = await alice.batches.retrieve(id);
  }
  assert.equal(batch.status, 'completed');
  assert.equal(batch.input_file_id, file.id);
  const output = await (await alice.files.content(batch.output_file_id)).text();
  const answers = output.trim().split('\n').map((text) => JSON.parse(text));
  assert.deepEqual(new Set(answers.map((one) => one.custom_id)), new Set(['a', 'b']));
  const made = answers.find((one) => one.custom_id === 'a').response.body;
  assert.equal((await alice.responses.retrieve(made.id)).id, made.id);
  show(batch, output);
  await refusedToStrangers((stranger) => stranger.batches.retrieve(id));
  await refusedToStrangers((stranger) => stranger.files.content(batch.output_file_id));
  const foreign = await toFile(Buffer.from(lines.join('\n')), 'in.jsonl');
  await assert.rejects(client('bob').files.create({ file: foreign, purpose: 'batch' }), /^(Error: )?400 Line 1: /);
});
