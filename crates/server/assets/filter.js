// A filter by text and by kind.

import { h, mark } from './dom.js';

/**
 * `kinds` are `[id, label, isOne(item), title]`, and the first one matches every item. `text(item)` is the text to search,
 * and `changed()` is called when the filter changes.
 */
export class Filter {
  input;
  chips;

  #kinds;
  #kind;
  #text;
  #changed;
  #buttons;

  constructor({ label, kinds, text, parameters, changed }) {
    this.#kinds = kinds;
    this.#kind = kinds.find(([id]) => id === parameters.get('only')) ?? kinds[0];
    this.#text = text;
    this.#changed = changed;
    this.input = h('input', {
      type: 'search',
      class: 'filter',
      placeholder: label,
      'aria-label': label,
      value: parameters.get('filter') ?? '',
      autocomplete: 'off',
      spellcheck: 'false',
      'aria-keyshortcuts': '/',
      oninput: () => changed(),
    });
    this.#buttons = kinds.map((kind) => {
      const [, words, , title] = kind;
      return h('button', { type: 'button', title, onclick: () => this.#choose(kind) }, words);
    });
    this.chips = h('div', { class: 'chips', role: 'group', 'aria-label': 'Which' }, ...this.#buttons);
    this.#press();
  }

  /** The items that match. */
  apply(items) {
    const [, , isOne] = this.#kind;
    const words = this.input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (item) => {
      const text = this.#text(item).toLowerCase();
      return words.every((word) => text.includes(word));
    };
    return [...items].filter((item) => isOne(item) && (words.length === 0 || fits(item)));
  }

  /** Writes the filter to the parameters of an address. */
  keep(parameters) {
    if (this.input.value) parameters.set('filter', this.input.value);
    if (this.#kind !== this.#kinds[0]) parameters.set('only', this.#kind[0]);
  }

  /** Resets the filter. */
  clear() {
    this.input.value = '';
    this.#choose(this.#kinds[0]);
  }

  /** Handles a key, and returns whether it did. */
  key({ key }) {
    const isAll = !this.input.value && this.#kind === this.#kinds[0];
    if (key === '/') this.input.focus();
    else if (key === 'Escape' && !isAll) this.clear();
    else return false;
    return true;
  }

  #choose(kind) {
    this.#kind = kind;
    this.#press();
    this.#changed();
  }

  #press() {
    this.#buttons.forEach((button, at) => mark(button, 'aria-pressed', String(this.#kinds[at] === this.#kind)));
  }
}
