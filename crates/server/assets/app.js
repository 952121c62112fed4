// The page: one stream, one store, one view at a time.

import { bearer, forget } from './bearer.js';
import { askForBearer, help } from './dialogs.js';
import { mark } from './dom.js';
import { go, instead, place } from './route.js';
import { Status } from './status.js';
import { Store } from './store.js';
import { Stream } from './stream.js';
import { themeSwitch } from './theme.js';
import { history } from './views/history.js';
import { hot } from './views/hot.js';
import { lock } from './views/lock.js';
import { locks } from './views/locks.js';
import { nodes } from './views/nodes.js';

/** News are shown together, at most so often. */
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

/** The stream came, went or was refused. */
function changed() {
  if (stream.state === 'refused') {
    const isWrong = stream.status === 401 && bearer() != null;
    if (isWrong) forget();
    askForBearer(stream.why, isWrong, () => stream.retry());
  }
  status.paint();
}

function show() {
  if (!Object.hasOwn(VIEWS, place().view)) instead('locks');
  const here = place();
  if (here.view === 'lock' && !here.name && lastLock) return go(`/lock/${encodeURIComponent(lastLock)}`);
  if (here.view === 'lock') lastLock = here.name;
  // What was asked about another view is not meant any more; who is there is asked about all of them.
  for (const dialog of document.querySelectorAll('dialog[open]:not(.bearer)')) dialog.close();
  view?.destroy();
  view = VIEWS[here.view]({ store, place: here, go });
  main.replaceChildren(view.element);
  mark(main, 'data-view', here.view);
  document.title = `${view.title} · quorlock`;
  for (const link of document.querySelectorAll('#views a'))
    mark(link, 'aria-current', link.dataset.view === here.view ? 'page' : null);
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
  // A button or a link that has the focus is what Enter is for.
  if (event.key === 'Enter' && event.target.closest('a, button')) return;
  const digit = Object.keys(VIEWS)[Number(event.key) - 1];
  if (view?.key(event)) event.preventDefault();
  else if (digit) go(`/${digit}`);
  else if (event.key === '?') help();
  else if (event.key === 'Escape') go('/locks');
}

/** Goes on behind the links. The address holds the view, and not a place in it. */
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
