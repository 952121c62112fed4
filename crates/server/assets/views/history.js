// What has happened: to locks by the nodes' word, to nodes as this page has seen it.

import { h, mark, write } from '../dom.js';
import { drawWhat, drawWho, empty } from '../draw.js';
import { Table, plain } from '../table.js';
import { count, counted, moment, precisely } from '../words.js';

const COLUMNS = [
  plain('at', 'When', (event) => moment(event.at_ms)),
  { id: 'what', label: 'What', draw: drawWhat },
  plain('name', 'Lock or node', (event) => event.name || event.node),
  { id: 'holder', label: 'Who', draw: (cell, event) => drawWho(cell, event.by) },
  plain('mode', 'How', (event) => event.mode),
  plain('fence', 'Fence', (event) => event.fence ?? ''),
  plain(
    'reason',
    'Why, how long',
    (event) => event.reason || (event.held_ms == null ? '' : `held for ${precisely(event.held_ms)}`),
  ),
];

const ONLY = [
  ['all', 'All', () => true],
  ['grants', 'Grants', (event) => event.what === 'granted'],
  ['lost', 'Losses', (event) => event.what === 'lost'],
  ['broken', 'Breaks', (event) => event.what === 'broken'],
  ['nodes', 'Nodes', (event) => event.node != null],
];

export function history({ store, place, go }) {
  let only = ONLY.find(([id]) => id === place.parameters.get('only')) ?? ONLY[0];
  const keys = new WeakMap();
  let made = 0;
  const table = new Table({
    label: 'History',
    name: 'history',
    columns: COLUMNS,
    key: (event) => {
      if (!keys.has(event)) keys.set(event, (made += 1));
      return keys.get(event);
    },
    open: (event) => go(event.node ? '/nodes' : `/lock/${encodeURIComponent(event.name)}`),
  });
  const filter = h('input', {
    type: 'search',
    class: 'filter',
    placeholder: 'Filter by name, who or why',
    'aria-label': 'Filter by name, who or why',
    value: place.parameters.get('filter') ?? '',
    autocomplete: 'off',
    spellcheck: 'false',
    'aria-keyshortcuts': '/',
    oninput: changed,
  });
  const chips = ONLY.map(([id, label]) =>
    h(
      'button',
      { type: 'button', 'aria-pressed': id === only[0] ? 'true' : 'false', onclick: () => choose(id) },
      label,
    ),
  );
  const summary = h('p', { class: 'summary', role: 'status' });
  const bar = h(
    'div',
    { class: 'bar-of-view' },
    filter,
    h('div', { class: 'chips', role: 'group', 'aria-label': 'Which' }, ...chips),
    summary,
  );
  const nothing = h(
    'div',
    { class: 'nothing' },
    empty(
      'Nothing to tell',
      'Grants, losses and breaks are listed as they happen; nodes that stop or begin to vote, from when this page was opened.',
    ),
  );
  const element = h(
    'section',
    { class: 'view', 'aria-label': 'History' },
    h('h1', { class: 'unseen' }, 'History'),
    bar,
    table.element,
    nothing,
  );

  function choose(id) {
    only = ONLY.find(([other]) => other === id);
    chips.forEach((chip, at) => mark(chip, 'aria-pressed', String(ONLY[at][0] === id)));
    changed();
  }

  function changed() {
    const kept = new URLSearchParams();
    if (filter.value) kept.set('filter', filter.value);
    if (only !== ONLY[0]) kept.set('only', only[0]);
    place.keep(kept);
    paint();
  }

  function paint() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const text = (event) =>
      `${event.name} ${event.node ?? ''} ${event.by?.label ?? ''} ${event.by?.host ?? ''} ${event.what} ${event.reason}`.toLowerCase();
    const items = store.history.filter((event) => only[2](event) && words.every((word) => text(event).includes(word)));
    table.show(items);
    nothing.hidden = items.length > 0;
    write(
      summary,
      items.length === store.history.length
        ? counted(items.length, 'event')
        : `${count(items.length)} of ${counted(store.history.length, 'event')}`,
    );
  }

  function key(event) {
    if (event.key === '/') filter.focus();
    else if (event.key === 'j' || event.key === 'ArrowDown') table.move(1);
    else if (event.key === 'k' || event.key === 'ArrowUp') table.move(-1);
    else if (event.key === 'Enter') return table.open();
    else if (event.key === 'Escape' && (filter.value || only !== ONLY[0])) {
      filter.value = '';
      choose('all');
    } else return false;
    return true;
  }

  return { element, title: 'History', paint, key, destroy: () => table.destroy() };
}
