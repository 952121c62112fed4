// A timeline of the leases of a lock, from left to right.

import * as clock from './clock.js';
import { h, svg } from './dom.js';
import { formatDuration, formatTime, holderName } from './format.js';

/** The height of the timeline, and of the bars in it, in pixels. */
const HEIGHT = 46;
const BAR_HEIGHT = 22;
const SPAN_MIN_MS = 2 * 60_000;
const SPAN_MAX_MS = 30 * 60_000;
/** The possible distances of the labels on the axis. The timeline uses the smallest distance that has room for the labels. */
const STEPS_MS = [15_000, 30_000, 60_000, 120_000, 300_000, 600_000];
/** The smallest distance of two labels. */
const STEP_MIN_PX = 90;

/** Returns the leases of a lock, newest first: `{ since, until, by, fence, end }`. `until` is null for a lease that still holds. */
export function leasesOf(events, lock) {
  const all = [];
  /** The leases that were granted so far, by fence. */
  const byFence = new Map();
  for (const event of [...events].reverse()) {
    if (event.what === 'granted') {
      // A lock can have several entries with the same fence (readers, or a reentrant owner). Another entry continues the lease.
      if (event.fence != null && byFence.has(event.fence)) continue;
      const lease = { since: event.at_ms, until: null, by: event.by, fence: event.fence, end: null };
      byFence.set(event.fence, lease);
      all.push(lease);
    } else {
      const lease = byFence.get(event.fence);
      if (!lease) continue;
      lease.end = lease.end === 'broken' ? 'broken' : event.what;
      // A broken lease may hold until it expires. Then the end of the lease is a later event.
      if (event.what !== 'broken' || event.mode === 'now') lease.until = event.at_ms;
    }
  }
  const currentFence = lock?.held ? lock.fence : null;
  if (currentFence != null && !byFence.has(currentFence) && lock.since_ms != null) {
    all.push({ since: lock.since_ms, until: null, by: lock.holder, fence: currentFence, end: null });
  }
  // The release of one of several entries does not end a lease that still holds the lock.
  for (const lease of all) {
    if (lease.fence === currentFence && lease.end === 'released') {
      lease.until = null;
      lease.end = null;
    }
  }
  // A lease that has no end and is not the current lease expired at the latest before the next grant.
  all.forEach((lease, index) => {
    if (lease.until == null && lease.fence !== currentFence) {
      lease.until = all[index + 1]?.since ?? lease.since;
      lease.end ??= 'lapsed';
    }
  });
  return all.reverse();
}

/** Draws the leases into an element. */
export function drawTimeline(element, list) {
  const width = element.clientWidth;
  if (width === 0) return;
  const now = clock.now();
  const oldest = list.at(-1)?.since ?? now;
  const span = Math.min(SPAN_MAX_MS, Math.max(SPAN_MIN_MS, (now - oldest) * 1.03));
  const xOf = (at) => Math.max(0, ((at - (now - span)) / span) * width);
  const step = STEPS_MS.find((step) => (step / span) * width >= STEP_MIN_PX) ?? STEPS_MS.at(-1);
  const parts = [];
  for (let back = step; back < span; back += step) {
    const x = xOf(now - back);
    if (x < 24) break;
    parts.push(svg('line', { class: 'tick', x1: x, x2: x, y1: 0, y2: BAR_HEIGHT + 4 }));
    parts.push(
      svg('text', { x, y: HEIGHT - 6, 'text-anchor': 'middle' }, `−${formatDuration(back).replace(' 00 s', '')}`),
    );
  }
  parts.push(svg('text', { x: width - 1, y: HEIGHT - 6, 'text-anchor': 'end' }, 'now'));
  list.forEach((lease, index) => {
    const end = xOf(lease.until ?? now);
    if (end <= 0) return;
    const start = xOf(lease.since);
    const text = `${holderName(lease.by) || 'somebody'}: ${formatTime(lease.since)}, for ${formatDuration((lease.until ?? now) - lease.since)}`;
    const kind = lease.until == null ? 'held' : lease.end;
    const title = svg('title', {}, `${text}, ${lease.until == null ? 'still' : lease.end}`);
    // Neighbouring leases alternate between two shades.
    const shade = (list.length - index) % 2;
    parts.push(
      svg(
        'rect',
        {
          class: 'lease',
          'data-end': kind,
          'data-shade': shade,
          x: start,
          y: 2,
          height: BAR_HEIGHT,
          width: Math.max(1.5, end - start - 1),
          rx: 2,
        },
        title,
      ),
    );
  });
  const label = `${list.length} leases in the last ${formatDuration(span)}`;
  element.replaceChildren(svg('svg', { width, height: HEIGHT, role: 'img', 'aria-label': label }, ...parts));
}

/** Creates the element for a timeline. */
export const timelineElement = () => h('div', { class: 'strip' });
