// Speech over WebSocket with both JavaScript SDKs, unmodified.
import assert from 'node:assert/strict';
import https from 'node:https';
import net from 'node:net';
import test from 'node:test';
import { RealtimeAgent, RealtimeSession, tool } from '@openai/agents/realtime';
import { OpenAIRealtimeWS } from 'openai/realtime/ws';
import { z } from 'zod';
import { client, keys, show, url } from './house.mjs';

const model = 'gpt-realtime';
const socketUrl = `${url.replace('http', 'ws')}/realtime?model=${model}`;

/** The official SDK opens secure sockets alone; TLS is the business of whatever stands before the gateway. */
class Plain extends https.Agent {
  createConnection({ host, port }, done) {
    return net.connect({ host, port }, done);
  }
}

test('a session of the official SDK names and removes its items', async () => {
  const socket = new OpenAIRealtimeWS({ model, options: { agent: new Plain() } }, client('alice'));
  const waiting = [];
  socket.on('event', (event) => {
    show(event);
    for (const one of waiting.filter(({ kind }) => kind === event.type)) {
      waiting.splice(waiting.indexOf(one), 1);
      one.resolve(event);
    }
  });
  socket.on('error', (error) => waiting.splice(0).forEach((one) => one.reject(error)));
  const next = (kind) => new Promise((resolve, reject) => waiting.push({ kind, resolve, reject }));
  await next('session.created');
  const item = { id: 'mine_1', type: 'message', role: 'user', content: [{ type: 'input_text', text: 'hello' }] };
  const added = next('conversation.item.done');
  socket.send({ type: 'conversation.item.create', item });
  assert.equal((await added).item.id, 'mine_1');
  const done = next('response.done');
  socket.send({ type: 'response.create' });
  const [answer] = (await done).response.output;
  assert.match(answer.content[0].transcript, /You have sent 1 items/);
  for (const item_id of ['mine_1', answer.id]) {
    const deleted = next('conversation.item.deleted');
    socket.send({ type: 'conversation.item.delete', item_id });
    assert.equal((await deleted).item_id, item_id);
  }
  const refused = next('never');
  socket.send({ type: 'conversation.item.delete', item_id: answer.id + '0', event_id: 'asked' });
  await assert.rejects(refused, (error) => {
    show(error.message);
    return error.event_id === 'asked' || error.error?.event_id === 'asked';
  });
  socket.close();
});

test('a session of the Agents SDK calls its tools', async () => {
  const weather = tool({
    name: 'get_weather',
    description: 'Tells the weather.',
    parameters: z.object({ city: z.string() }),
    execute: async ({ city }) => `rain in ${city}`,
  });
  const agent = new RealtimeAgent({ name: 'Assistant', instructions: 'Be brief.', tools: [weather] });
  const session = new RealtimeSession(agent, { transport: 'websocket', model });
  const called = new Promise((resolve) => session.on('agent_tool_end', (_context, _agent, _tool, result) => resolve(result)));
  let spoken = 0;
  const answered = new Promise((resolve, reject) => {
    session.on('transport_event', (event) => {
      show(event);
      if (event.type === 'response.done' && event.response.output[0].type === 'message') resolve(event.response);
    });
    session.on('audio', () => { spoken += 1; });
    session.on('error', reject);
  });
  await session.connect({ apiKey: keys.alice, url: socketUrl });
  session.sendMessage('[[script: function_call]] get_weather');
  assert.equal(await called, 'rain in Oslo');
  await answered;
  assert.ok(spoken > 0);
  assert.ok(session.history.some((item) => item.type === 'function_call' && item.output === 'rain in Oslo'));
  show(session.history);
  session.close();
});
