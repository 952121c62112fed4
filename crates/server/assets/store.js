// The state of the page, which is built from the events of the stream.

import * as clock from './clock.js';
import { Hotspots } from './hotspots.js';

/** The largest number of events to keep. */
const HISTORY_MAX = 5_000;
/** The largest number of round-trip samples to keep for each node: half an hour. */
const SAMPLES_MAX = 1_800;

/** The largest assumed difference between the clocks of two successive holders, in milliseconds. */
const CLOCKS_APART_MS = 100;

const hasOneHolder = ({ mode }) => mode === 'exclusive' || mode === 'reentrant';

/** Returns whether one event certainly came before the other, even if their times say otherwise: a lock is released before it is granted again. */
function isBefore(one, other) {
  if (one.what !== 'released' || other.what !== 'granted' || one.name !== other.name) return false;
  return one.fence < other.fence && hasOneHolder(one) && hasOneHolder(other) && one.at_ms - other.at_ms <= CLOCKS_APART_MS;
}

export class Store {
  locks = new Map();
  nodes = { total: 0, majority: 0, voting: 0, can_lose: 0, nodes: [] };
  /** The events of the history, newest first. */
  history = [];
  hotspots = new Hotspots();
  /** When the samples were taken, in seconds of Unix time. */
  sampleTimes = [];
  /** The samples of each node by its URL: `{ p50: [], p99: [] }` in milliseconds. */
  samples = new Map();
  /** The last `look` event: `{ at_ms, took_ms, locks, is_truncated, trouble }`. */
  look = null;
  /** When the service last read the locks, by `performance.now()`. */
  locksReadAt = null;
  /** The number of changes of the locks. */
  version = 0;
  /** Whether a snapshot has arrived. */
  hasSnapshot = false;

  /** Applies one event of the stream. */
  apply(event, data) {
    const handler = this[`_${event}`];
    // A newer service may send events that this page does not know.
    if (handler) handler.call(this, data);
  }

  /** Returns the state of a node: `voting`, `quarantined` and so on. */
  nodeState(url) {
    return this.nodes.nodes.find(({ node }) => node === url)?.state;
  }

  /** Whether the service cannot read the locks. If so, the known locks may be old. */
  get areLocksUnreadable() {
    // Before the first read of the locks, assume that they can be read if a majority votes.
    return this.look ? this.look.trouble != null : this.hasSnapshot && this.nodes.voting < this.nodes.majority;
  }

  /** Whether all locks are known, so that an unknown lock is free. */
  get hasAllLocks() {
    return this.hasSnapshot && !this.areLocksUnreadable && !this.look?.is_truncated;
  }

  /** The time left of a lock, in milliseconds. */
  static timeLeft(lock) {
    return lock.left_ms == null ? null : Math.max(0, lock.left_ms - (clock.now() - lock.at_ms));
  }

  /** How long the lock has been held, in milliseconds. */
  static age(lock) {
    return lock.since_ms == null ? null : Math.max(0, clock.now() - lock.since_ms);
  }

  _snapshot({ at_ms, nodes, locks, history, outages = [], lapses = [] }) {
    clock.restart(at_ms);
    const before = this.locks;
    this.locks = new Map();
    for (const lock of locks) this.#put(lock, before.get(lock.name));
    for (const [name, lock] of before) if (!this.locks.has(name)) this.hotspots.updateLock(name, lock, null);
    this._nodes(nodes);
    const known = new Set(this.history.map(eventKey));
    const isNew = (event) => !known.has(eventKey(event));
    // If none of the events in the snapshot is known, some events before them may be missing.
    const isFromNodes = ({ name, what }) => name && what !== 'lapsed';
    if (this.history.some(isFromNodes) && history.length > 0 && history.every(isNew)) this._gap(history.at(-1));
    for (const event of history.filter(isNew).reverse()) this._history(event);
    for (const event of [...outages.map(nodeEvent), ...lapses].filter(isNew).reverse()) this._history(event);
    this.hasSnapshot = true;
    if (!this.areLocksUnreadable) this.locksReadAt ??= performance.now();
    this.version += 1;
  }

  _lock(lock) {
    this.#put(lock, this.locks.get(lock.name));
    this.version += 1;
  }

  _gone({ name }) {
    this.hotspots.updateLock(name, this.locks.get(name), null);
    this.locks.delete(name);
    this.version += 1;
  }

  _nodes(nodes) {
    for (const node of nodes.nodes) node.receivedAt = performance.now();
    this.nodes = nodes;
  }

  _node(outage) {
    this._history(nodeEvent(outage));
  }

  /** Adds an event of the kind `gap` to the history: some events from before `at_ms` are missing. */
  _gap({ at_ms }) {
    const reason = 'some events are missing here: more happened than the service could read';
    this._history({ ...NO_LOCK, at_ms, what: 'gap', reason });
  }

  _history(event) {
    this.history.splice(this.#indexFor(event), 0, event);
    this.hotspots.addEvent(event);
    if (this.history.length > HISTORY_MAX) this.history.length = HISTORY_MAX;
  }

  /** Returns the index for a new event in the history. It is not always 0, because events about locks arrive later than events about nodes. */
  #indexFor(event) {
    let index = 0;
    for (const [knownIndex, known] of this.history.entries()) {
      if (known.at_ms < event.at_ms - CLOCKS_APART_MS) break;
      if (isBefore(known, event)) break;
      if (known.at_ms > event.at_ms || isBefore(event, known)) index = knownIndex + 1;
    }
    return index;
  }

  _look(look) {
    clock.update(look.at_ms);
    // The views must be updated, because an unknown lock is no longer shown as free, or is shown as free again.
    if (!this.look || this.areLocksUnreadable !== (look.trouble != null)) this.version += 1;
    this.look = look;
    if (!look.trouble) this.locksReadAt = performance.now();
    this.#sample(look.at_ms / 1_000);
  }

  #put(lock, before) {
    // A bar shows the time left. It is full at the longest time left that the page has seen for the lease, which is close to the ttl.
    const isSameLease = before?.fence === lock.fence && before?.digest === lock.digest;
    lock.full_ms = Math.max(lock.left_ms ?? 0, isSameLease ? before.full_ms : 0);
    this.hotspots.updateLock(lock.name, before, lock);
    this.locks.set(lock.name, lock);
  }

  #sample(seconds) {
    if (seconds <= this.sampleTimes.at(-1)) return;
    this.sampleTimes.push(seconds);
    for (const { node, p50_us, p99_us, state } of this.nodes.nodes) {
      if (!this.samples.has(node)) {
        const missing = () => new Array(this.sampleTimes.length - 1).fill(null);
        this.samples.set(node, { p50: missing(), p99: missing() });
      }
      const samples = this.samples.get(node);
      const isReachable = state !== 'unreachable';
      samples.p50.push(isReachable && p50_us != null ? p50_us / 1_000 : null);
      samples.p99.push(isReachable && p99_us != null ? p99_us / 1_000 : null);
    }
    if (this.sampleTimes.length > SAMPLES_MAX) {
      this.sampleTimes.shift();
      for (const { p50, p99 } of this.samples.values()) {
        p50.shift();
        p99.shift();
      }
    }
  }
}

/** The fields of an event that is not about a lock. */
const NO_LOCK = { name: '', node: null, fence: null, by: null, mode: '' };

/** Converts the data of a `node` event to an event of the history. */
const nodeEvent = (outage) => ({ ...NO_LOCK, ...outage });

/** Returns a key that is the same for all copies of one event. */
export const eventKey = (event) => `${event.at_ms} ${event.what} ${event.fence} ${event.name} ${event.node ?? ''}`;
