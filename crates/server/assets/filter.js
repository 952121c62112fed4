// What a view shows of all that there is: what fits a text, and is of one of a few kinds.

import { h, mark } from './dom.js';

/**
 * `kinds` are `[id, label, isOne(item), title]`, the first for everything; `text(item)` is what is filtered, and
 * `changed()` is called whenever something else is chosen.
 */
export class Choice {
  filter;
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
    this.filter = h('input', {
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

  /** Those of the items that are chosen. */
  among(items) {
    const [, , isOne] = this.#kind;
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (item) => {
      const text = this.#text(item).toLowerCase();
      return words.every((word) => text.includes(word));
    };
    return [...items].filter((item) => isOne(item) && (words.length === 0 || fits(item)));
  }

  /** Puts it into the parameters of an address. */
  keep(parameters) {
    if (this.filter.value) parameters.set('filter', this.filter.value);
    if (this.#kind !== this.#kinds[0]) parameters.set('only', this.#kind[0]);
  }

  /** Everything again. */
  clear() {
    this.filter.value = '';
    this.#choose(this.#kinds[0]);
  }

  /** Does what a key is for; says whether it is for anything here. */
  key({ key }) {
    const isAll = !this.filter.value && this.#kind === this.#kinds[0];
    if (key === '/') this.filter.focus();
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
