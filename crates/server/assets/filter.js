// A filter of a list by text and by kind.

import { h, setAttribute } from './dom.js';

/**
 * Each kind is `[id, label, matches(item), title]`; the first kind matches every item. `text(item)` returns the text to search. The filter
 * calls `changed()` when the user changes it.
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
      const [, kindLabel, , title] = kind;
      return h('button', { type: 'button', title, onclick: () => this.#choose(kind) }, kindLabel);
    });
    this.chips = h('div', { class: 'chips', role: 'group', 'aria-label': 'Kind' }, ...this.#buttons);
    this.#showKind();
  }

  /** Returns the items that match the filter. */
  apply(items) {
    const [, , isOfKind] = this.#kind;
    const words = this.input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const hasWords = (item) => {
      const text = this.#text(item).toLowerCase();
      return words.every((word) => text.includes(word));
    };
    return [...items].filter((item) => isOfKind(item) && (words.length === 0 || hasWords(item)));
  }

  /** Writes the filter to the parameters of an address. */
  writeTo(parameters) {
    if (this.input.value) parameters.set('filter', this.input.value);
    if (this.#kind !== this.#kinds[0]) parameters.set('only', this.#kind[0]);
  }

  /** Resets the filter. */
  clear() {
    this.input.value = '';
    this.#choose(this.#kinds[0]);
  }

  /** Handles a key, and returns whether the key has an effect. */
  handleKey({ key }) {
    const isEmpty = !this.input.value && this.#kind === this.#kinds[0];
    if (key === '/') this.input.focus();
    else if (key === 'Escape' && !isEmpty) this.clear();
    else return false;
    return true;
  }

  #choose(kind) {
    this.#kind = kind;
    this.#showKind();
    this.#changed();
  }

  #showKind() {
    this.#buttons.forEach((button, at) => setAttribute(button, 'aria-pressed', String(this.#kinds[at] === this.#kind)));
  }
}
