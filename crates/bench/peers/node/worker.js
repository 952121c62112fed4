// A benchmark worker for node-redlock. It prints a line when it is ready. Each line on its stdin is the length of a turn
// in milliseconds. For each line, the worker runs cycles for this time and prints one line of figures.
'use strict';

const readline = require('node:readline');
const Redis = require('ioredis');
const { Redlock } = require('@sesamecare-oss/redlock');

const task = JSON.parse(process.argv[2]);
const clients = task.nodes.map((url) => new Redis(url));
// A node that fails must not end the benchmark.
for (const client of clients) client.on('error', () => {});
const redlock = new Redlock(clients);
redlock.on('error', () => {});

const micros = () => Number(process.hrtime.bigint()) / 1000;

async function runCycles(name, until, cycles) {
  while (micros() < until) {
    const startedAt = micros();
    try {
      const lock = await redlock.acquire([name], task.ttl_ms);
      await lock.release();
      cycles.micros.push(micros() - startedAt);
    } catch {
      cycles.failures += 1;
    }
  }
}

async function runTurn(length) {
  const begun = micros();
  const cycles = { micros: [], failures: 0 };
  const callers = Array.from({ length: task.callers }, (_, caller) => runCycles(`node/${caller}`, begun + length * 1000, cycles));
  await Promise.all(callers);
  const seconds = (micros() - begun) / 1e6;
  const sorted = cycles.micros.sort((one, other) => one - other);
  const figures = { cycles_per_second: sorted.length / seconds };
  if (sorted.length > 0) {
    figures.p50_us = sorted[Math.round((sorted.length - 1) * 0.5)];
    figures.p99_us = sorted[Math.round((sorted.length - 1) * 0.99)];
  }
  if (cycles.failures > 0) figures.failures = cycles.failures;
  return figures;
}

async function main() {
  console.log('ready');
  for await (const line of readline.createInterface({ input: process.stdin })) {
    console.log(JSON.stringify(await runTurn(Number(line))));
  }
  process.exit(0);
}

main();
