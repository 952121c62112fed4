// The state that the stream's events add up to.

import * as clock from './clock.js';
import { Hotspots } from './hotspots.js';

/** The most events to keep. */
const HISTORY_MAX = 5_000;
/** The most round-trip samples per node: half an hour. */
const SAMPLES_MAX = 1_800;

/** The largest difference between the clocks of two successive holders, in milliseconds. */
const CLOCKS_APART_MS = 100;

const isAlone = ({ mode }) => mode === 'exclusive' || mode === 'reentrant';

/** Whether one event came before the other despite its time: a lock is released before it is granted again. */
function isBefore(one, other) {
  if (one.what !== 'released' || other.what !== 'granted' || one.name !== other.name) return false;
  return one.fence < other.fence && isAlone(one) && isAlone(other) && one.at_ms - other.at_ms <= CLOCKS_APART_MS;
}

export class Store {
  locks = new Map();
  nodes = { total: 0, majority: 0, voting: 0, can_lose: 0, nodes: [] };
  /** Newest first. */
  history = [];
  hotspots = new Hotspots();
  /** When, in seconds of Unix time, the samples were taken. */
  sampled = [];
  /** The samples of each node by its URL: `{ p50: [], p99: [] }` in milliseconds. */
  samples = new Map();
  /** The last look: `{ at_ms, took_ms, locks, is_cut, trouble }`. */
  look = null;
  /** When the service last read the locks, by `performance.now()`. */
  seen = null;
  /** A counter of changes that affect the set of locks or their order. */
  version = 0;
  isKnown = false;

  /** Applies one event of the stream. */
  apply(event, data) {
    const take = this[`_${event}`];
    // A newer service may send other events.
    if (take) take.call(this, data);
  }

  /** `voting`, `quarantined` and so on. */
  stateOf(url) {
    return this.nodes.nodes.find(({ node }) => node === url)?.state;
  }

  /** Whether the service cannot read the locks. The known locks may then be old. */
  get isBlind() {
    // Before the first read, the nodes decide.
    return this.look ? this.look.trouble != null : this.isKnown && this.nodes.voting < this.nodes.majority;
  }

  /** Whether a lock that is not listed is free. */
  get isWhole() {
    return this.isKnown && !this.isBlind && !this.look?.is_cut;
  }

  /** The time left of a lock, in milliseconds. */
  static left(lock) {
    return lock.left_ms == null ? null : Math.max(0, lock.left_ms - (clock.now() - lock.at_ms));
  }

  /** How long the lock has been held, in milliseconds. */
  static age(lock) {
    return lock.since_ms == null ? null : Math.max(0, clock.now() - lock.since_ms);
  }

  _snapshot({ at_ms, nodes, locks, history, outages = [], lapses = [] }) {
    clock.set(at_ms);
    const before = this.locks;
    this.locks = new Map();
    for (const lock of locks) this.#put(lock, before.get(lock.name));
    for (const [name, lock] of before) if (!this.locks.has(name)) this.hotspots.see(name, lock, null);
    this._nodes(nodes);
    const known = new Set(this.history.map(identity));
    const isNews = (event) => !known.has(identity(event));
    // None of the events is known: some events in between are missing.
    const isOfNodes = ({ name, what }) => name && what !== 'lapsed';
    if (this.history.some(isOfNodes) && history.length > 0 && history.every(isNews)) this._gap(history.at(-1));
    for (const event of history.filter(isNews).reverse()) this._history(event);
    for (const event of [...outages.map(ofNode), ...lapses].filter(isNews).reverse()) this._history(event);
    this.isKnown = true;
    if (!this.isBlind) this.seen ??= performance.now();
    this.version += 1;
  }

  _lock(lock) {
    this.#put(lock, this.locks.get(lock.name));
    this.version += 1;
  }

  _gone({ name }) {
    this.hotspots.see(name, this.locks.get(name), null);
    this.locks.delete(name);
    this.version += 1;
  }

  _nodes(nodes) {
    for (const node of nodes.nodes) node.heard = performance.now();
    this.nodes = nodes;
  }

  _node(outage) {
    this._history(ofNode(outage));
  }

  /** Notes that events before this one are missing. */
  _gap({ at_ms }) {
    const reason = 'more happened than was read: some of it is missing here';
    this._history({ ...NOTHING, at_ms, what: 'gap', reason });
  }

  _history(event) {
    this.history.splice(this.#placeOf(event), 0, event);
    this.hotspots.hear(event);
    if (this.history.length > HISTORY_MAX) this.history.length = HISTORY_MAX;
  }

  /** The index for a new event. Events of locks arrive a moment later than those of nodes. */
  #placeOf(event) {
    let at = 0;
    for (const [below, known] of this.history.entries()) {
      if (known.at_ms < event.at_ms - CLOCKS_APART_MS) break;
      if (isBefore(known, event)) break;
      if (known.at_ms > event.at_ms || isBefore(event, known)) at = below + 1;
    }
    return at;
  }

  _look(look) {
    clock.hear(look.at_ms);
    // A missing lock means nothing while the locks cannot be read.
    if (!this.look || this.isBlind !== (look.trouble != null)) this.version += 1;
    this.look = look;
    if (!look.trouble) this.seen = performance.now();
    this.#sample(look.at_ms / 1_000);
  }

  #put(lock, before) {
    // The bar is full at the longest time left that was seen, which approaches the ttl.
    const isSame = before?.fence === lock.fence && before?.digest === lock.digest;
    lock.full_ms = Math.max(lock.left_ms ?? 0, isSame ? before.full_ms : 0);
    this.hotspots.see(lock.name, before, lock);
    this.locks.set(lock.name, lock);
  }

  #sample(seconds) {
    if (seconds <= this.sampled.at(-1)) return;
    this.sampled.push(seconds);
    for (const { node, p50_us, p99_us, state } of this.nodes.nodes) {
      if (!this.samples.has(node)) {
        const nothing = () => new Array(this.sampled.length - 1).fill(null);
        this.samples.set(node, { p50: nothing(), p99: nothing() });
      }
      const lines = this.samples.get(node);
      const isUp = state !== 'unreachable';
      lines.p50.push(isUp && p50_us != null ? p50_us / 1_000 : null);
      lines.p99.push(isUp && p99_us != null ? p99_us / 1_000 : null);
    }
    if (this.sampled.length > SAMPLES_MAX) {
      this.sampled.shift();
      for (const { p50, p99 } of this.samples.values()) {
        p50.shift();
        p99.shift();
      }
    }
  }
}

/** The fields of an event that is about no lock. */
const NOTHING = { name: '', node: null, fence: null, by: null, mode: '' };

/** An outage of a node as an event. The nodes' own history has only events of locks. */
const ofNode = (outage) => ({ ...NOTHING, ...outage });

/** A key that is equal for copies of one event. */
export const identity = (event) => `${event.at_ms} ${event.what} ${event.fence} ${event.name} ${event.node ?? ''}`;
