// The Rust test that started the claim: the arguments that it passed, and the steps that it carries out for the claim.

import { createInterface } from 'node:readline/promises';

import { Caller } from './visit.mjs';

export const [claim, address, ...otherArguments] = process.argv.slice(2);
export const caller = new Caller(address);

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Asks the test to carry out a step, and waits until the test has done so. */
export async function runStep(step) {
  console.log(step);
  await lines.next();
}
