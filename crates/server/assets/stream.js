// Reads the stream of events with fetch, and reconnects when it ends or stalls.

import { Problem } from './api.js';
import { headers } from './bearer.js';

/** The page reports a stall after this time without a read of the locks, in milliseconds. */
const STALL_MS = 5_000;
/** Reads of many locks are slower and rarer: this multiple of the usual pause is a stall. */
const STALL_PAUSES = 3;
/** The service pauses for this multiple of a read's duration. */
const REST = 4;
/** A stream that has stalled for this long is replaced, in milliseconds. */
const GIVE_UP_MS = 15_000;
const RETRY_MIN_MS = 500;
const RETRY_MAX_MS = 8_000;
const WATCH_MS = 500;

/** Splits the bytes into events. */
export class Splitter {
  #rest = '';
  #searched = 0;

  /** Returns the events that this chunk completes: `{ id, event, data }`. */
  take(piece) {
    const events = [];
    this.#rest += piece;
    for (;;) {
      // The separator may span two chunks. Text that was searched before is not searched again.
      const end = this.#rest.indexOf('\n\n', Math.max(0, this.#searched - 1));
      if (end < 0) {
        this.#searched = this.#rest.length;
        return events;
      }
      const event = Splitter.#read(this.#rest.slice(0, end));
      if (event) events.push(event);
      this.#rest = this.#rest.slice(end + 2);
      this.#searched = 0;
    }
  }

  static #read(block) {
    const event = { id: null, event: 'message', data: '' };
    let any = false;
    for (const line of block.split('\n')) {
      const colon = line.indexOf(':');
      // A line that begins with a colon is a keep-alive.
      if (colon <= 0) continue;
      const value = line.slice(colon + 1).replace(/^ /, '');
      event[line.slice(0, colon)] = value;
      any = true;
    }
    return any ? event : null;
  }
}

/**
 * Follows the service. Calls `onEvent(name, data)` for every event, and `onState()` when `state` may have changed:
 * `connecting`, `live`, `stalled`, `cut` or `refused`.
 */
export class Stream {
  state = 'connecting';
  /** Why it is cut or refused. */
  why = '';
  /** When the last event arrived, by `performance.now()`. */
  heard = null;
  /** When the next attempt begins. */
  nextTry = null;

  #onEvent;
  #onState;
  #last = null;
  #abort = null;
  /** When bytes last arrived or a request was sent. */
  #moved = 0;
  #timer = null;
  #failures = 0;
  #stallAfter = STALL_MS;

  constructor(onEvent, onState) {
    this.#onEvent = onEvent;
    this.#onState = onState;
    setInterval(() => this.#watch(), WATCH_MS);
    addEventListener('online', () => this.retry());
  }

  /** Connects now, even if the stream was refused or waits for its next attempt. */
  retry() {
    if (this.state === 'live' || this.#abort) return;
    clearTimeout(this.#timer);
    this.nextTry = null;
    // A second refusal must be a change of state, so that the page asks again.
    if (this.state === 'refused') this.#become('connecting', '');
    this.#follow();
  }

  /** The age of the last event, in milliseconds. */
  age() {
    return this.heard == null ? 0 : performance.now() - this.heard;
  }

  async #follow() {
    const abort = new AbortController();
    this.#abort = abort;
    this.#moved = performance.now();
    try {
      const response = await fetch('/v1/events', {
        headers: headers({ accept: 'text/event-stream', ...(this.#last && { 'last-event-id': this.#last }) }),
        cache: 'no-store',
        signal: abort.signal,
      });
      if (!response.ok) throw await Problem.of(response);
      await this.#read(response.body.pipeThrough(new TextDecoderStream()).getReader());
      this.#ended('the service closed it');
    } catch (error) {
      this.#ended(error instanceof Problem ? error.message : 'the service cannot be reached', error.status);
    }
  }

  async #read(reader) {
    const splitter = new Splitter();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      this.#moved = performance.now();
      for (const event of splitter.take(value)) this.#hear(event);
    }
  }

  #hear({ id, event, data }) {
    const told = JSON.parse(data);
    this.#onEvent(event, told);
    // An event counts as read when it was parsed.
    if (id) this.#last = id;
    this.heard = performance.now();
    this.#failures = 0;
    if (event === 'look') this.#stallAfter = Math.max(STALL_MS, STALL_PAUSES * REST * told.took_ms);
    this.#become('live', '');
  }

  #ended(why, status) {
    this.#abort = null;
    if (status === 401 || status === 403) {
      this.#become('refused', why, status);
      return;
    }
    const pause = Math.min(RETRY_MAX_MS, RETRY_MIN_MS * 2 ** this.#failures) * (0.75 + Math.random() / 2);
    this.#failures += 1;
    this.nextTry = performance.now() + pause;
    this.#timer = setTimeout(() => this.retry(), pause);
    this.#become('cut', why);
  }

  #watch() {
    if (this.state !== 'live' && this.state !== 'stalled') {
      // A connection without any bytes times out, too.
      if (performance.now() - this.#moved > GIVE_UP_MS) this.#abort?.abort();
      return;
    }
    if (this.age() > this.#stallAfter + GIVE_UP_MS) this.#abort?.abort();
    else if (this.age() > this.#stallAfter) this.#become('stalled', 'the connection stands, and nothing comes');
  }

  #become(state, why, status = null) {
    if (this.state === state && this.why === why) return;
    this.state = state;
    this.why = why;
    this.status = status;
    this.#onState();
  }
}
