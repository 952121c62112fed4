// The view of hot spots: the names with the longest total waiting time, and how long their locks are held.

import { h, setText } from '../dom.js';
import { drawWaiting, emptyView } from '../draw.js';
import { Table, textColumn } from '../table.js';
import { formatCount, formatDuration, formatShortDuration } from '../format.js';

const meanHold = (spot) => (spot.holds > 0 ? spot.held / spot.holds : null);
const meanWait = (spot) => (spot.departed > 0 ? spot.departedWait / spot.departed : null);

const COLUMNS = [
  textColumn('name', 'Name', (spot) => spot.name, { sort: 'up', by: (spot) => spot.name }),
  {
    id: 'waited',
    label: 'Total wait',
    sort: 'down',
    by: (spot) => spot.waited,
    draw: drawWaited,
    title: 'Sum of the waiting times of all waiters',
  },
  {
    id: 'waiters',
    label: 'Waiters',
    sort: 'down',
    by: (spot) => spot.waiting,
    draw: (cell, spot) => drawWaiting(cell, spot.waiting),
  },
  textColumn('peak', 'Max waiters', (spot) => (spot.peak > 0 ? formatCount(spot.peak) : '–'), {
    sort: 'down',
    by: (spot) => spot.peak,
  }),
  textColumn('wait', 'Mean wait', (spot) => formatShortDuration(meanWait(spot)), {
    sort: 'down',
    by: (spot) => meanWait(spot) ?? -1,
    title: 'Mean waiting time of the waiters that have left the queue, with or without the lock',
  }),
  textColumn('hold', 'Mean hold', (spot) => formatShortDuration(meanHold(spot)), {
    sort: 'down',
    by: (spot) => meanHold(spot) ?? -1,
  }),
  textColumn('longest', 'Longest hold', (spot) => (spot.holds > 0 ? formatShortDuration(spot.longest) : '–'), {
    sort: 'down',
    by: (spot) => spot.longest,
  }),
  textColumn('holds', 'Leases', (spot) => formatCount(spot.holds), {
    sort: 'down',
    by: (spot) => spot.holds,
    title: 'Leases that ended since this page was opened',
  }),
];

function drawWaited(cell, spot) {
  if (!cell.parts) {
    cell.parts = [h('span', { class: 'fill' }), h('span', { class: 'words' })];
    cell.append(h('span', { class: 'bar', 'aria-hidden': 'true' }, cell.parts[0]), cell.parts[1]);
  }
  cell.parts[0].style.transform = `scaleX(${spot.fraction.toFixed(3)})`;
  setText(cell.parts[1], spot.waited > 0 ? formatDuration(spot.waited) : '–');
}

export function hot({ store, route, go }) {
  let sort = COLUMNS.find((column) => column.id === route.parameters.get('sort')) ?? COLUMNS[1];
  let direction = route.parameters.get('order') ?? sort.sort;
  const table = new Table({
    label: 'Hot spots',
    name: 'hot',
    columns: COLUMNS,
    key: (spot) => spot.name,
    open: (spot) => go(`/lock/${encodeURIComponent(spot.name)}`),
    onSort: (column) => {
      direction = column === sort ? (direction === 'up' ? 'down' : 'up') : column.sort;
      sort = column;
      route.storeParameters(new URLSearchParams({ sort: sort.id, order: direction }));
      paint();
    },
  });
  const summary = h('p', { class: 'summary' });
  const nothing = h(
    'div',
    { class: 'nothing' },
    emptyView(
      'No waiting yet',
      'A name appears here if its lock has waiters, or if a lease of it ends, while this page is open.',
    ),
  );
  const element = h(
    'section',
    { class: 'view', 'aria-label': 'Hot spots' },
    h('h1', { class: 'visually-hidden' }, 'Hot spots'),
    h('div', { class: 'bar-of-view' }, summary),
    table.element,
    nothing,
  );

  function paint() {
    const spots = store.hotspots.list();
    const waitedMax = spots.reduce((max, spot) => Math.max(max, spot.waited), 1);
    const sign = direction === 'up' ? 1 : -1;
    for (const spot of spots) spot.fraction = spot.waited / waitedMax;
    spots.sort((a, b) => {
      const [one, other] = [sort.by(a), sort.by(b)];
      return one < other ? -sign : one > other ? sign : b.held - a.held;
    });
    table.showOrder(sort.id, direction);
    table.show(spots);
    nothing.hidden = spots.length > 0;
    setText(summary, `Measured by this page in the last ${formatDuration(performance.now() - store.hotspots.began)}.`);
  }

  return { element, title: 'Hot spots', paint, handleKey: (event) => table.handleKey(event), destroy: () => table.destroy() };
}
