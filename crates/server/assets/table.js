// A virtual table: only the visible rows exist as elements.

import { h, setAttribute, setText } from './dom.js';

/** The number of extra rows above and below the visible rows, so that scrolling shows no gap. */
const EXTRA_ROWS = 8;
/** The height of a row, as in style.css. On a phone, a row has two lines. */
const ROW_PX = 30;
const ROW_NARROW_PX = 54;
const narrow = matchMedia('(max-width: 700px)');

let tableCount = 0;

/**
 * Each column is `{ id, label, sort, draw(cell, item, row) }`. `sort` is the order of the first click on the column: `'up'` or `'down'`.
 * `key(item)` returns a key that identifies the item. The table calls `open(item)` for a click or Enter.
 */
export class Table {
  element;
  items = [];
  /** The key of the selected item. */
  selected = null;

  #columns;
  #key;
  #open;
  #space;
  #heads = [];
  #rows = [];
  #id = `table-${(tableCount += 1)}`;
  #frame = 0;
  #resizeObserver;

  constructor({ label, name, columns, key, open, onSort }) {
    this.#columns = columns;
    this.#key = key;
    this.#open = open;
    this.#heads = columns.map((column) => this.#createHead(column, onSort));
    this.#space = h('div', { class: 'space', role: 'rowgroup' });
    const head = h('div', { class: 'row head', role: 'row', 'aria-rowindex': 1 }, ...this.#heads);
    const heads = h('div', { class: 'heads', role: 'rowgroup' }, head);
    this.element = h(
      'div',
      { class: `table ${name}`, role: 'grid', tabindex: 0, 'aria-label': label },
      heads,
      this.#space,
    );
    this.element.addEventListener('scroll', () => this.#paintSoon(), { passive: true });
    this.element.addEventListener('click', (event) => this.#click(event));
    this.#resizeObserver = new ResizeObserver(() => this.#paintSoon());
    this.#resizeObserver.observe(this.element);
  }

  /** Shows these items, in this order. */
  show(items) {
    this.items = items;
    setAttribute(this.element, 'aria-rowcount', items.length + 1);
    this.paint();
  }

  /** Shows by which column the table is sorted. */
  showOrder(id, direction) {
    this.#heads.forEach((head, at) => {
      const isSorted = this.#columns[at].id === id;
      setAttribute(head, 'aria-sort', isSorted ? (direction === 'up' ? 'ascending' : 'descending') : null);
    });
  }

  /** Draws the visible rows. */
  paint() {
    const height = narrow.matches ? ROW_NARROW_PX : ROW_PX;
    const { scrollTop, clientHeight } = this.element;
    const size = `${this.items.length * height}px`;
    if (this.#space.style.height !== size) this.#space.style.height = size;
    const first = Math.max(0, Math.floor(scrollTop / height) - EXTRA_ROWS);
    const last = Math.min(this.items.length, Math.ceil((scrollTop + clientHeight) / height) + EXTRA_ROWS);
    const count = Math.max(0, last - first);
    while (this.#rows.length < count) this.#rows.push(this.#createRow());
    let selectedId = null;
    // An item keeps its row element while it is visible, so that scrolling by one row redraws only one row.
    this.#rows.forEach((row, at) => {
      const index = first + ((((at - first) % this.#rows.length) + this.#rows.length) % this.#rows.length);
      if (index >= last) {
        row.element.hidden = true;
        row.item = null;
        return;
      }
      this.#draw(row, index, height);
      if (this.#key(row.item) === this.selected) selectedId = row.element.id;
    });
    setAttribute(this.element, 'aria-activedescendant', selectedId);
  }

  /** Moves the selection down by this many rows. */
  moveSelection(by) {
    if (this.items.length === 0) return;
    const at = this.items.findIndex((item) => this.#key(item) === this.selected);
    const next = at < 0 ? 0 : Math.min(this.items.length - 1, Math.max(0, at + by));
    this.selected = this.#key(this.items[next]);
    const height = narrow.matches ? ROW_NARROW_PX : ROW_PX;
    const { scrollTop, clientHeight } = this.element;
    const head = this.#space.offsetTop;
    if (next * height < scrollTop) this.element.scrollTop = next * height;
    else if ((next + 1) * height + head > scrollTop + clientHeight) {
      this.element.scrollTop = (next + 1) * height + head - clientHeight;
    }
    this.paint();
  }

  /** Opens the selected item, and returns whether there is one. */
  open() {
    const item = this.items.find((item) => this.#key(item) === this.selected);
    if (item) this.#open?.(item);
    return item != null;
  }

  /** Handles a key, and returns whether the key has an effect. */
  handleKey({ key }) {
    if (key === 'j' || key === 'ArrowDown') this.moveSelection(1);
    else if (key === 'k' || key === 'ArrowUp') this.moveSelection(-1);
    else return key === 'Enter' && this.open();
    return true;
  }

  destroy() {
    this.#resizeObserver.disconnect();
    cancelAnimationFrame(this.#frame);
  }

  #paintSoon() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.paint();
    });
  }

  #createHead(column, onSort) {
    const label = h('span', {}, column.label);
    const content =
      column.sort && onSort ? h('button', { type: 'button', onclick: () => onSort(column) }, label) : label;
    return h('div', { class: `cell ${column.id}`, role: 'columnheader', title: column.title }, content);
  }

  #createRow() {
    const cells = this.#columns.map((column) => h('div', { class: `cell ${column.id}`, role: 'gridcell' }));
    const element = h('div', { class: 'row', role: 'row', id: `${this.#id}-${this.#rows.length}` }, ...cells);
    this.#space.append(element);
    return { element, cells, item: null };
  }

  #draw(row, index, height) {
    const { element, cells } = row;
    row.item = this.items[index];
    if (element.hidden) element.hidden = false;
    const transform = `translateY(${index * height}px)`;
    if (element.style.transform !== transform) element.style.transform = transform;
    setAttribute(element, 'aria-rowindex', index + 2);
    setAttribute(element, 'aria-selected', this.#key(row.item) === this.selected);
    this.#columns.forEach((column, at) => column.draw(cells[at], row.item, element));
  }

  #click(event) {
    const element = event.target.closest('.row');
    const row = this.#rows.find((row) => row.element === element);
    if (!row?.item) return;
    this.selected = this.#key(row.item);
    this.#open?.(row.item);
    this.paint();
  }
}

/** Returns a column that shows `text(item)`. `options` are further properties of the column. */
export function textColumn(id, label, text, options = {}) {
  return { id, label, draw: (cell, item) => setText(cell, text(item)), ...options };
}
