// The view of one lock: holders, waiters, history, and the state on each node.

import { historyOf } from '../api.js';
import { askToBreak } from '../breaking.js';
import * as clock from '../clock.js';
import { h, mark, shape, write } from '../dom.js';
import { drawLeft, drawWhat, empty, standing } from '../draw.js';
import { Store, identity } from '../store.js';
import { drawTimeline, leases, timelineElement } from '../timeline.js';
import { briefly, count, counted, lasting, mode, moment, precisely, where, who } from '../format.js';

/** How many events are read, and how many of them are listed. */
const HISTORY_READ = 200;
const HISTORY_SHOWN = 40;
const NOT_KNOWN = 'Unknown.';

export function lock({ store, route }) {
  const { name } = route;
  if (!name) return pickOne();
  let earlier = [];
  let trouble = '';
  let drawn = '';
  let paintBreaking = () => {};

  const state = h('p', { class: 'lock-state' });
  const button = h(
    'button',
    { type: 'button', class: 'danger', onclick: breakIt },
    'Break…',
  );
  const said = h('p', { class: 'said', role: 'status' });
  const left = h('div', { class: 'left large' });
  const facts = h('dl', { class: 'facts' });
  const nobody = h('p', { class: 'dim' });
  const queue = h('ol', { class: 'queue' });
  const queueWords = h('p', { class: 'dim' });
  const strip = timelineElement();
  const nodes = h('tbody');
  const nodeWords = h('p', { class: 'dim' });
  const nodeTable = wide('Nodes', ['Node', 'State', 'Fence', 'Time left', 'Waiters'], nodes);
  const events = h('tbody');
  const eventTable = wide('History', ['When', 'Event', 'Holder', 'Fence', 'Details'], events);
  const eventWords = h('p', { class: 'dim' });
  const element = h(
    'section',
    { class: 'view scrolls one', 'aria-label': `The lock ${name}`, tabindex: 0 },
    h('header', { class: 'lock-head' }, h('h1', { class: 'mono' }, name), state, button),
    said,
    panel('Holder', 'who-has-it', left, facts, nobody),
    panel('Queue', 'in-queue', queueWords, queue),
    panel('Nodes', 'by-node', nodeWords, nodeTable),
    panel('Timeline', 'whole', strip),
    panel('History', 'whole', eventWords, eventTable),
  );

  historyOf(name, HISTORY_READ).then(
    (found) => ((earlier = found), paint()),
    (error) => ((trouble = `Cannot read the history: ${briefly(error.message)}.`), paint()),
  );

  function breakIt() {
    paintBreaking = askToBreak(
      () => store.locks.get(name),
      (text) => write(said, text),
    );
  }

  /** The events that were read, and those from the stream since. */
  function happened() {
    const news = store.history.filter((event) => event.name === name);
    const known = new Set(earlier.map(identity));
    return [...news.filter((event) => !known.has(identity(event))), ...earlier];
  }

  function paint() {
    const lock = store.locks.get(name);
    mark(button, 'disabled', !lock?.held || lock.broken);
    const isFree = store.isWhole;
    write(state, lock || isFree ? stateInWords(lock) : 'unknown');
    mark(state, 'data-odd', lock?.broken);
    left.hidden = facts.hidden = !lock?.held;
    nobody.hidden = lock?.held;
    nodeTable.hidden = !lock;
    nodeWords.hidden = Boolean(lock);
    write(nobody, lock || isFree ? nobodyInWords(lock) : NOT_KNOWN);
    write(nodeWords, isFree ? 'No node has a vote for this lock.' : NOT_KNOWN);
    if (lock) drawLeft(left, lock);
    paintBreaking();
    const list = happened();
    const past = leases(list, lock);
    drawTimeline(strip, past);
    if (lock?.held) paintFacts(lock);
    paintLine(lock, lock || isFree ? 'No waiters.' : NOT_KNOWN);
    // Static parts are drawn only when they change.
    const key = `${list.length} ${list[0]?.at_ms} ${trouble}`;
    if (drawn !== key) paintEvents(list);
    drawn = key;
    nodes.replaceChildren(...(lock?.nodes ?? []).map((at) => nodeRow(store, lock, at)));
  }

  function paintFacts(lock) {
    const facts_ = [
      ['Holder', who(lock.holder) || 'unknown'],
      ['Process', where(lock.holder) || (lock.holder ? '' : 'unknown')],
      ['Mode', mode(lock)],
      ['For', lasting(Store.age(lock))],
      ['Renewals', count(lock.renewals)],
      ['Fence', lock.fence ?? `none; digest ${lock.digest}`],
    ].filter(([, value]) => value !== '');
    const key = facts_.map(([label]) => label).join();
    if (facts.key !== key) {
      facts.key = key;
      facts.replaceChildren(...facts_.flatMap(([label]) => [h('dt', {}, label), h('dd')]));
    }
    facts.querySelectorAll('dd').forEach((dd, at) => write(dd, String(facts_[at][1])));
  }

  function paintLine(lock, nobodyWaits) {
    const waiting = lock?.waiting ?? 0;
    const shown = lock?.queue ?? [];
    const more = waiting - shown.length;
    write(
      queueWords,
      waiting === 0
        ? nobodyWaits
        : more > 0 && shown.length > 0
          ? `The first ${shown.length} of ${counted(waiting, 'waiter')}.`
          : counted(waiting, 'waiter'),
    );
    const now = clock.now();
    while (queue.children.length > shown.length) queue.lastChild.remove();
    while (queue.children.length < shown.length) queue.append(h('li', {}, h('span'), h('span', { class: 'dim' })));
    shown.forEach((waiter, at) => {
      const [since, kind] = queue.children[at].children;
      write(since, precisely(now - waiter.since_ms));
      write(kind, waiter.shared ? 'shared' : '');
    });
  }

  function paintEvents(list) {
    write(eventWords, trouble || (list.length === 0 ? 'No events yet.' : ''));
    eventWords.hidden = !eventWords.textContent;
    eventTable.hidden = list.length === 0;
    const grants = list.filter((event) => event.what === 'granted');
    const granted = new Map(grants.map((event) => [event.fence, event.at_ms]));
    events.replaceChildren(...list.slice(0, HISTORY_SHOWN).map((event) => eventRow(event, granted)));
  }

  function key(event) {
    if (event.key === 'b' && !button.disabled) button.click();
    else return false;
    return true;
  }

  const seen = new ResizeObserver(() => drawTimeline(strip, leases(happened(), store.locks.get(name))));
  seen.observe(strip);
  return { element, title: name, paint, key, destroy: () => seen.disconnect() };
}

function panel(title, kind, ...parts) {
  return h('section', { class: `panel ${kind}` }, h('h2', {}, title), ...parts);
}

/** A table that scrolls sideways if it is too wide. */
function wide(label, titles, body) {
  const heads = titles.map((title) => h('th', { scope: 'col', class: title === 'Fence' && 'fence' }, title));
  const table = h('table', { class: 'small' }, h('thead', {}, h('tr', {}, ...heads)), body);
  return h('div', { class: 'wide', role: 'region', 'aria-label': label, tabindex: 0 }, table);
}

function stateInWords(lock) {
  if (!lock) return 'free';
  if (lock.broken) return 'broken, draining';
  if (lock.held) return `held, ${mode(lock)}`;
  return lock.waiting > 0 ? 'free, with waiters' : 'undecided';
}

function nobodyInWords(lock) {
  return lock?.mode ? 'The nodes do not agree on the holder.' : 'No holder.';
}

function nodeRow(store, lock, at) {
  const [kind, words] = standing(store, lock, at);
  const left = at.left_ms == null ? null : Math.max(0, at.left_ms - (clock.now() - lock.at_ms));
  return h(
    'tr',
    { 'data-kind': kind },
    h('th', { scope: 'row', class: 'mono' }, at.node),
    h('td', { class: 'says' }, shape(kind), words),
    h('td', { class: 'mono fence' }, at.fence == null ? '–' : String(at.fence)),
    h('td', {}, lasting(left)),
    h('td', {}, at.waiting > 0 ? count(at.waiting) : '–'),
  );
}

function eventRow(event, granted) {
  const since = event.what === 'granted' ? null : granted.get(event.fence);
  const held = since == null ? '' : `held for ${precisely(event.at_ms - since)}`;
  const what = h('td', { class: 'what' });
  drawWhat(what, event);
  return h(
    'tr',
    {},
    h('td', {}, moment(event.at_ms)),
    what,
    h('td', {}, who(event.by)),
    h('td', { class: 'mono fence' }, event.fence == null ? '–' : String(event.fence)),
    h('td', {}, event.reason || held),
  );
}

function pickOne() {
  const element = h(
    'section',
    { class: 'view', 'aria-label': 'One lock' },
    h('h1', { class: 'unseen' }, 'One lock'),
    empty(
      'Which lock?',
      h('p', {}, 'Pick one among all locks', h('span', { class: 'by-key' }, ': j and k move, Enter opens'), '.'),
      h('p', {}, h('a', { href: '#/locks' }, 'All locks')),
    ),
  );
  return { element, title: 'One lock', paint() {}, key: () => false, destroy() {} };
}
