// The view of all locks: holders, time left, and waiters.

import { bearer } from '../bearer.js';
import { Filter } from '../filter.js';
import { h, mark, write } from '../dom.js';
import { drawDots, drawLeft, drawWaiting, drawWho, empty } from '../draw.js';
import { Store } from '../store.js';
import { Table, plain } from '../table.js';
import { count, counted, lasting, mode, who } from '../format.js';

/** With more locks than this, the table is sorted at most once a second. */
const MANY = 1_000;
const MANY_PAUSE_MS = 1_000;

const COLUMNS = [
  plain('name', 'Name', (lock) => lock.name, { sort: 'up', by: (lock) => lock.name }),
  {
    id: 'holder',
    label: 'Holder',
    sort: 'up',
    by: (lock) => who(lock.holder),
    draw: (cell, lock) => drawWho(cell, lock.holder),
  },
  plain('mode', 'Mode', mode),
  plain('age', 'Age', (lock) => lasting(Store.age(lock)), {
    sort: 'down',
    by: (lock) => Store.age(lock) ?? -1,
    moves: true,
  }),
  {
    id: 'left',
    label: 'Time left',
    sort: 'up',
    by: (lock) => Store.left(lock) ?? Infinity,
    moves: true,
    draw: drawLeft,
  },
  plain('renewals', 'Renewals', (lock) => count(lock.renewals), {
    sort: 'down',
    by: (lock) => lock.renewals,
    title: 'Renewals that this replica has seen',
  }),
  { id: 'waiters', label: 'Waiters', sort: 'down', by: (lock) => lock.waiting, draw: drawWaiters },
  plain('fence', 'Fence', (lock) => lock.fence ?? lock.digest ?? '–', { sort: 'down', by: (lock) => lock.fence ?? 0 }),
];

const KINDS = [
  ['all', 'All', () => true],
  ['waited', 'With waiters', (lock) => lock.waiting > 0],
  ['odd', 'Needs attention', isOdd, 'Broken, undecided, or missing on a node that answers'],
];

function drawWaiters(cell, lock, row) {
  drawWaiting(cell, lock.waiting);
  mark(row, 'data-odd', isOdd(lock));
}

/** Whether the lock needs attention: broken, undecided, or missing on a node that answers. */
function isOdd(lock) {
  return (
    lock.broken || (!lock.held && lock.waiting === 0) || lock.nodes.some((at) => !at.trouble && at.held !== lock.held)
  );
}

export function locks({ store, route, go }) {
  const { parameters } = route;
  let sort = COLUMNS.find((column) => column.id === parameters.get('sort') && column.sort) ?? COLUMNS[0];
  let direction = parameters.get('order') ?? sort.sort;
  let made = { version: -1, at: 0 };

  const table = new Table({
    label: 'Locks',
    name: 'locks',
    columns: [...COLUMNS, { id: 'dots', label: 'Nodes', draw: (cell, lock) => drawDots(cell, lock, store) }],
    key: (lock) => lock.name,
    open: (lock) => go(`/lock/${encodeURIComponent(lock.name)}`),
    onSort: (column) => order(column, column === sort ? (direction === 'up' ? 'down' : 'up') : column.sort),
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
    { class: 'sorting', 'aria-label': 'Sort by', onchange: () => order(...byId(sorting.value)) },
    ...sorts,
  );
  const summary = h('p', { class: 'summary', role: 'status' });
  const bar = h('div', { class: 'bar-of-view' }, filter.input, filter.chips, sorting, summary);
  const nothing = h('div', { class: 'nothing', hidden: true });
  const element = h(
    'section',
    { class: 'view', 'aria-label': 'Locks' },
    h('h1', { class: 'unseen' }, 'Locks'),
    bar,
    table.element,
    nothing,
  );
  table.sorted(sort.id, direction);

  function byId(id) {
    const column = COLUMNS.find((column) => column.id === id);
    return [column, column.sort];
  }

  function order(column, way) {
    [sort, direction] = [column, way];
    sorting.value = column.id;
    table.sorted(sort.id, direction);
    changed();
  }

  function changed() {
    const kept = new URLSearchParams();
    filter.keep(kept);
    if (sort !== COLUMNS[0]) kept.set('sort', sort.id);
    if (direction !== sort.sort) kept.set('order', direction);
    route.keep(kept);
    made.version = -1;
    paint();
  }

  function list() {
    const sign = direction === 'up' ? 1 : -1;
    const keyed = filter.apply(store.locks.values()).map((lock) => [sort.by(lock), lock]);
    keyed.sort(([a, lock], [b, other]) => (a < b ? -sign : a > b ? sign : lock.name < other.name ? -1 : 1));
    return keyed.map(([, lock]) => lock);
  }

  function paint() {
    const now = performance.now();
    const isNew = made.version !== store.version || sort.moves;
    const mayWait = made.version >= 0 && store.locks.size > MANY && now - made.at < MANY_PAUSE_MS;
    if (isNew && !mayWait) {
      made = { version: store.version, at: now };
      table.show(list());
      write(summary, summarise());
      tellNothing();
    } else table.paint();
  }

  function summarise() {
    const all = [...store.locks.values()];
    if (store.isBlind && all.length === 0) return '';
    const waited = all.reduce((sum, lock) => sum + (lock.waiting > 0 ? 1 : 0), 0);
    const waiters = all.reduce((sum, lock) => sum + lock.waiting, 0);
    const shown =
      table.items.length === all.length
        ? counted(all.length, 'lock')
        : `${count(table.items.length)} of ${counted(all.length, 'lock')}`;
    const waiting = waiters > 0 ? `, ${counted(waiters, 'waiter')} for ${count(waited)} of them` : '';
    return shown + waiting + (store.look?.is_cut ? '; more locks are not shown' : '');
  }

  function kindOfNothing() {
    if (!store.isKnown) return 'unknown';
    if (store.locks.size > 0) return 'filtered';
    return store.isBlind ? 'blind' : 'free';
  }

  function tellNothing() {
    nothing.hidden = table.items.length > 0;
    if (nothing.hidden) return;
    const key = kindOfNothing();
    if (nothing.key === key) return;
    nothing.key = key;
    const bearing = bearer() ? ` -H "Authorization: Bearer $TOKEN"` : '';
    const call = `curl -s ${location.origin}/v1/leases${bearing} --json '{"name": "hello", "ttl_ms": 30000, "label": "first"}'`;
    const said = {
      // The banner says why.
      blind: () => '',
      unknown: () => empty('Reading the nodes', 'Locks appear as soon as a majority has answered.'),
      filtered: () =>
        empty(
          'No match',
          'No lock matches the filter.',
          h('p', {}, h('button', { type: 'button', onclick: () => filter.clear() }, 'Show all')),
        ),
      free: () =>
        empty(
          'No locks',
          'No lock has a holder or a waiter. To see one here, acquire a lock for half a minute:',
          h('pre', {}, call),
        ),
    };
    nothing.replaceChildren(said[key]());
  }

  const key = (event) => filter.key(event) || table.key(event);

  return { element, title: 'Locks', paint, key, destroy: () => table.destroy() };
}
