// The Responses API's socket with the official SDK, unmodified.
import assert from 'node:assert/strict';
import test from 'node:test';
import { ResponsesWS } from 'openai/resources/responses/ws';
import { client, refusedToStrangers, show } from './house.mjs';

const model = 'gpt-5';

/** A socket of somebody's, and what its next response ends with. An error that the service tells is thrown. */
async function over(person, use) {
  const socket = new ResponsesWS(person);
  // A socket without a listener throws where nobody catches it.
  socket.on('error', (error) => show(error.message));
  const events = socket.stream()[Symbol.asyncIterator]();
  const respond = async (body) => {
    socket.send({ type: 'response.create', model, ...body });
    for (;;) {
      const { value, done } = await events.next();
      assert.ok(!done && value.type !== 'close', 'the socket ended');
      if (value.type === 'error') throw value.error;
      if (value.type !== 'message') continue;
      show(value.message);
      if (value.message.type === 'response.completed') return value.message.response;
    }
  };
  try {
    return await use(respond);
  } finally {
    socket.close();
  }
}

test('a response is made on the socket, continued there, and read and continued over HTTP', async () => {
  const alice = client('alice');
  await over(alice, async (respond) => {
    const first = await respond({ input: '[[script: reasoning, message]] one' });
    const second = await respond({ input: 'two', previous_response_id: first.id });
    assert.equal(second.previous_response_id, first.id);
    assert.match(second.output.at(-1).content[0].text, /You have sent 2 user messages/);
    const read = await alice.responses.retrieve(second.id);
    assert.deepEqual(read.output, second.output);
    const third = await alice.responses.create({ model, input: 'three', previous_response_id: second.id });
    assert.match(third.output_text, /You have sent 3 user messages/);
    show(read, third);
    await refusedToStrangers((stranger) => stranger.responses.retrieve(first.id));
  });
});

test('an error is told and the socket stays', async () => {
  const { id } = await client('alice').responses.create({ model, input: 'hers' });
  for (const name of ['bob', 'carol']) {
    await over(client(name), async (respond) => {
      await assert.rejects(respond({ input: 'x', previous_response_id: id }), (error) => {
        show(error.message, error.error);
        assert.equal(error.error.status, 400);
        assert.equal(error.error.error.code, 'previous_response_not_found');
        return true;
      });
      await assert.rejects(respond({ input: '[[script: status=429]] x' }), (error) => {
        show(error.message, error.error);
        assert.equal(error.error.status, 429);
        return true;
      });
      assert.equal((await respond({ input: 'mine' })).status, 'completed');
    });
  }
});
