// What the tests know of the gateway that runs beside them, and what of its answers is kept for the search for raw IDs.
import { appendFileSync } from 'node:fs';
import assert from 'node:assert/strict';
import OpenAI from 'openai';

export const { url, keys } = JSON.parse(process.env.COATCHECK_HOUSE);

/** A client of the official SDK for `alice`, `carol` (her tenant, somebody else) or `bob` (another tenant). */
export const client = (name) => new OpenAI({ apiKey: keys[name], baseURL: url, maxRetries: 0 });

/** Keeps what a client was shown: the test that started this one searches all of it for raw IDs. */
export const show = (...values) => appendFileSync(process.env.COATCHECK_SHOWN, JSON.stringify(values) + '\n');

/** Neither another tenant's user nor another user of the same tenant can do it: OpenAI's own not-found is the answer. */
export async function refusedToStrangers(attempt, statuses = [404]) {
  for (const name of ['bob', 'carol']) {
    await assert.rejects(attempt(client(name), name), (error) => {
      show(name, error.message);
      const status = error.status ?? error.statusCode ?? error.lastError?.statusCode;
      assert.ok(statuses.includes(status), `${name} got ${status}: ${error.message}`);
      return true;
    });
  }
}

export const collect = async (iterable) => {
  const all = [];
  for await (const one of iterable) all.push(one);
  return all;
};
