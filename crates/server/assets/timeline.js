// A timeline of a lock's holders, from left to right.

import * as clock from './clock.js';
import { h, svg } from './dom.js';
import { lasting, moment, who } from './format.js';

const HEIGHT = 46;
const BAND = 22;
const SPAN_MIN_MS = 2 * 60_000;
const SPAN_MAX_MS = 30 * 60_000;
/** Steps of the axis. The smallest one whose labels fit is used. */
const STEPS_MS = [15_000, 30_000, 60_000, 120_000, 300_000, 600_000];
const STEP_PX = 90;

/** The leases, newest first: `{ since, until, by, end }`. `until` is null for leases that still hold. */
export function leases(events, lock) {
  const found = [];
  const open = new Map();
  for (const event of [...events].reverse()) {
    if (event.what === 'granted') {
      // A re-entry continues the lease.
      if (event.fence != null && open.has(event.fence)) continue;
      const lease = { since: event.at_ms, until: null, by: event.by, fence: event.fence, end: null };
      open.set(event.fence, lease);
      found.push(lease);
    } else {
      const lease = open.get(event.fence);
      if (!lease) continue;
      lease.end = lease.end === 'broken' ? 'broken' : event.what;
      // A broken lease may drain for a while. Its release ends it.
      if (event.what !== 'broken' || event.mode === 'now') lease.until = event.at_ms;
    }
  }
  const held = lock?.held ? lock.fence : null;
  if (held != null && !open.has(held) && lock.since_ms != null) {
    found.push({ since: lock.since_ms, until: null, by: lock.holder, fence: held, end: null });
  }
  // One of several entries may have ended while the lock is still held.
  for (const lease of found) {
    if (lease.fence === held && lease.end === 'released') {
      lease.until = null;
      lease.end = null;
    }
  }
  // A lease without an end that is not the current one lapsed before the next grant.
  found.forEach((lease, at) => {
    if (lease.until == null && lease.fence !== held) {
      lease.until = found[at + 1]?.since ?? lease.since;
      lease.end ??= 'lapsed';
    }
  });
  return found.reverse();
}

/** Draws the leases into an element. */
export function drawTimeline(element, list) {
  const width = element.clientWidth;
  if (width === 0) return;
  const now = clock.now();
  const oldest = list.at(-1)?.since ?? now;
  const span = Math.min(SPAN_MAX_MS, Math.max(SPAN_MIN_MS, (now - oldest) * 1.03));
  const x = (at) => Math.max(0, ((at - (now - span)) / span) * width);
  const step = STEPS_MS.find((step) => (step / span) * width >= STEP_PX) ?? STEPS_MS.at(-1);
  const parts = [];
  for (let back = step; back < span; back += step) {
    const at = x(now - back);
    if (at < 24) break;
    parts.push(svg('line', { class: 'tick', x1: at, x2: at, y1: 0, y2: BAND + 4 }));
    parts.push(
      svg('text', { x: at, y: HEIGHT - 6, 'text-anchor': 'middle' }, `−${lasting(back).replace(' 00 s', '')}`),
    );
  }
  parts.push(svg('text', { x: width - 1, y: HEIGHT - 6, 'text-anchor': 'end' }, 'now'));
  list.forEach((lease, at) => {
    const end = x(lease.until ?? now);
    if (end <= 0) return;
    const begin = x(lease.since);
    const words = `${who(lease.by) || 'somebody'}: ${moment(lease.since)}, for ${lasting((lease.until ?? now) - lease.since)}`;
    const kind = lease.until == null ? 'held' : lease.end;
    const title = svg('title', {}, `${words}, ${lease.until == null ? 'still' : lease.end}`);
    const turn = (list.length - at) % 2;
    parts.push(
      svg(
        'rect',
        {
          class: 'lease',
          'data-end': kind,
          'data-turn': turn,
          x: begin,
          y: 2,
          height: BAND,
          width: Math.max(1.5, end - begin - 1),
          rx: 2,
        },
        title,
      ),
    );
  });
  const label = `${list.length} leases in the last ${lasting(span)}`;
  element.replaceChildren(svg('svg', { width, height: HEIGHT, role: 'img', 'aria-label': label }, ...parts));
}

/** The horizontal position of a time. */
export const timelineElement = () => h('div', { class: 'strip' });
