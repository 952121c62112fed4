// Cells and icons that several views share.

import { h, mark, shape, write } from './dom.js';
import { Store } from './store.js';
import { count, counted, lasting, where, who } from './format.js';

/** The share of the ttl below which the time left is highlighted. */
const LOW = 0.25;

/** The holder and its host, in one cell. */
export function drawWho(cell, holder) {
  if (!cell.parts) {
    cell.parts = [h('span', { class: 'who' }), h('span', { class: 'where' })];
    cell.append(...cell.parts);
  }
  write(cell.parts[0], who(holder));
  write(cell.parts[1], where(holder));
  mark(cell, 'title', holder ? `${holder.label || 'no label'} · ${holder.host}${holder.pid ? `, process ${holder.pid}` : ''}` : null);
}

/** The number of waiters. */
export function drawWaiting(cell, waiting) {
  write(cell, waiting > 0 ? count(waiting) : '–');
  mark(cell, 'data-some', waiting > 0);
}

/** The time left, as a bar and as text. */
export function drawLeft(cell, lock) {
  if (!cell.parts) {
    cell.parts = [h('span', { class: 'fill' }), h('span', { class: 'words' })];
    cell.append(h('span', { class: 'bar', 'aria-hidden': 'true' }, cell.parts[0]), cell.parts[1]);
  }
  const [fill, words] = cell.parts;
  const left = lock.held ? Store.left(lock) : null;
  const share = left == null || !lock.full_ms ? 0 : Math.min(1, left / lock.full_ms);
  const scale = `scaleX(${share.toFixed(3)})`;
  if (fill.style.transform !== scale) fill.style.transform = scale;
  mark(cell, 'data-low', lock.held && left != null && (share < LOW || lock.broken));
  write(words, leftInWords(lock, left));
}

/** The time left, or why there is none. */
export function leftInWords(lock, left) {
  if (!lock.held) return lock.waiting > 0 ? 'free' : 'undecided';
  if (left == null) return 'no end';
  return left === 0 ? 'lapsing' : lasting(left);
}

/** A node's state for one lock: a shape, and text. */
export function standing(store, lock, at) {
  if (at.trouble) return [nodeKind(store.stateOf(at.node)) === 'wait' ? 'wait' : 'away', at.trouble];
  if (!at.held) return ['none', lock.held ? 'no vote' : 'free'];
  return at.fence === lock.fence || !lock.held ? ['vote', 'has the vote'] : ['other', 'vote with another fence'];
}

/** One dot a node. */
export function drawDots(cell, lock, store) {
  const kinds = lock.nodes.map((at) => standing(store, lock, at)[0]);
  const key = kinds.join();
  if (cell.key === key) return;
  cell.key = key;
  const votes = kinds.filter((kind) => kind === 'vote').length;
  const troubles = lock.nodes
    .map((at) => [at.node, ...standing(store, lock, at)])
    .filter(([, kind]) => kind !== 'vote');
  const words = [`${votes} of ${counted(kinds.length, 'node')}`, ...troubles.map(([node, , why]) => `${node}: ${why}`)];
  cell.replaceChildren(h('span', { class: 'dots', role: 'img', 'aria-label': words.join('; ') }, ...kinds.map(shape)));
  mark(cell, 'title', words.join('\n'));
}

/** The shape of each state of a node. */
export const nodeKind = (state) => ({ voting: 'vote', quarantined: 'wait' })[state] ?? 'away';

/** The shape of each event. */
export const eventKind = (what) =>
  ({
    granted: 'vote',
    released: 'none',
    lost: 'away',
    broken: 'other',
    'votes again': 'vote',
    restarted: 'wait',
    quarantined: 'wait',
    gap: 'other',
  })[what] ?? 'away';

/** An event's shape and word. */
export function drawWhat(cell, event) {
  if (!cell.parts) {
    cell.parts = [shape(''), h('span')];
    cell.append(...cell.parts);
  }
  mark(cell.parts[0], 'data-kind', eventKind(event.what));
  write(cell.parts[1], event.what);
}

/** An empty view, with advice. */
export function empty(title, ...words) {
  return h(
    'div',
    { class: 'empty' },
    h('h2', {}, title),
    ...words.map((word) => (typeof word === 'string' ? h('p', {}, word) : word)),
  );
}
