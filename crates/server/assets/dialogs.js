// Modal dialogs.

import { bearerToken, deleteBearerToken, storeBearerToken } from './bearer.js';
import { h } from './dom.js';

/** Each key, and what it does. */
const KEYS = [
  ['1 … 5', 'the five views'],
  ['/', 'filter'],
  ['j  k', 'next, previous row'],
  ['Enter', 'open the row'],
  ['b', 'break the open lock'],
  ['Esc', 'close, clear the filter, or go back to the locks'],
  ['?', 'show this help'],
];

/** Each shape, and what it means. */
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
export function openHelp() {
  if (document.querySelector('dialog[open]')) return;
  const definitions = (list, drawTerm) =>
    h('dl', { class: 'keys' }, ...list.flatMap(([term, text]) => [h('dt', {}, drawTerm(term)), h('dd', {}, text)]));
  const shape = (kind) => h('span', { class: 'shape', 'data-kind': kind });
  const close = h('button', { type: 'button', autofocus: true, onclick: () => dialog.close() }, 'Close');
  const forgetToken =
    bearerToken() &&
    h('button', { type: 'button', onclick: () => (deleteBearerToken(), location.reload()) }, 'Forget the bearer token');
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
      definitions(KEYS, (key) => h('kbd', {}, key)),
      h('h2', {}, 'Shapes'),
      definitions(SHAPES, shape),
      api,
      h('div', { class: 'actions' }, forgetToken, close),
    ),
  );
}

/** Asks for a bearer token, stores it, and calls `done()`. `isTokenUnknown` says whether the service does not know the stored token. */
export function askForBearerToken(why, isTokenUnknown, done) {
  if (document.querySelector('dialog.bearer')) return;
  const input = h('input', { id: 'bearer', type: 'password', required: true, autocomplete: 'off' });
  const form = h(
    'form',
    {
      onsubmit: (event) => {
        event.preventDefault();
        storeBearerToken(input.value.trim());
        dialog.close();
        // Do not wait for the close event: before it arrives, a reply may make the page ask again.
        dialog.remove();
        done();
      },
    },
    h('h2', { id: 'bearer-title' }, 'Sign in'),
    isTokenUnknown
      ? h('p', { class: 'trouble', role: 'alert' }, 'The service does not know this bearer token.')
      : h('p', {}, `The service needs a bearer token: ${why}.`),
    h('label', { for: 'bearer' }, 'Bearer token with the scope read, and with the scope admin to break locks'),
    input,
    h('p', { class: 'dim' }, 'The token stays in this tab until you close it.'),
    h('div', { class: 'actions' }, h('button', { type: 'submit', class: 'main' }, 'Sign in')),
  );
  const dialog = open(h('dialog', { class: 'bearer', 'aria-labelledby': 'bearer-title' }, form));
  input.focus();
}
