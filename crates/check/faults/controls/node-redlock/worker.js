// A client of node-redlock for the harness: uses its `using` with its defaults. Every choice favours node-redlock.
'use strict';

const fs = require('node:fs');
const net = require('node:net');
const readline = require('node:readline');
const { setTimeout: sleep } = require('node:timers/promises');
const Redis = require('ioredis');
const { Redlock } = require('@sesamecare-oss/redlock');

const task = JSON.parse(process.argv[2]);
/** A longer validity is reported in steps of at least this many nanoseconds. */
const REPORT_STEP = 50_000_000;
/** How long a release may take when the episode is over, in milliseconds. */
const LAST_RELEASE = 2_000;

/** The clock that times every event: CLOCK_MONOTONIC, in nanoseconds. */
const now = () => Number(process.hrtime.bigint());
const below = (limit) => Math.floor(Math.random() * (limit + 1));
/** Writes one line in one write, so that a signal cannot lose or split it. */
const tell = (event) => fs.writeSync(1, `${JSON.stringify(event)}\n`);

let ended = false;
process.stdin.on('end', () => (ended = true)).resume();

class Register {
  constructor(address) {
    const [host, port] = address.split(':');
    this.socket = net.connect({ host, port: Number(port), noDelay: true });
    this.answers = readline.createInterface({ input: this.socket })[Symbol.asyncIterator]();
  }

  async access(turn, name, write) {
    this.socket.write(`${JSON.stringify({ client: task.client, turn, name, fence: null, write })}\n`);
    return JSON.parse((await this.answers.next()).value);
  }
}

/** How long a lock is still valid, in milliseconds: one less than it reports, because its clock has whole milliseconds. */
const left = (lock) => lock.expiration - Date.now() - 1;

/** Reads the register, pauses, and writes it back, if there is time. */
async function step(register, turn, name, context) {
  const think = below(task.step_ms);
  if (left(context.lock) < task.margin_ms) {
    await sleep(think);
    return;
  }
  const known = await register.access(turn, name, null);
  await sleep(think);
  await register.access(turn, name, known);
}

async function hold(register, turn, name, busy, signal, context) {
  let at = now();
  let until = at + left(context.lock) * 1e6;
  if (until <= at) {
    tell({ event: 'lost', turn, at });
    return;
  }
  tell({ event: 'granted', turn, at, until, fence: null });
  const done = at + busy * 1e6;
  while (now() < done && !ended) {
    if (signal.aborted || left(context.lock) <= 0) {
      tell({ event: 'lost', turn, at: now() });
      return;
    }
    await step(register, turn, name, context);
    at = now();
    const valid = at + left(context.lock) * 1e6;
    if (valid > at && valid > until + REPORT_STEP) {
      until = valid;
      tell({ event: 'extended', turn, at, until });
    }
  }
  tell({ event: 'released', turn, at: now() });
}

async function takeTurn(redlock, register, turn) {
  const name = task.names[below(task.names.length - 1)];
  const busy = below(below(task.long_one_in - 1) === 0 ? task.long_ms : task.busy_ms);
  tell({ event: 'asked', turn, name, at: now() });
  let held = false;
  while (!held) {
    const over = deferred();
    const used = redlock
      .using([name], task.ttl_ms, async (signal, context) => {
        held = true;
        await hold(register, turn, name, busy, signal, context);
        over.resolve();
      })
      // The lock could not be acquired, or not be released.
      .catch(() => {});
    await Promise.race([used, over.promise.then(() => (ended ? sleep(LAST_RELEASE) : used))]);
  }
}

function deferred() {
  const parts = {};
  parts.promise = new Promise((resolve) => (parts.resolve = resolve));
  return parts;
}

async function main() {
  const clients = task.urls.map((url) => new Redis(url));
  // The commands fail if a node is gone.
  clients.forEach((client) => client.on('error', () => {}));
  const redlock = new Redlock(clients);
  const register = new Register(task.register);
  for (let turn = 1; !ended; turn += 1) {
    await sleep(below(task.rest_ms));
    if (!ended) {
      await takeTurn(redlock, register, turn);
    }
  }
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
