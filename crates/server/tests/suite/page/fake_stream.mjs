// A fake stream of events. The claim chooses the events. Their format is that of the service.

import { Caller } from './visit.mjs';

export class FakeStream {
  #locks;
  #nodes;
  #readers = new Set();

  constructor(locks, states = ['voting']) {
    const majority = Math.floor(states.length / 2) + 1;
    const voting = states.filter((state) => state === 'voting').length;
    const nodes = states.map((state, index) => ({
      node: `redis://10.20.30.4${index}:6379`,
      state,
      trouble: null,
      p50_us: 200,
      p99_us: 900,
      restarts: 0,
    }));
    this.#locks = new Map(locks.map((lock) => [lock.name, lock]));
    this.#nodes = { total: nodes.length, majority, voting, can_lose: Math.max(0, voting - majority), nodes };
  }

  /** Reads the lock of this lease from the service, in the form of a `lock` event. */
  static async readLock(address, lease) {
    const lock = await new Caller(address).readLock(lease);
    return { ...lock, renewals: 0, at_ms: Date.now() };
  }

  /** Handles a request for the stream. */
  handler = (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    this.#readers.add(response);
    const locks = [...this.#locks.values()];
    sendEvent(response, 'snapshot', { at_ms: Date.now(), nodes: this.#nodes, locks, history: [] });
    const timer = setInterval(() => this.sendLook(), 1_000);
    response.on('close', () => {
      clearInterval(timer);
      this.#readers.delete(response);
    });
  };

  /** Sends a `lock` event. */
  sendLock(lock) {
    this.#locks.set(lock.name, lock);
    this.#send('lock', lock);
  }

  /** Sends a `history` event. */
  sendHistory(event) {
    this.#send('history', event);
  }

  /** Sends a `look` event: the nodes were read at this time, by default now. */
  sendLook(at_ms = Date.now()) {
    this.#send('look', { at_ms, took_ms: 20, locks: this.#locks.size, is_truncated: false, trouble: null });
  }

  #send(event, data) {
    for (const reader of this.#readers) sendEvent(reader, event, data);
  }
}

const sendEvent = (reader, event, data) => reader.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
