// A client process that uses node-redlock: its function `using`, with the default settings. Every choice favours
// node-redlock.
'use strict';

const fs = require('node:fs');
const net = require('node:net');
const readline = require('node:readline');
const { setTimeout: sleep } = require('node:timers/promises');
const Redis = require('ioredis');
const { Redlock } = require('@sesamecare-oss/redlock');

const task = JSON.parse(process.argv[2]);
/** A new end of the validity is reported only if it is at least this many nanoseconds after the reported one. */
const REPORT_STEP_NANOS = 50_000_000;
/** How long the last release may take after stdin has ended, in milliseconds. */
const LAST_RELEASE_MS = 2_000;

/** The clock that times every event: CLOCK_MONOTONIC, in nanoseconds. */
const now = () => Number(process.hrtime.bigint());
const randomUpTo = (limit) => Math.floor(Math.random() * (limit + 1));
/** Writes one line in one write, so that a signal cannot lose or split it. */
const reportEvent = (event) => fs.writeSync(1, `${JSON.stringify(event)}\n`);

let ended = false;
process.stdin.on('end', () => (ended = true)).resume();

class Register {
  constructor(address) {
    const [host, port] = address.split(':');
    this.socket = net.connect({ host, port: Number(port), noDelay: true });
    this.replies = readline.createInterface({ input: this.socket })[Symbol.asyncIterator]();
  }

  async access(turn, name, write) {
    this.socket.write(`${JSON.stringify({ client: task.client, turn, name, fence: null, write })}\n`);
    return JSON.parse((await this.replies.next()).value);
  }
}

/** The remaining validity of a lock in milliseconds. Its clock has whole milliseconds, so one millisecond is subtracted. */
const remainingMs = (lock) => lock.expiration - Date.now() - 1;

/** Reads the registers, pauses, and writes them back, if the lock is valid for long enough. */
async function step(register, turn, name, context) {
  const pause = randomUpTo(task.step_ms);
  if (remainingMs(context.lock) < task.margin_ms) {
    await sleep(pause);
    return;
  }
  const versionsRead = await register.access(turn, name, null);
  await sleep(pause);
  await register.access(turn, name, versionsRead);
}

async function hold(register, turn, name, busy, signal, context) {
  let at = now();
  let until = at + remainingMs(context.lock) * 1e6;
  if (until <= at) {
    reportEvent({ event: 'lost', turn, at });
    return;
  }
  reportEvent({ event: 'granted', turn, at, until, fence: null });
  const workUntil = at + busy * 1e6;
  while (now() < workUntil && !ended) {
    if (signal.aborted || remainingMs(context.lock) <= 0) {
      reportEvent({ event: 'lost', turn, at: now() });
      return;
    }
    await step(register, turn, name, context);
    at = now();
    const newUntil = at + remainingMs(context.lock) * 1e6;
    if (newUntil > at && newUntil > until + REPORT_STEP_NANOS) {
      until = newUntil;
      reportEvent({ event: 'extended', turn, at, until });
    }
  }
  reportEvent({ event: 'released', turn, at: now() });
}

async function takeTurn(redlock, register, turn) {
  const name = task.names[randomUpTo(task.names.length - 1)];
  const busy = randomUpTo(randomUpTo(task.long_one_in - 1) === 0 ? task.long_ms : task.busy_ms);
  reportEvent({ event: 'asked', turn, name, at: now() });
  let held = false;
  while (!held) {
    const turnOver = deferred();
    const usage = redlock
      .using([name], task.ttl_ms, async (signal, context) => {
        held = true;
        await hold(register, turn, name, busy, signal, context);
        turnOver.resolve();
      })
      // An acquire or a release failed. The loop tries again.
      .catch(() => {});
    await Promise.race([usage, turnOver.promise.then(() => (ended ? sleep(LAST_RELEASE_MS) : usage))]);
  }
}

/** A promise, and the function that resolves it. */
function deferred() {
  const result = {};
  result.promise = new Promise((resolve) => (result.resolve = resolve));
  return result;
}

async function main() {
  const clients = task.urls.map((url) => new Redis(url));
  // If a node is down, its commands fail. The error event of the connection needs no handling.
  clients.forEach((client) => client.on('error', () => {}));
  const redlock = new Redlock(clients);
  const register = new Register(task.register);
  for (let turn = 1; !ended; turn += 1) {
    await sleep(randomUpTo(task.rest_ms));
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
