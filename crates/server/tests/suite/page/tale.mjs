// A stream of events that the claim chooses, in the format of the service.

import { Caller } from './visit.mjs';

export class Tale {
  #locks;
  #nodes;
  #readers = new Set();

  constructor(locks, states = ['voting']) {
    const majority = Math.floor(states.length / 2) + 1;
    const voting = states.filter((state) => state === 'voting').length;
    const nodes = states.map((state, at) => ({
      node: `redis://10.20.30.4${at}:6379`,
      state,
      trouble: null,
      p50_us: 200,
      p99_us: 900,
      restarts: 0,
    }));
    this.#locks = new Map(locks.map((lock) => [lock.name, lock]));
    this.#nodes = { total: nodes.length, majority, voting, can_lose: Math.max(0, voting - majority), nodes };
  }

  /** Reads the lock that this lease holds from the service. */
  static async of(address, lease) {
    const lock = await new Caller(address).read(lease);
    return { ...lock, renewals: 0, at_ms: Date.now() };
  }

  /** Sends the stream. */
  answer = (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    this.#readers.add(response);
    const locks = [...this.#locks.values()];
    tell(response, 'snapshot', { at_ms: Date.now(), nodes: this.#nodes, locks, history: [] });
    const turn = setInterval(() => this.look(), 1_000);
    response.on('close', () => {
      clearInterval(turn);
      this.#readers.delete(response);
    });
  };

  /** Sends a change of a lock. */
  change(lock) {
    this.#locks.set(lock.name, lock);
    this.#say('lock', lock);
  }

  /** Sends an event of the history. */
  happen(event) {
    this.#say('history', event);
  }

  /** Sends the time at which the nodes were read, by default now. */
  look(at_ms = Date.now()) {
    this.#say('look', { at_ms, took_ms: 20, locks: this.#locks.size, is_cut: false, trouble: null });
  }

  #say(event, data) {
    for (const reader of this.#readers) tell(reader, event, data);
  }
}

const tell = (reader, event, data) => reader.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
