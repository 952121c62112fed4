// The view of the history: events about locks from the nodes, and outages of nodes that this replica saw.

import { Filter } from '../filter.js';
import { h, setText } from '../dom.js';
import { drawEvent, drawHolder, emptyView } from '../draw.js';
import { Table, textColumn } from '../table.js';
import { formatCount, formatQuantity, formatTime, formatShortDuration } from '../format.js';

const COLUMNS = [
  textColumn('at', 'When', (event) => formatTime(event.at_ms)),
  { id: 'what', label: 'Event', draw: drawEvent },
  textColumn('name', 'Lock or node', (event) => event.name || event.node || ''),
  { id: 'holder', label: 'Who', draw: (cell, event) => drawHolder(cell, event.by) },
  textColumn('mode', 'Mode', (event) => event.mode),
  textColumn('fence', 'Fence', (event) => event.fence ?? ''),
  textColumn(
    'reason',
    'Details',
    (event) => event.reason || (event.held_ms == null ? '' : `held for ${formatShortDuration(event.held_ms)}`),
  ),
];

/** Returns a function that matches events of these kinds. It also matches gaps, because such events may be missing there. */
function isOrGap(...kinds) {
  return (event) => kinds.includes(event.what) || event.what === 'gap';
}

const KINDS = [
  ['all', 'All', () => true],
  ['grants', 'Grants', isOrGap('granted')],
  ['lost', 'Losses', isOrGap('lost', 'lapsed')],
  ['broken', 'Breaks', isOrGap('broken')],
  ['nodes', 'Nodes', (event) => event.node != null],
];

export function history({ store, route, go }) {
  const keys = new WeakMap();
  let keyCount = 0;
  const table = new Table({
    label: 'History',
    name: 'history',
    columns: COLUMNS,
    key: (event) => {
      if (!keys.has(event)) keys.set(event, (keyCount += 1));
      return keys.get(event);
    },
    open: (event) => {
      if (event.node) go('/nodes');
      else if (event.name) go(`/lock/${encodeURIComponent(event.name)}`);
    },
  });
  const filter = new Filter({
    label: 'Filter by name, holder or reason',
    kinds: KINDS,
    text: ({ name, node, by, what, reason }) =>
      `${name} ${node ?? ''} ${by?.label ?? ''} ${by?.host ?? ''} ${what} ${reason}`,
    parameters: route.parameters,
    changed,
  });
  const summary = h('p', { class: 'summary', role: 'status' });
  const bar = h('div', { class: 'bar-of-view' }, filter.input, filter.chips, summary);
  const nothing = h(
    'div',
    { class: 'nothing' },
    emptyView(
      'No events yet',
      'Grants, losses and breaks appear when they happen. Outages of nodes appear if they happened after this replica started.',
    ),
  );
  const element = h(
    'section',
    { class: 'view', 'aria-label': 'History' },
    h('h1', { class: 'visually-hidden' }, 'History'),
    bar,
    table.element,
    nothing,
  );

  function changed() {
    const parameters = new URLSearchParams();
    filter.writeTo(parameters);
    route.storeParameters(parameters);
    paint();
  }

  function paint() {
    const items = filter.apply(store.history);
    table.show(items);
    nothing.hidden = items.length > 0;
    setText(
      summary,
      items.length === store.history.length
        ? formatQuantity(items.length, 'event')
        : `${formatCount(items.length)} of ${formatQuantity(store.history.length, 'event')}`,
    );
  }

  const handleKey = (event) => filter.handleKey(event) || table.handleKey(event);

  return { element, title: 'History', paint, handleKey, destroy: () => table.destroy() };
}
