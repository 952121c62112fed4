// The history view: events of locks from the nodes, and outages that this replica saw.

import { Filter } from '../filter.js';
import { h, write } from '../dom.js';
import { drawWhat, drawWho, empty } from '../draw.js';
import { Table, plain } from '../table.js';
import { count, counted, moment, precisely } from '../format.js';

const COLUMNS = [
  plain('at', 'When', (event) => moment(event.at_ms)),
  { id: 'what', label: 'Event', draw: drawWhat },
  plain('name', 'Lock or node', (event) => event.name || event.node || ''),
  { id: 'holder', label: 'Who', draw: (cell, event) => drawWho(cell, event.by) },
  plain('mode', 'How', (event) => event.mode),
  plain('fence', 'Fence', (event) => event.fence ?? ''),
  plain(
    'reason',
    'Details',
    (event) => event.reason || (event.held_ms == null ? '' : `held for ${precisely(event.held_ms)}`),
  ),
];

/** Events of one kind, and gaps, which may contain some. */
function of(...kinds) {
  return (event) => kinds.includes(event.what) || event.what === 'gap';
}

const KINDS = [
  ['all', 'All', () => true],
  ['grants', 'Grants', of('granted')],
  ['lost', 'Losses', of('lost', 'lapsed')],
  ['broken', 'Breaks', of('broken')],
  ['nodes', 'Nodes', (event) => event.node != null],
];

export function history({ store, route, go }) {
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
    empty(
      'No events yet',
      'Grants, losses and breaks appear as they happen. Outages of nodes appear from when this replica started.',
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

  function changed() {
    const kept = new URLSearchParams();
    filter.keep(kept);
    route.keep(kept);
    paint();
  }

  function paint() {
    const items = filter.apply(store.history);
    table.show(items);
    nothing.hidden = items.length > 0;
    write(
      summary,
      items.length === store.history.length
        ? counted(items.length, 'event')
        : `${count(items.length)} of ${counted(store.history.length, 'event')}`,
    );
  }

  const key = (event) => filter.key(event) || table.key(event);

  return { element, title: 'History', paint, key, destroy: () => table.destroy() };
}
