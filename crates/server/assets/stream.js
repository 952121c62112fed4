// Reads the stream of events with `fetch`, and reconnects when the stream ends or stalls.

import { Problem } from './api.js';
import { withBearerToken } from './bearer.js';

/** The page reports a stall after this time without an event, in milliseconds. */
const STALL_MS = 5_000;
/** If reads of the nodes are slow, events are rarer. Then the page reports a stall after this many pauses between two reads. */
const STALL_PAUSES = 3;
/** The pause between two reads, as a multiple of the duration of a read. See `SLOW_READ_FACTOR` of the service. */
const SLOW_READ_FACTOR = 4;
/** A stream that has stalled for this long is replaced, in milliseconds. */
const GIVE_UP_MS = 15_000;
const RETRY_MIN_MS = 500;
const RETRY_MAX_MS = 8_000;
/** The interval at which the page checks for a stall. */
const STALL_CHECK_INTERVAL_MS = 500;

/** Splits the text of the stream into events. */
export class Splitter {
  /** The text after the last complete event. */
  #rest = '';
  /** The length of the part of `#rest` that was searched for a separator. */
  #searched = 0;

  /** Returns the events that this chunk completes: `{ id, event, data }`. */
  push(chunk) {
    const events = [];
    this.#rest += chunk;
    for (;;) {
      // The separator may span two chunks. Do not search the rest of the text again.
      const end = this.#rest.indexOf('\n\n', Math.max(0, this.#searched - 1));
      if (end < 0) {
        this.#searched = this.#rest.length;
        return events;
      }
      const event = Splitter.#parse(this.#rest.slice(0, end));
      if (event) events.push(event);
      this.#rest = this.#rest.slice(end + 2);
      this.#searched = 0;
    }
  }

  /** Returns the event, or `null` for a keep-alive comment. */
  static #parse(block) {
    const event = { id: null, event: 'message', data: '' };
    let hasField = false;
    for (const line of block.split('\n')) {
      const colon = line.indexOf(':');
      // A line that begins with a colon is a comment.
      if (colon <= 0) continue;
      const value = line.slice(colon + 1).replace(/^ /, '');
      event[line.slice(0, colon)] = value;
      hasField = true;
    }
    return hasField ? event : null;
  }
}

/**
 * A connection to the stream. Its `state` is `connecting`, `live`, `stalled`, `cut` or `refused`. Calls `onEvent(name, data)` for every event,
 * and `onState()` when `state` or `why` changes.
 */
export class Stream {
  state = 'connecting';
  /** Why the stream is stalled, cut or refused. */
  why = '';
  /** When the last event arrived, by `performance.now()`. */
  lastEventAt = null;
  /** When the next attempt to connect begins, by `performance.now()`. */
  nextAttemptAt = null;

  #onEvent;
  #onState;
  /** The id of the last event. */
  #lastEventId = null;
  #abortController = null;
  /** When bytes last arrived or a request was sent, by `performance.now()`. */
  #lastActivityAt = 0;
  #timer = null;
  #failures = 0;
  #stallAfter = STALL_MS;

  constructor(onEvent, onState) {
    this.#onEvent = onEvent;
    this.#onState = onState;
    setInterval(() => this.#checkForStall(), STALL_CHECK_INTERVAL_MS);
    addEventListener('online', () => this.retry());
  }

  /** Connects now, even if the service has refused the stream or the next attempt is later. */
  retry() {
    if (this.state === 'live' || this.#abortController) return;
    clearTimeout(this.#timer);
    this.nextAttemptAt = null;
    // Leave the state `refused`, so that another refusal is a change of state and the page asks for a token again.
    if (this.state === 'refused') this.#setState('connecting', '');
    this.#connect();
  }

  /** Returns the age of the last event, in milliseconds. */
  lastEventAge() {
    return this.lastEventAt == null ? 0 : performance.now() - this.lastEventAt;
  }

  async #connect() {
    const abortController = new AbortController();
    this.#abortController = abortController;
    this.#lastActivityAt = performance.now();
    try {
      const response = await fetch('/v1/events', {
        headers: withBearerToken({ accept: 'text/event-stream', ...(this.#lastEventId && { 'last-event-id': this.#lastEventId }) }),
        cache: 'no-store',
        signal: abortController.signal,
      });
      if (!response.ok) throw await Problem.fromResponse(response);
      await this.#read(response.body.pipeThrough(new TextDecoderStream()).getReader());
      this.#reconnectLater('the service closed the stream');
    } catch (error) {
      this.#reconnectLater(error instanceof Problem ? error.message : 'the service cannot be reached', error.status);
    }
  }

  async #read(reader) {
    const splitter = new Splitter();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      this.#lastActivityAt = performance.now();
      for (const event of splitter.push(value)) this.#handle(event);
    }
  }

  #handle({ id, event, data }) {
    const parsed = JSON.parse(data);
    this.#onEvent(event, parsed);
    // Store the id after `JSON.parse`: an event that cannot be parsed does not count as read.
    if (id) this.#lastEventId = id;
    this.lastEventAt = performance.now();
    this.#failures = 0;
    if (event === 'look') this.#stallAfter = Math.max(STALL_MS, STALL_PAUSES * SLOW_READ_FACTOR * parsed.took_ms);
    this.#setState('live', '');
  }

  /** Plans the next attempt to connect, unless the service has refused the stream. */
  #reconnectLater(why, status) {
    this.#abortController = null;
    if (status === 401 || status === 403) {
      this.#setState('refused', why, status);
      return;
    }
    const pause = Math.min(RETRY_MAX_MS, RETRY_MIN_MS * 2 ** this.#failures) * (0.75 + Math.random() / 2);
    this.#failures += 1;
    this.nextAttemptAt = performance.now() + pause;
    this.#timer = setTimeout(() => this.retry(), pause);
    this.#setState('cut', why);
  }

  #checkForStall() {
    if (this.state !== 'live' && this.state !== 'stalled') {
      // Abort a request that gets no bytes.
      if (performance.now() - this.#lastActivityAt > GIVE_UP_MS) this.#abortController?.abort();
      return;
    }
    if (this.lastEventAge() > this.#stallAfter + GIVE_UP_MS) this.#abortController?.abort();
    else if (this.lastEventAge() > this.#stallAfter) this.#setState('stalled', 'the connection is open, but no events arrive');
  }

  #setState(state, why, status = null) {
    if (this.state === state && this.why === why) return;
    this.state = state;
    this.why = why;
    this.status = status;
    this.#onState();
  }
}
