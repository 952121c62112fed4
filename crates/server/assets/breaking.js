// Ending somebody else's lease: with a reason, never by a slip of the hand, and nobody's but theirs who are named.

import { breakLock } from './api.js';
import { h, mark, write } from './dom.js';
import { isTogether, lasting, mode, who } from './format.js';

/** What is answered when another lease stands than the one that was named, or none. */
const PASSED_ON = ['other-lease', 'not-held'];

/**
 * Asks, and breaks. `find()` is the lock as it is now, and `done(text)` is told what came of it. What is returned is to be
 * called when there are news.
 */
export function askToBreak(find, done) {
  let lock = find();
  let isSent = false;
  /** Why it was not broken, and whether that is because those who were named do not have it any more. */
  let failed = '';
  let isPassedOn = false;

  const holder = h('p');
  const all = h('strong');
  const reason = h('input', { id: 'break-reason', required: true, maxlength: 400, autocomplete: 'off' });
  const typed = h('input', {
    id: 'break-name',
    required: true,
    autocomplete: 'off',
    spellcheck: 'false',
    class: 'mono',
  });
  const modes = [
    ['drain', 'Drain', 'Renewals are refused, and nobody else gets it before the lease would have ended.'],
    ['now', 'Now', 'The next one gets it at once. Until the old holder learns of it, there may be two.'],
  ].map(([value, label, words]) => {
    const input = h('input', { type: 'radio', name: 'mode', value, checked: value === 'drain' });
    return h('label', { class: 'choice' }, input, h('span', {}, h('strong', {}, label), h('small', {}, words)));
  });
  const go = h('button', { type: 'submit', class: 'danger', disabled: true }, 'Break it');
  const again = h('button', { type: 'button', class: 'again', onclick: lookAgain }, 'Look again');
  const trouble = h('p', { class: 'trouble', role: 'alert' });
  const cancel = h('button', { type: 'button', onclick: () => dialog.close() }, 'Cancel');
  const form = h(
    'form',
    { onsubmit: submit, oninput: paint },
    h('h2', { id: 'break-title' }, 'Break ', h('span', { class: 'mono' }, lock.name)),
    h('div', {}, holder, all),
    h('fieldset', {}, h('legend', {}, 'When may the next one have it?'), ...modes),
    h(
      'label',
      { for: 'break-reason' },
      'Why? It is written in the history, and the holder learns with its next renewal that it was broken.',
    ),
    reason,
    h('label', { for: 'break-name' }, 'Type the name of the lock to confirm.'),
    typed,
    trouble,
    h('div', { class: 'actions' }, cancel, again, go),
  );
  const dialog = h('dialog', { 'aria-labelledby': 'break-title', onclose: () => dialog.remove() }, form);

  function paint() {
    // What is under way may well be what changes it.
    if (isSent) return;
    const now = find();
    const isSeen = canBreak(now) && isSame(now, lock);
    const isNamed = isSeen && !isPassedOn;
    // Of those who hold it together, some may have left.
    if (isNamed) lock = now;
    write(holder, inWords(lock));
    write(all, lock.holds > 1 ? `The break ends all ${lock.holds} holds.` : '');
    write(trouble, isSeen ? failed : changeInWords(now));
    again.hidden = isNamed;
    mark(again, 'disabled', !canBreak(now));
    mark(go, 'disabled', !isNamed || typed.value !== lock.name || !reason.value.trim());
  }

  /** Names those who hold it now. Whoever has confirmed it has meant others. */
  function lookAgain() {
    lock = find();
    failed = '';
    isPassedOn = false;
    typed.value = '';
    paint();
    typed.focus();
  }

  async function submit(event) {
    event.preventDefault();
    paint();
    if (go.disabled) return;
    isSent = true;
    failed = '';
    mark(go, 'disabled', true);
    write(trouble, '');
    try {
      const broken = await breakLock(lock, new FormData(form).get('mode'), reason.value.trim());
      dialog.close();
      const when =
        broken.drains_ms > 0 ? `nobody else gets it for ${lasting(broken.drains_ms)}` : 'the next one may have it';
      done(`Broken on ${broken.nodes} nodes: ${when}.`);
    } catch (error) {
      failed = `It was not broken: ${error.message}`;
      isPassedOn = PASSED_ON.includes(error.code);
      isSent = false;
      paint();
    }
  }

  document.body.append(dialog);
  paint();
  dialog.showModal();
  reason.focus();
  return paint;
}

const canBreak = (lock) => Boolean(lock?.held) && !lock.broken;

const isSame = (now, lock) => now?.fence === lock.fence && now?.digest === lock.digest;

/** Who is to lose it. */
function inWords(lock) {
  const by = who(lock.holder) || 'Somebody';
  const fence = `with fence ${lock.fence ?? lock.digest}. A newer lease is left alone.`;
  if (lock.holds === 1) return `${by} holds it, ${fence}`;
  if (!isTogether(lock)) return `${by} holds it, entered ${lock.holds} times, ${fence}`;
  return `${mode(lock)} ${lock.mode === 'slots' ? 'are taken' : 'hold it'}: ${by} came last, ${fence}`;
}

/** Why those who were named cannot be broken any more. */
function changeInWords(now) {
  if (now?.broken) return 'It is broken already.';
  if (now?.held) {
    const what = isTogether(now) ? 'Somebody else has joined since' : 'It has changed hands since';
    return `${what}: look again.`;
  }
  return now?.mode ? 'The nodes do not agree on who holds it now.' : 'Nobody holds it any more.';
}
