// What we were told when we were started, and how to ask for more.

import { createInterface } from 'node:readline/promises';

import { Caller } from './visit.mjs';

export const [claim, address, ...rest] = process.argv.slice(2);
export const caller = new Caller(address);

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Asks whoever has started us to do something, and waits until it is done. */
export async function others(step) {
  console.log(step);
  await lines.next();
}
