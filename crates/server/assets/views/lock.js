// The view of one lock: the holder, the waiters, the history, and the vote of each node.

import { readHistory } from '../api.js';
import { openBreakDialog } from '../breaking.js';
import * as clock from '../clock.js';
import { h, setAttribute, shape, setText } from '../dom.js';
import { drawTimeLeft, drawEvent, emptyView, nodeVote } from '../draw.js';
import { Store, eventKey } from '../store.js';
import { drawTimeline, leasesOf, timelineElement } from '../timeline.js';
import {
  formatCount,
  formatDuration,
  formatMode,
  formatQuantity,
  formatShortDuration,
  formatTime,
  holderName,
  holderProcess,
  withoutDetails,
} from '../format.js';

/** The number of events to read, and the number of events to show. */
const HISTORY_READ = 200;
const HISTORY_SHOWN = 40;
const UNKNOWN = 'Unknown.';

export function lock({ store, route }) {
  const { name } = route;
  if (!name) return viewWithoutLock();
  /** The events that were read when the view was opened. */
  let olderEvents = [];
  let trouble = '';
  /** Identifies the events that the table shows. */
  let paintedEventsKey = '';
  let paintDialog = () => {};

  const state = h('p', { class: 'lock-state' });
  const button = h(
    'button',
    { type: 'button', class: 'danger', onclick: startBreak },
    'Break…',
  );
  const result = h('p', { class: 'result', role: 'status' });
  const left = h('div', { class: 'left large' });
  const facts = h('dl', { class: 'facts' });
  const noHolder = h('p', { class: 'dim' });
  const queue = h('ol', { class: 'queue' });
  const queueWords = h('p', { class: 'dim' });
  const timeline = timelineElement();
  const nodes = h('tbody');
  const nodeWords = h('p', { class: 'dim' });
  const nodeTable = scrollableTable('Nodes', ['Node', 'State', 'Fence', 'Time left', 'Waiters'], nodes);
  const events = h('tbody');
  const eventTable = scrollableTable('History', ['When', 'Event', 'Holder', 'Fence', 'Details'], events);
  const eventWords = h('p', { class: 'dim' });
  const element = h(
    'section',
    { class: 'view scrolls one-lock', 'aria-label': `The lock ${name}`, tabindex: 0 },
    h('header', { class: 'lock-head' }, h('h1', { class: 'mono' }, name), state, button),
    result,
    panel('Holder', 'holder-panel', left, facts, noHolder),
    panel('Queue', 'queue-panel', queueWords, queue),
    panel('Nodes', 'nodes-panel', nodeWords, nodeTable),
    panel('Timeline', 'full-width', timeline),
    panel('History', 'full-width', eventWords, eventTable),
  );

  readHistory(name, HISTORY_READ).then(
    (found) => ((olderEvents = found), paint()),
    (error) => ((trouble = `Cannot read the history: ${withoutDetails(error.message)}.`), paint()),
  );

  function startBreak() {
    paintDialog = openBreakDialog(
      () => store.locks.get(name),
      (text) => setText(result, text),
    );
  }

  /** Returns the events from the stream, and the older events that were read. */
  function allEvents() {
    const newer = store.history.filter((event) => event.name === name);
    const known = new Set(olderEvents.map(eventKey));
    return [...newer.filter((event) => !known.has(eventKey(event))), ...olderEvents];
  }

  function paint() {
    const lock = store.locks.get(name);
    setAttribute(button, 'disabled', !lock?.held || lock.broken);
    // If all locks are known, an unknown lock is free.
    const isKnown = Boolean(lock) || store.hasAllLocks;
    setText(state, isKnown ? describeState(lock) : 'unknown');
    setAttribute(state, 'data-odd', lock?.broken);
    left.hidden = facts.hidden = !lock?.held;
    noHolder.hidden = lock?.held;
    nodeTable.hidden = !lock;
    nodeWords.hidden = Boolean(lock);
    setText(noHolder, isKnown ? describeMissingHolder(lock) : UNKNOWN);
    setText(nodeWords, isKnown ? 'No node has a vote for this lock.' : UNKNOWN);
    if (lock) drawTimeLeft(left, lock);
    paintDialog();
    const list = allEvents();
    drawTimeline(timeline, leasesOf(list, lock));
    if (lock?.held) paintFacts(lock);
    paintQueue(lock, isKnown ? 'No waiters.' : UNKNOWN);
    // The table of events does not change as time passes, so it is painted only when there is another event.
    const key = `${list.length} ${list[0]?.at_ms} ${trouble}`;
    if (paintedEventsKey !== key) paintEvents(list);
    paintedEventsKey = key;
    nodes.replaceChildren(...(lock?.nodes ?? []).map((node) => nodeRow(store, lock, node)));
  }

  function paintFacts(lock) {
    const rows = [
      ['Holder', holderName(lock.holder) || 'unknown'],
      ['Process', holderProcess(lock.holder) || (lock.holder ? '' : 'unknown')],
      ['Mode', formatMode(lock)],
      ['Held for', formatDuration(Store.age(lock))],
      ['Renewals', formatCount(lock.renewals)],
      ['Fence', lock.fence ?? `none; digest ${lock.digest}`],
    ].filter(([, value]) => value !== '');
    const labels = rows.map(([label]) => label).join();
    if (facts.labels !== labels) {
      facts.labels = labels;
      facts.replaceChildren(...rows.flatMap(([label]) => [h('dt', {}, label), h('dd')]));
    }
    facts.querySelectorAll('dd').forEach((dd, index) => setText(dd, String(rows[index][1])));
  }

  function paintQueue(lock, emptyText) {
    const waiting = lock?.waiting ?? 0;
    const shown = lock?.queue ?? [];
    const more = waiting - shown.length;
    setText(
      queueWords,
      waiting === 0
        ? emptyText
        : more > 0 && shown.length > 0
          ? `The first ${shown.length} of ${formatQuantity(waiting, 'waiter')}.`
          : formatQuantity(waiting, 'waiter'),
    );
    const now = clock.now();
    while (queue.children.length > shown.length) queue.lastChild.remove();
    while (queue.children.length < shown.length) queue.append(h('li', {}, h('span'), h('span', { class: 'dim' })));
    shown.forEach((waiter, index) => {
      const [waited, kind] = queue.children[index].children;
      setText(waited, formatShortDuration(now - waiter.since_ms));
      setText(kind, waiter.shared ? 'shared' : '');
    });
  }

  function paintEvents(list) {
    setText(eventWords, trouble || (list.length === 0 ? 'No events yet.' : ''));
    eventWords.hidden = !eventWords.textContent;
    eventTable.hidden = list.length === 0;
    const grants = list.filter((event) => event.what === 'granted');
    const granted = new Map(grants.map((event) => [event.fence, event.at_ms]));
    events.replaceChildren(...list.slice(0, HISTORY_SHOWN).map((event) => eventRow(event, granted)));
  }

  function handleKey(event) {
    if (event.key === 'b' && !button.disabled) button.click();
    else return false;
    return true;
  }

  const resizeObserver = new ResizeObserver(() => drawTimeline(timeline, leasesOf(allEvents(), store.locks.get(name))));
  resizeObserver.observe(timeline);
  return { element, title: name, paint, handleKey, destroy: () => resizeObserver.disconnect() };
}

function panel(title, kind, ...parts) {
  return h('section', { class: `panel ${kind}` }, h('h2', {}, title), ...parts);
}

/** Creates a table that scrolls sideways if it is too wide. */
function scrollableTable(label, titles, body) {
  const heads = titles.map((title) => h('th', { scope: 'col', class: title === 'Fence' && 'fence' }, title));
  const table = h('table', { class: 'small' }, h('thead', {}, h('tr', {}, ...heads)), body);
  return h('div', { class: 'wide', role: 'region', 'aria-label': label, tabindex: 0 }, table);
}

function describeState(lock) {
  if (!lock) return 'free';
  if (lock.broken) return 'broken, draining';
  if (lock.held) return `held, ${formatMode(lock)}`;
  return lock.waiting > 0 ? 'free, with waiters' : 'undecided';
}

function describeMissingHolder(lock) {
  return lock?.mode ? 'The nodes do not agree on the holder.' : 'No holder.';
}

function nodeRow(store, lock, node) {
  const [kind, text] = nodeVote(store, lock, node);
  const left = node.left_ms == null ? null : Math.max(0, node.left_ms - (clock.now() - lock.at_ms));
  return h(
    'tr',
    { 'data-kind': kind },
    h('th', { scope: 'row', class: 'mono' }, node.node),
    h('td', { class: 'vote' }, shape(kind), text),
    h('td', { class: 'mono fence' }, node.fence == null ? '–' : String(node.fence)),
    h('td', {}, formatDuration(left)),
    h('td', {}, node.waiting > 0 ? formatCount(node.waiting) : '–'),
  );
}

function eventRow(event, granted) {
  const grantedAt = event.what === 'granted' ? null : granted.get(event.fence);
  const held = grantedAt == null ? '' : `held for ${formatShortDuration(event.at_ms - grantedAt)}`;
  const what = h('td', { class: 'what' });
  drawEvent(what, event);
  return h(
    'tr',
    {},
    h('td', {}, formatTime(event.at_ms)),
    what,
    h('td', {}, holderName(event.by)),
    h('td', { class: 'mono fence' }, event.fence == null ? '–' : String(event.fence)),
    h('td', {}, event.reason || held),
  );
}

function viewWithoutLock() {
  const element = h(
    'section',
    { class: 'view', 'aria-label': 'One lock' },
    h('h1', { class: 'visually-hidden' }, 'One lock'),
    emptyView(
      'Which lock?',
      h('p', {}, 'Pick one among all locks', h('span', { class: 'by-key' }, ': j and k move, Enter opens'), '.'),
      h('p', {}, h('a', { href: '#/locks' }, 'All locks')),
    ),
  );
  return { element, title: 'One lock', paint() {}, handleKey: () => false, destroy() {} };
}
