// The OpenAI Agents SDK for JavaScript, unmodified: each way that it has of carrying a conversation on.
import assert from 'node:assert/strict';
import test from 'node:test';
import { Agent, OpenAIConversationsSession, OpenAIProvider, Runner, setTracingDisabled, tool } from '@openai/agents';
import { z } from 'zod';
import { client, collect, refusedToStrangers, show } from './house.mjs';

setTracingDisabled(true);

const model = 'gpt-5';
const runner = (of) => new Runner({ modelProvider: new OpenAIProvider({ openAIClient: of, useResponses: true }) });
const alice = runner(client('alice'));
const weather = tool({
  name: 'get_weather',
  description: 'Tells the weather.',
  parameters: z.object({ city: z.string() }),
  execute: async ({ city }) => `rain in ${city}`,
});
const agent = (more = {}) => new Agent({ name: 'Assistant', instructions: 'Be brief.', model, ...more });

test('a plain run replays its items', async () => {
  const first = await alice.run(agent({ tools: [weather] }), '[[script: reasoning]] get_weather');
  assert.match(first.finalOutput, /rain in Paris/);
  const second = await alice.run(agent({ tools: [weather] }), [...first.history, { role: 'user', content: 'and now?' }]);
  assert.match(second.finalOutput, /You have sent 2 user messages/);
  show(first.history, second.history);
});

test('a chain of responses is followed by its owner alone', async () => {
  const first = await alice.run(agent({ tools: [weather] }), 'get_weather');
  const previousResponseId = first.lastResponseId;
  const second = await alice.run(agent(), 'again', { previousResponseId });
  assert.match(second.finalOutput, /You have sent 2 user messages/);
  show(previousResponseId, second.history);
  await refusedToStrangers((stranger) => runner(stranger).run(agent(), 'x', { previousResponseId }), [400]);
});

test('a conversations session is restored by its ID', async () => {
  const session = new OpenAIConversationsSession({ client: client('alice') });
  await alice.run(agent({ tools: [weather] }), 'get_weather', { session });
  const conversationId = await session.getSessionId();
  const restored = new OpenAIConversationsSession({ conversationId, client: client('alice') });
  const second = await alice.run(agent({ tools: [weather] }), '[[script: reasoning]] and?', { session: restored });
  assert.match(second.finalOutput, /You have sent 2 user messages/);
  show(conversationId, await restored.getItems());
  await refusedToStrangers((stranger) =>
    new OpenAIConversationsSession({ conversationId, client: stranger }).getItems(),
  );
  await restored.clearSession();
});

test('a streamed run ends with what it showed', async () => {
  const run = await alice.run(agent({ tools: [weather] }), 'get_weather', { stream: true });
  const events = await collect(run);
  await run.completed;
  assert.match(run.finalOutput, /rain in Paris/);
  show(events.map((event) => event.data), run.history);
});
