// The view of all locks: holders, time left, and waiters.

import { bearerToken } from '../bearer.js';
import { Filter } from '../filter.js';
import { h, setAttribute, setText } from '../dom.js';
import { drawDots, drawTimeLeft, drawWaiting, drawHolder, emptyView } from '../draw.js';
import { Store } from '../store.js';
import { Table, textColumn } from '../table.js';
import { formatCount, formatQuantity, formatDuration, formatMode, holderName } from '../format.js';

/** If there are more locks than this, the table is sorted at most once a second. */
const MANY_LOCKS = 1_000;
const MANY_PAUSE_MS = 1_000;

const COLUMNS = [
  textColumn('name', 'Name', (lock) => lock.name, { sort: 'up', by: (lock) => lock.name }),
  {
    id: 'holder',
    label: 'Holder',
    sort: 'up',
    by: (lock) => holderName(lock.holder),
    draw: (cell, lock) => drawHolder(cell, lock.holder),
  },
  textColumn('mode', 'Mode', formatMode),
  textColumn('age', 'Age', (lock) => formatDuration(Store.age(lock)), {
    sort: 'down',
    by: (lock) => Store.age(lock) ?? -1,
    changesWithTime: true,
    title: 'How long the lock has been held',
  }),
  {
    id: 'left',
    label: 'Time left',
    sort: 'up',
    by: (lock) => Store.timeLeft(lock) ?? Infinity,
    changesWithTime: true,
    draw: drawTimeLeft,
  },
  textColumn('renewals', 'Renewals', (lock) => formatCount(lock.renewals), {
    sort: 'down',
    by: (lock) => lock.renewals,
    title: 'Renewals that this replica has seen',
  }),
  { id: 'waiters', label: 'Waiters', sort: 'down', by: (lock) => lock.waiting, draw: drawWaiters },
  textColumn('fence', 'Fence', (lock) => lock.fence ?? lock.digest ?? '–', { sort: 'down', by: (lock) => lock.fence ?? 0 }),
];

const KINDS = [
  ['all', 'All', () => true],
  ['waited', 'With waiters', (lock) => lock.waiting > 0],
  ['odd', 'Needs attention', needsAttention, 'Broken, undecided (the nodes do not agree on a holder), or missing on a node that answers'],
];

function drawWaiters(cell, lock, row) {
  drawWaiting(cell, lock.waiting);
  setAttribute(row, 'data-odd', needsAttention(lock));
}

/** Returns whether the lock needs attention: broken, undecided, or missing on a node that answers. */
function needsAttention(lock) {
  return (
    lock.broken || (!lock.held && lock.waiting === 0) || lock.nodes.some((node) => !node.trouble && node.held !== lock.held)
  );
}

export function locks({ store, route, go }) {
  const { parameters } = route;
  let sort = COLUMNS.find((column) => column.id === parameters.get('sort') && column.sort) ?? COLUMNS[0];
  let direction = parameters.get('order') ?? sort.sort;
  /** The version of the locks that the table shows, and when the table was sorted. */
  let painted = { version: -1, at: 0 };

  const table = new Table({
    label: 'Locks',
    name: 'locks',
    columns: [...COLUMNS, { id: 'dots', label: 'Nodes', draw: (cell, lock) => drawDots(cell, lock, store) }],
    key: (lock) => lock.name,
    open: (lock) => go(`/lock/${encodeURIComponent(lock.name)}`),
    onSort: (column) => sortBy(column, column === sort ? (direction === 'up' ? 'down' : 'up') : column.sort),
  });
  const filter = new Filter({
    label: 'Filter by name or holder',
    kinds: KINDS,
    text: ({ name, holder }) => `${name} ${holder?.label ?? ''} ${holder?.host ?? ''}`,
    parameters,
    changed,
  });
  const sorts = COLUMNS.filter((column) => column.sort).map((column) =>
    h('option', { value: column.id, selected: column === sort }, column.label),
  );
  const sorting = h(
    'select',
    { class: 'sorting', 'aria-label': 'Sort by', onchange: () => sortBy(...columnAndOrder(sorting.value)) },
    ...sorts,
  );
  const summary = h('p', { class: 'summary', role: 'status' });
  const bar = h('div', { class: 'bar-of-view' }, filter.input, filter.chips, sorting, summary);
  const nothing = h('div', { class: 'nothing', hidden: true });
  const element = h(
    'section',
    { class: 'view', 'aria-label': 'Locks' },
    h('h1', { class: 'visually-hidden' }, 'Locks'),
    bar,
    table.element,
    nothing,
  );
  table.showOrder(sort.id, direction);

  /** Returns the column with this id, and its first order. */
  function columnAndOrder(id) {
    const column = COLUMNS.find((column) => column.id === id);
    return [column, column.sort];
  }

  function sortBy(column, newDirection) {
    [sort, direction] = [column, newDirection];
    sorting.value = column.id;
    table.showOrder(sort.id, direction);
    changed();
  }

  function changed() {
    const changedParameters = new URLSearchParams();
    filter.writeTo(changedParameters);
    if (sort !== COLUMNS[0]) changedParameters.set('sort', sort.id);
    if (direction !== sort.sort) changedParameters.set('order', direction);
    route.storeParameters(changedParameters);
    painted.version = -1;
    paint();
  }

  function sortedLocks() {
    const sign = direction === 'up' ? 1 : -1;
    const keyed = filter.apply(store.locks.values()).map((lock) => [sort.by(lock), lock]);
    keyed.sort(([a, lock], [b, other]) => (a < b ? -sign : a > b ? sign : lock.name < other.name ? -1 : 1));
    return keyed.map(([, lock]) => lock);
  }

  function paint() {
    const now = performance.now();
    const isNew = painted.version !== store.version || sort.changesWithTime;
    const mayWait = painted.version >= 0 && store.locks.size > MANY_LOCKS && now - painted.at < MANY_PAUSE_MS;
    if (isNew && !mayWait) {
      painted = { version: store.version, at: now };
      table.show(sortedLocks());
      setText(summary, summarise());
      paintNothing();
    } else table.paint();
  }

  function summarise() {
    const all = [...store.locks.values()];
    if (store.areLocksUnreadable && all.length === 0) return '';
    const locksWithWaiters = all.filter((lock) => lock.waiting > 0).length;
    const waiters = all.reduce((sum, lock) => sum + lock.waiting, 0);
    const shown =
      table.items.length === all.length
        ? formatQuantity(all.length, 'lock')
        : `${formatCount(table.items.length)} of ${formatQuantity(all.length, 'lock')}`;
    const waiting = waiters > 0 ? `, ${formatQuantity(waiters, 'waiter')} for ${formatCount(locksWithWaiters)} of them` : '';
    return shown + waiting + (store.look?.is_truncated ? '; more locks are not shown' : '');
  }

  /** Returns why the table is empty. */
  function reasonForNothing() {
    if (!store.hasSnapshot) return 'unknown';
    if (store.locks.size > 0) return 'filtered';
    return store.areLocksUnreadable ? 'unreadable' : 'free';
  }

  function paintNothing() {
    nothing.hidden = table.items.length > 0;
    if (nothing.hidden) return;
    const reason = reasonForNothing();
    if (nothing.reason === reason) return;
    nothing.reason = reason;
    const authorization = bearerToken() ? ` -H "Authorization: Bearer $TOKEN"` : '';
    const call = `curl -s ${location.origin}/v1/leases${authorization} --json '{"name": "hello", "ttl_ms": 30000, "label": "first"}'`;
    const contents = {
      // The banner shows the reason.
      unreadable: () => '',
      unknown: () => emptyView('Reading the nodes', 'Locks appear as soon as a majority has answered.'),
      filtered: () =>
        emptyView(
          'No match',
          'No lock matches the filter.',
          h('p', {}, h('button', { type: 'button', onclick: () => filter.clear() }, 'Show all')),
        ),
      free: () =>
        emptyView(
          'No locks',
          'No lock has a holder or a waiter. To see one here, acquire a lock for half a minute:',
          h('pre', {}, call),
        ),
    };
    nothing.replaceChildren(contents[reason]());
  }

  const handleKey = (event) => filter.handleKey(event) || table.handleKey(event);

  return { element, title: 'Locks', paint, handleKey, destroy: () => table.destroy() };
}
