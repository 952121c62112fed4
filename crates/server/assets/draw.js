// Cells and icons that several views share.

import { h, setAttribute, shape, setText } from './dom.js';
import { Store } from './store.js';
import { formatCount, formatQuantity, formatDuration, holderProcess, holderName } from './format.js';

/** The time left is highlighted if it is below this fraction of the ttl. */
const LOW_FRACTION = 0.25;

/** Draws the holder and its host into one cell. */
export function drawHolder(cell, holder) {
  if (!cell.parts) {
    cell.parts = [h('span', { class: 'who' }), h('span', { class: 'where' })];
    cell.append(...cell.parts);
  }
  setText(cell.parts[0], holderName(holder));
  setText(cell.parts[1], holderProcess(holder));
  setAttribute(cell, 'title', holder ? `${holder.label || 'no label'} · ${holder.host}${holder.pid ? `, process ${holder.pid}` : ''}` : null);
}

/** Draws the number of waiters. */
export function drawWaiting(cell, waiting) {
  setText(cell, waiting > 0 ? formatCount(waiting) : '–');
  setAttribute(cell, 'data-some', waiting > 0);
}

/** Draws the time left, as a bar and as text. */
export function drawTimeLeft(cell, lock) {
  if (!cell.parts) {
    cell.parts = [h('span', { class: 'fill' }), h('span', { class: 'words' })];
    cell.append(h('span', { class: 'bar', 'aria-hidden': 'true' }, cell.parts[0]), cell.parts[1]);
  }
  const [fill, words] = cell.parts;
  const left = lock.held ? Store.timeLeft(lock) : null;
  const fraction = left == null || !lock.full_ms ? 0 : Math.min(1, left / lock.full_ms);
  const scale = `scaleX(${fraction.toFixed(3)})`;
  if (fill.style.transform !== scale) fill.style.transform = scale;
  setAttribute(cell, 'data-low', lock.held && left != null && (fraction < LOW_FRACTION || lock.broken));
  setText(words, timeLeftInWords(lock, left));
}

/** Returns the time left as text, or why there is none. A lock is undecided if the nodes do not agree on a holder. */
export function timeLeftInWords(lock, left) {
  if (!lock.held) return lock.waiting > 0 ? 'free' : 'undecided';
  if (left == null) return 'no end';
  return left === 0 ? 'expiring' : formatDuration(left);
}

/** Returns whether a node has the vote for a lock, as the kind of a shape and as text. */
export function nodeVote(store, lock, node) {
  if (node.trouble) return [shapeOfNode(store.nodeState(node.node)) === 'wait' ? 'wait' : 'away', node.trouble];
  if (!node.held) return ['none', lock.held ? 'no vote' : 'free'];
  return node.fence === lock.fence || !lock.held ? ['vote', 'has the vote'] : ['other', 'vote with another fence'];
}

/** Draws one shape for each node. */
export function drawDots(cell, lock, store) {
  const kinds = lock.nodes.map((node) => nodeVote(store, lock, node)[0]);
  const key = kinds.join();
  if (cell.key === key) return;
  cell.key = key;
  const votes = kinds.filter((kind) => kind === 'vote').length;
  const others = lock.nodes
    .map((node) => [node.node, ...nodeVote(store, lock, node)])
    .filter(([, kind]) => kind !== 'vote');
  const lines = [`${votes} of ${formatQuantity(kinds.length, 'node')}`, ...others.map(([node, , why]) => `${node}: ${why}`)];
  cell.replaceChildren(h('span', { class: 'dots', role: 'img', 'aria-label': lines.join('; ') }, ...kinds.map(shape)));
  setAttribute(cell, 'title', lines.join('\n'));
}

/** Returns the kind of the shape for a state of a node. */
export const shapeOfNode = (state) => ({ voting: 'vote', quarantined: 'wait' })[state] ?? 'away';

/** Returns the kind of the shape for an event of the history. */
export const shapeOfEvent = (what) =>
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

/** Draws the shape and the name of an event. */
export function drawEvent(cell, event) {
  if (!cell.parts) {
    cell.parts = [shape(''), h('span')];
    cell.append(...cell.parts);
  }
  setAttribute(cell.parts[0], 'data-kind', shapeOfEvent(event.what));
  setText(cell.parts[1], event.what);
}

/** Creates the content of a view that has nothing to show. Each paragraph is a text or an element. */
export function emptyView(title, ...paragraphs) {
  return h(
    'div',
    { class: 'empty' },
    h('h2', {}, title),
    ...paragraphs.map((content) => (typeof content === 'string' ? h('p', {}, content) : content)),
  );
}
