// Statistics for each name, since the page was opened: how long clients waited for the lock, and how long they held it.

import * as clock from './clock.js';

/** The largest number of names, and of leases, to keep. */
const NAMES_MAX = 5_000;

export class Hotspots {
  /**
   * The statistics of each name, with times in milliseconds. Waiters: `waiting` and `peak` (most at once); `waited`, the sum of all waiting times;
   * `departed`, the number of waiters that left the queue, and `departedWait`, the sum of their waiting times. Ended leases: `holds`, their
   * number, and the total (`held`) and longest time that they were held.
   */
  names = new Map();
  /** When the statistics began, by `performance.now()`. */
  began = performance.now();
  /** When each lease that has not ended was granted, by fence and name. */
  #granted = new Map();

  /** Updates the statistics after a change of a lock. `before` is undefined for a new lock, and `after` is null for a removed lock. */
  updateLock(name, before, after) {
    const waiting = after?.waiting ?? 0;
    const spot = this.names.get(name) ?? (waiting > 0 ? this.#spot(name) : null);
    if (!spot) return;
    const now = clock.now();
    this.#addWaitingTime(spot, now);
    spot.waiting = waiting;
    spot.peak = Math.max(spot.peak, waiting);
    for (const waitedSince of startsOfDepartedWaiters(before?.queue ?? [], after?.queue ?? [])) {
      spot.departed += 1;
      spot.departedWait += Math.max(0, now - waitedSince);
    }
  }

  /** Updates the statistics after an event of the history. If the event ends a lease, adds to the event how long the lease was held. */
  addEvent(event) {
    const { at_ms, name, what, fence } = event;
    if (!name || fence == null) return;
    const lease = `${fence} ${name}`;
    if (what === 'granted') {
      // Another entry with the same fence (a reader, or a reentrant owner) does not start a new lease.
      if (!this.#granted.has(lease)) this.#granted.set(lease, at_ms);
      if (this.#granted.size > NAMES_MAX) this.#granted.delete(this.#granted.keys().next().value);
      return;
    }
    const grantedAt = this.#granted.get(lease);
    if (grantedAt == null || what === 'broken') return;
    this.#granted.delete(lease);
    // The difference could be negative, because the grant and the end may have times of different clocks.
    event.held_ms = Math.max(0, at_ms - grantedAt);
    const spot = this.#spot(name);
    spot.holds += 1;
    spot.held += event.held_ms;
    spot.longest = Math.max(spot.longest, event.held_ms);
  }

  /** Returns the statistics of all names, up to now. */
  list() {
    const now = clock.now();
    const spots = [...this.names.values()];
    for (const spot of spots) this.#addWaitingTime(spot, now);
    return spots;
  }

  /** Adds the waiting time of all current waiters since the last update. */
  #addWaitingTime(spot, now) {
    spot.waited += spot.waiting * Math.max(0, now - spot.updatedAt);
    spot.updatedAt = now;
  }

  /** Returns the statistics of a name, which may be new. */
  #spot(name) {
    const known = this.names.get(name);
    if (known) return known;
    if (this.names.size >= NAMES_MAX) this.#removeColdNames();
    const queue = { waiting: 0, peak: 0, waited: 0, departed: 0, departedWait: 0 };
    const spot = { name, ...queue, holds: 0, held: 0, longest: 0, updatedAt: clock.now() };
    this.names.set(name, spot);
    return spot;
  }

  /** Removes the half of the names with the least waiting time. */
  #removeColdNames() {
    const sorted = this.list().sort((a, b) => a.waited - b.waited || a.held - b.held);
    for (const { name } of sorted.slice(0, NAMES_MAX / 2)) this.names.delete(name);
  }
}

/** Returns when each waiter that is in the queue `before`, but not in the queue `after`, started to wait. */
function startsOfDepartedWaiters(before, after) {
  const remaining = after.map(({ since_ms }) => since_ms);
  const takeRemaining = (since) => {
    const index = remaining.indexOf(since);
    if (index >= 0) remaining.splice(index, 1);
    return index >= 0;
  };
  return before.map(({ since_ms }) => since_ms).filter((since) => !takeRemaining(since));
}
