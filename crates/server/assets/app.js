// The page: one stream, one store, one view at a time.

import { bearer, forget } from './bearer.js';
import { askForBearer, help } from './dialogs.js';
import { mark } from './dom.js';
import { currentRoute, go, replaceRoute } from './route.js';
import { Status } from './status.js';
import { Store } from './store.js';
import { Stream } from './stream.js';
import { themeSwitch } from './theme.js';
import { history } from './views/history.js';
import { hot } from './views/hot.js';
import { lock } from './views/lock.js';
import { locks } from './views/locks.js';
import { nodes } from './views/nodes.js';

/** The least time between two updates of the view, in milliseconds. */
const PAINT_MS = 250;
const TICK_MS = 1_000;

const VIEWS = { locks, lock, nodes, hot, history };
const main = document.querySelector('#main');
const store = new Store();
const stream = new Stream((event, data) => (store.apply(event, data), soon()), changed);
const status = new Status(stream, store);
let view = null;
let lastLock = '';
let timer = null;

function soon() {
  timer ??= setTimeout(() => requestAnimationFrame(paint), PAINT_MS);
}

function paint() {
  clearTimeout(timer);
  timer = null;
  status.paint();
  view?.paint();
}

/** Called when the state of the stream changes. */
function changed() {
  if (stream.state === 'refused') {
    const isWrong = stream.status === 401 && bearer() != null;
    if (isWrong) forget();
    askForBearer(stream.why, isWrong, () => stream.retry());
  }
  status.paint();
}

function show() {
  if (!Object.hasOwn(VIEWS, currentRoute().view)) replaceRoute('locks');
  const route = currentRoute();
  if (route.view === 'lock' && !route.name && lastLock) return go(`/lock/${encodeURIComponent(lastLock)}`);
  if (route.view === 'lock') lastLock = route.name;
  // The dialog that breaks a lock belongs to the view of that lock.
  document.querySelector('dialog.break')?.close();
  view?.destroy();
  view = VIEWS[route.view]({ store, route, go });
  main.replaceChildren(view.element);
  mark(main, 'data-view', route.view);
  document.title = `${view.title} · quorlock`;
  for (const link of document.querySelectorAll('#views a'))
    mark(link, 'aria-current', link.dataset.view === route.view ? 'page' : null);
  paint();
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
  const isTyping = event.target.closest('input, select, textarea');
  if (isTyping) {
    if (event.key === 'Escape' || (event.key === 'Enter' && event.target.type === 'search')) event.target.blur();
    else return;
    if (event.key === 'Enter') return;
  }
  // Enter activates the focused button or link.
  if (event.key === 'Enter' && event.target.closest('a, button')) return;
  const digit = Object.keys(VIEWS)[Number(event.key) - 1];
  if (view?.key(event)) event.preventDefault();
  else if (digit) go(`/${digit}`);
  else if (event.key === '?') help();
  else if (event.key === 'Escape') go('/locks');
}

/** Moves the focus to the view. A plain `#main` link would replace the view in the address. */
function skip(event) {
  event.preventDefault();
  main.focus();
}

addEventListener('hashchange', show);
addEventListener('keydown', onKey);
document.querySelector('.skip').addEventListener('click', skip);
document.querySelector('#help').addEventListener('click', help);
themeSwitch(document.querySelector('#theme'));
setInterval(() => requestAnimationFrame(paint), TICK_MS);
show();
stream.retry();
