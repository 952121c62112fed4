// Which names are waited for, and for how long: counted from what this page has seen.

import * as clock from './clock.js';

/** How many names are remembered. */
const NAMES_MAX = 5_000;

export class Heat {
  names = new Map();
  /** Since when it is counted. */
  began = performance.now();
  /** Leases whose end was not seen yet: when they were granted. */
  #granted = new Map();

  /** A lock changed, from `before` to `after`; either may be nothing. */
  see(name, before, after) {
    const waiting = after?.waiting ?? 0;
    const spot = this.names.get(name) ?? (waiting > 0 ? this.#spot(name) : null);
    if (!spot) return;
    const now = clock.now();
    this.#settle(spot, now);
    spot.waiting = waiting;
    spot.peak = Math.max(spot.peak, waiting);
    for (const since of gone(before?.line ?? [], after?.line ?? [])) {
      spot.left += 1;
      spot.leftAfter += Math.max(0, now - since);
    }
  }

  /** Something happened to a lock. Of a lease that ended, the event then says how long it was held. */
  hear(event) {
    const { at_ms, name, what, fence } = event;
    if (!name || fence == null) return;
    const lease = `${fence} ${name}`;
    if (what === 'granted') {
      // Whoever enters again has had it since the first time.
      if (!this.#granted.has(lease)) this.#granted.set(lease, at_ms);
      if (this.#granted.size > NAMES_MAX) this.#granted.delete(this.#granted.keys().next().value);
      return;
    }
    const since = this.#granted.get(lease);
    if (since == null || what === 'broken') return;
    this.#granted.delete(lease);
    // What has lapsed is dated by another clock than its grant.
    event.held_ms = Math.max(0, at_ms - since);
    const spot = this.#spot(name);
    spot.holds += 1;
    spot.held += event.held_ms;
    spot.longest = Math.max(spot.longest, event.held_ms);
  }

  /** All names that were waited for or held, as of now. */
  list() {
    const now = clock.now();
    const spots = [...this.names.values()];
    for (const spot of spots) this.#settle(spot, now);
    return spots;
  }

  /** Adds up how long all its waiters together have waited. */
  #settle(spot, now) {
    spot.waited += spot.waiting * Math.max(0, now - spot.since);
    spot.since = now;
  }

  #spot(name) {
    const known = this.names.get(name);
    if (known) return known;
    if (this.names.size >= NAMES_MAX) this.#forget();
    const line = { waiting: 0, peak: 0, waited: 0, left: 0, leftAfter: 0 };
    const spot = { name, ...line, holds: 0, held: 0, longest: 0, since: clock.now() };
    this.names.set(name, spot);
    return spot;
  }

  /** Forgets the colder half. */
  #forget() {
    const colder = this.list().sort((a, b) => a.waited - b.waited || a.held - b.held);
    for (const { name } of colder.slice(0, NAMES_MAX / 2)) this.names.delete(name);
  }
}

/** Since when those have waited who were in line and are not any more. */
function gone(before, after) {
  const still = after.map(({ since_ms }) => since_ms);
  const isStill = (since) => {
    const at = still.indexOf(since);
    if (at >= 0) still.splice(at, 1);
    return at >= 0;
  };
  return before.map(({ since_ms }) => since_ms).filter((since) => !isStill(since));
}
