// Vercel's AI SDK with its OpenAI provider, unmodified: it replays stored items by reference.
import assert from 'node:assert/strict';
import test from 'node:test';
import { createOpenAI } from '@ai-sdk/openai';
import { generateText, isStepCount, stepCountIs, streamText, tool } from 'ai';
import { toFile } from 'openai';
import { z } from 'zod';
import { client, keys, refusedToStrangers, show, url } from './house.mjs';

const provider = (name) => createOpenAI({ apiKey: keys[name], baseURL: url });
const model = provider('alice')('gpt-5');
const tools = {
  get_weather: tool({
    description: 'Tells the weather.',
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => `rain in ${city}`,
  }),
};
const steps = (stepCountIs ?? isStepCount)(5);

test('a tool loop goes on by references to its own items', async () => {
  const prompt = '[[script: reasoning]] get_weather';
  const first = await generateText({ model, prompt, tools, stopWhen: steps, maxRetries: 0 });
  assert.match(first.text, /rain in Paris/);
  assert.equal(first.steps.length, 2);
  const messages = [{ role: 'user', content: prompt }, ...first.response.messages, { role: 'user', content: 'and now?' }];
  const second = await generateText({ model, messages, tools, stopWhen: steps, maxRetries: 0 });
  assert.match(second.text, /You have sent 2 user messages/);
  show(first.response, second.response);
  await refusedToStrangers(
    (_, name) => generateText({ model: provider(name)('gpt-5'), messages, tools, maxRetries: 0 }),
    [404],
  );
});

test('a previous response is continued by its owner alone', async () => {
  const first = await generateText({ model, prompt: 'one', maxRetries: 0 });
  const previousResponseId = first.providerMetadata.openai.responseId;
  const providerOptions = { openai: { previousResponseId } };
  const second = await generateText({ model, prompt: 'two', providerOptions, maxRetries: 0 });
  assert.match(second.text, /You have sent 2 user messages/);
  show(first.response, second.response);
  await refusedToStrangers(
    (_, name) => generateText({ model: provider(name)('gpt-5'), prompt: 'x', providerOptions, maxRetries: 0 }),
    [400],
  );
});

test('a stream is read to its end', async () => {
  const run = streamText({ model, prompt: '[[script: reasoning, message]] hello', maxRetries: 0 });
  const parts = [];
  for await (const part of run.stream ?? run.fullStream) {
    assert.notEqual(part.type, 'error', JSON.stringify(part));
    parts.push(part);
  }
  assert.ok((await run.text).length > 0);
  show(parts, await run.response);
});

test('a file is named by its ID', async () => {
  const file = await client('alice').files.create({ file: await toFile(Buffer.from('%PDF-1.4'), 'a.pdf'), purpose: 'user_data' });
  const content = [{ type: 'file', data: file.id, mediaType: 'application/pdf' }, { type: 'text', text: 'what is it?' }];
  const messages = [{ role: 'user', content }];
  show(file, (await generateText({ model, messages, maxRetries: 0 })).response);
  await refusedToStrangers(
    (_, name) => generateText({ model: provider(name)('gpt-5'), messages, maxRetries: 0 }),
    [400, 404],
  );
});
