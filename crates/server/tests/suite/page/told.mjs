// The arguments of the claim, and the connection to the test that started it.

import { createInterface } from 'node:readline/promises';

import { Caller } from './visit.mjs';

export const [claim, address, ...rest] = process.argv.slice(2);
export const caller = new Caller(address);

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Asks the test to carry out a step, and waits until it is done. */
export async function others(step) {
  console.log(step);
  await lines.next();
}
