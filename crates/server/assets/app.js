// The page: one stream of events, one store for their data, and one view at a time.

import { bearerToken, deleteBearerToken } from './bearer.js';
import { askForBearerToken, openHelp } from './dialogs.js';
import { setAttribute } from './dom.js';
import { currentRoute, go, replaceRoute } from './route.js';
import { Status } from './status.js';
import { Store } from './store.js';
import { Stream } from './stream.js';
import { initThemeButton } from './theme.js';
import { history } from './views/history.js';
import { hot } from './views/hot.js';
import { lock } from './views/lock.js';
import { locks } from './views/locks.js';
import { nodes } from './views/nodes.js';

/** The shortest pause before a change is shown, so that many changes are shown together. */
const REPAINT_PAUSE_MIN_MS = 250;
/** The page is repainted at this interval even without changes, because it shows countdowns. */
const REPAINT_INTERVAL_MS = 1_000;

const VIEWS = { locks, lock, nodes, hot, history };
const main = document.querySelector('#main');
const store = new Store();
const stream = new Stream((event, data) => (store.apply(event, data), repaintSoon()), onStreamState);
const status = new Status(stream, store);
let view = null;
/** The name of the lock that the view of one lock showed last. */
let lastLockName = '';
let repaintTimer = null;

function repaintSoon() {
  repaintTimer ??= setTimeout(() => requestAnimationFrame(repaint), REPAINT_PAUSE_MIN_MS);
}

function repaint() {
  clearTimeout(repaintTimer);
  repaintTimer = null;
  status.paint();
  view?.paint();
}

function onStreamState() {
  if (stream.state === 'refused') {
    const isTokenUnknown = stream.status === 401 && bearerToken() != null;
    if (isTokenUnknown) deleteBearerToken();
    askForBearerToken(stream.why, isTokenUnknown, () => stream.retry());
  }
  status.paint();
}

/** Shows the view that the address names. */
function showView() {
  if (!Object.hasOwn(VIEWS, currentRoute().view)) replaceRoute('locks');
  const route = currentRoute();
  if (route.view === 'lock' && !route.name && lastLockName) return go(`/lock/${encodeURIComponent(lastLockName)}`);
  if (route.view === 'lock') lastLockName = route.name;
  // The dialog that breaks a lock belongs to the view of that lock.
  document.querySelector('dialog.break')?.close();
  view?.destroy();
  view = VIEWS[route.view]({ store, route, go });
  main.replaceChildren(view.element);
  setAttribute(main, 'data-view', route.view);
  document.title = `${view.title} · quorlock`;
  for (const link of document.querySelectorAll('#views a'))
    setAttribute(link, 'aria-current', link.dataset.view === route.view ? 'page' : null);
  repaint();
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
  const viewOfDigit = Object.keys(VIEWS)[Number(event.key) - 1];
  if (view?.handleKey(event)) event.preventDefault();
  else if (viewOfDigit) go(`/${viewOfDigit}`);
  else if (event.key === '?') openHelp();
  else if (event.key === 'Escape') go('/locks');
}

/** Moves the focus to the view. Without this handler, the link `#main` would replace the view in the address. */
function focusView(event) {
  event.preventDefault();
  main.focus();
}

addEventListener('hashchange', showView);
addEventListener('keydown', onKey);
document.querySelector('.skip').addEventListener('click', focusView);
document.querySelector('#help').addEventListener('click', openHelp);
initThemeButton(document.querySelector('#theme'));
setInterval(() => requestAnimationFrame(repaint), REPAINT_INTERVAL_MS);
showView();
stream.retry();
