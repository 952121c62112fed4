// A virtual table: only the visible rows exist.

import { h, mark, write } from './dom.js';

/** Rows above and below the visible ones, so that scrolling shows no gap. */
const SPARE = 8;
/** As in style.css: on a phone, a row has two lines. */
const ROW_PX = 30;
const ROW_NARROW_PX = 54;
const narrow = matchMedia('(max-width: 700px)');

let tables = 0;

/**
 * `columns` are `{ id, label, sort, draw(cell, item, row) }`, `key(item)` identifies an item, and `open(item)`
 * is called for a click or Enter. A column's `sort` is its first order: `'up'` or `'down'`.
 */
export class Table {
  element;
  items = [];
  selected = null;

  #columns;
  #key;
  #open;
  #space;
  #heads = [];
  #rows = [];
  #id = `table-${(tables += 1)}`;
  #frame = 0;
  #seen;

  constructor({ label, name, columns, key, open, onSort }) {
    this.#columns = columns;
    this.#key = key;
    this.#open = open;
    this.#heads = columns.map((column) => this.#head(column, onSort));
    this.#space = h('div', { class: 'space', role: 'rowgroup' });
    const head = h('div', { class: 'row head', role: 'row', 'aria-rowindex': 1 }, ...this.#heads);
    const heads = h('div', { class: 'heads', role: 'rowgroup' }, head);
    this.element = h(
      'div',
      { class: `table ${name}`, role: 'grid', tabindex: 0, 'aria-label': label },
      heads,
      this.#space,
    );
    this.element.addEventListener('scroll', () => this.#soon(), { passive: true });
    this.element.addEventListener('click', (event) => this.#click(event));
    this.#seen = new ResizeObserver(() => this.#soon());
    this.#seen.observe(this.element);
  }

  /** Shows these items, in this order. */
  show(items) {
    this.items = items;
    mark(this.element, 'aria-rowcount', items.length + 1);
    this.paint();
  }

  /** Marks the column by which the table is sorted. */
  sorted(id, direction) {
    this.#heads.forEach((head, at) => {
      const isIt = this.#columns[at].id === id;
      mark(head, 'aria-sort', isIt ? (direction === 'up' ? 'ascending' : 'descending') : null);
    });
  }

  /** Draws the visible rows. */
  paint() {
    const height = narrow.matches ? ROW_NARROW_PX : ROW_PX;
    const { scrollTop, clientHeight } = this.element;
    const size = `${this.items.length * height}px`;
    if (this.#space.style.height !== size) this.#space.style.height = size;
    const first = Math.max(0, Math.floor(scrollTop / height) - SPARE);
    const last = Math.min(this.items.length, Math.ceil((scrollTop + clientHeight) / height) + SPARE);
    const wanted = Math.max(0, last - first);
    while (this.#rows.length < wanted) this.#rows.push(this.#row());
    let chosen = null;
    // An index keeps its row while it is visible, so that a step of scrolling redraws one row.
    this.#rows.forEach((row, at) => {
      const index = first + ((((at - first) % this.#rows.length) + this.#rows.length) % this.#rows.length);
      if (index >= last) {
        row.element.hidden = true;
        row.item = null;
        return;
      }
      this.#draw(row, index, height);
      if (this.#key(row.item) === this.selected) chosen = row.element.id;
    });
    mark(this.element, 'aria-activedescendant', chosen);
  }

  /** Moves the selection down by this many rows. */
  move(by) {
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

  /** Handles a key, and returns whether it did. */
  key({ key }) {
    if (key === 'j' || key === 'ArrowDown') this.move(1);
    else if (key === 'k' || key === 'ArrowUp') this.move(-1);
    else return key === 'Enter' && this.open();
    return true;
  }

  destroy() {
    this.#seen.disconnect();
    cancelAnimationFrame(this.#frame);
  }

  #soon() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.paint();
    });
  }

  #head(column, onSort) {
    const label = h('span', {}, column.label);
    const inside =
      column.sort && onSort ? h('button', { type: 'button', onclick: () => onSort(column) }, label) : label;
    return h('div', { class: `cell ${column.id}`, role: 'columnheader', title: column.title }, inside);
  }

  #row() {
    const cells = this.#columns.map((column) => h('div', { class: `cell ${column.id}`, role: 'gridcell' }));
    const element = h('div', { class: 'row', role: 'row', id: `${this.#id}-${this.#rows.length}` }, ...cells);
    this.#space.append(element);
    return { element, cells, item: null };
  }

  #draw(row, index, height) {
    const { element, cells } = row;
    row.item = this.items[index];
    if (element.hidden) element.hidden = false;
    const place = `translateY(${index * height}px)`;
    if (element.style.transform !== place) element.style.transform = place;
    mark(element, 'aria-rowindex', index + 2);
    mark(element, 'aria-selected', this.#key(row.item) === this.selected);
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

/** A column of plain text. */
export function plain(id, label, text, more = {}) {
  return { id, label, draw: (cell, item) => write(cell, text(item)), ...more };
}
