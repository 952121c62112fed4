// Modal dialogs.

import { bearer, forget, keep } from './bearer.js';
import { h } from './dom.js';

const KEYS = [
  ['1 … 5', 'the five views'],
  ['/', 'filter'],
  ['j  k', 'next, previous row'],
  ['Enter', 'open the row'],
  ['b', 'break the lock that is open'],
  ['Esc', 'close, clear the filter, or go back to the locks'],
  ['?', 'show this help'],
];

const SHAPES = [
  ['vote', 'votes; has a vote for the lock'],
  ['none', 'has no vote for the lock'],
  ['other', 'has another fence; broken'],
  ['wait', 'in quarantine'],
  ['away', 'unreachable or failing; lost'],
];

function open(dialog) {
  dialog.addEventListener('close', () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** Shows the keyboard shortcuts and the legend. */
export function help() {
  if (document.querySelector('dialog[open]')) return;
  const pairs = (list, first) =>
    h('dl', { class: 'keys' }, ...list.flatMap(([sign, words]) => [h('dt', {}, first(sign)), h('dd', {}, words)]));
  const shape = (kind) => h('span', { class: 'shape', 'data-kind': kind });
  const close = h('button', { type: 'button', autofocus: true, onclick: () => dialog.close() }, 'Close');
  const out =
    bearer() &&
    h('button', { type: 'button', onclick: () => (forget(), location.reload()) }, 'Forget the bearer token');
  const api = h(
    'p',
    { class: 'dim' },
    'The page uses only the HTTP API: ',
    h('a', { href: '/openapi.json' }, 'openapi.json'),
  );
  const dialog = open(
    h(
      'dialog',
      { 'aria-labelledby': 'help-title' },
      h('h2', { id: 'help-title' }, 'Keys'),
      pairs(KEYS, (key) => h('kbd', {}, key)),
      h('h2', {}, 'Shapes'),
      pairs(SHAPES, shape),
      api,
      h('div', { class: 'actions' }, out, close),
    ),
  );
}

/** Asks for a bearer token, and calls `done()` when there is one. */
export function askForBearer(why, isWrong, done) {
  if (document.querySelector('dialog.bearer')) return;
  const input = h('input', { id: 'bearer', type: 'password', required: true, autocomplete: 'off' });
  const form = h(
    'form',
    {
      onsubmit: (event) => {
        event.preventDefault();
        keep(input.value.trim());
        dialog.close();
        // The close event arrives later, perhaps after a reply that makes us ask again.
        dialog.remove();
        done();
      },
    },
    h('h2', { id: 'bearer-title' }, 'Sign in'),
    isWrong
      ? h('p', { class: 'trouble', role: 'alert' }, 'The service does not know this bearer token.')
      : h('p', {}, `The service needs a bearer token: ${why}.`),
    h('label', { for: 'bearer' }, 'Bearer token. It needs the scope read, and admin to break locks'),
    input,
    h('p', { class: 'dim' }, 'The token stays in this tab until you close it.'),
    h('div', { class: 'actions' }, h('button', { type: 'submit', class: 'main' }, 'Go on')),
  );
  const dialog = open(h('dialog', { class: 'bearer', 'aria-labelledby': 'bearer-title' }, form));
  input.focus();
}
