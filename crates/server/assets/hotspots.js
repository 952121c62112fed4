// Statistics of waiting and holding by name, since the page was opened.

import * as clock from './clock.js';

/** The most names to keep. */
const NAMES_MAX = 5_000;

export class Hotspots {
  names = new Map();
  /** When counting began. */
  began = performance.now();
  /** When each open lease was granted. */
  #granted = new Map();

  /** Counts a change of a lock. `before` or `after` is undefined for a new or removed lock. */
  see(name, before, after) {
    const waiting = after?.waiting ?? 0;
    const spot = this.names.get(name) ?? (waiting > 0 ? this.#spot(name) : null);
    if (!spot) return;
    const now = clock.now();
    this.#settle(spot, now);
    spot.waiting = waiting;
    spot.peak = Math.max(spot.peak, waiting);
    for (const since of gone(before?.queue ?? [], after?.queue ?? [])) {
      spot.left += 1;
      spot.leftAfter += Math.max(0, now - since);
    }
  }

  /** Counts an event. Adds to the end of a lease how long it was held. */
  hear(event) {
    const { at_ms, name, what, fence } = event;
    if (!name || fence == null) return;
    const lease = `${fence} ${name}`;
    if (what === 'granted') {
      // A re-entry does not restart the hold.
      if (!this.#granted.has(lease)) this.#granted.set(lease, at_ms);
      if (this.#granted.size > NAMES_MAX) this.#granted.delete(this.#granted.keys().next().value);
      return;
    }
    const since = this.#granted.get(lease);
    if (since == null || what === 'broken') return;
    this.#granted.delete(lease);
    // A lapse has the time of another clock than its grant.
    event.held_ms = Math.max(0, at_ms - since);
    const spot = this.#spot(name);
    spot.holds += 1;
    spot.held += event.held_ms;
    spot.longest = Math.max(spot.longest, event.held_ms);
  }

  /** All names with waiters or holders, up to now. */
  list() {
    const now = clock.now();
    const spots = [...this.names.values()];
    for (const spot of spots) this.#settle(spot, now);
    return spots;
  }

  /** Adds up the waiting time of all waiters. */
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

  /** Removes the half with the least waiting. */
  #forget() {
    const colder = this.list().sort((a, b) => a.waited - b.waited || a.held - b.held);
    for (const { name } of colder.slice(0, NAMES_MAX / 2)) this.names.delete(name);
  }
}

/** When the waiters that left the queue began to wait. */
function gone(before, after) {
  const still = after.map(({ since_ms }) => since_ms);
  const isStill = (since) => {
    const at = still.indexOf(since);
    if (at >= 0) still.splice(at, 1);
    return at >= 0;
  };
  return before.map(({ since_ms }) => since_ms).filter((since) => !isStill(since));
}
