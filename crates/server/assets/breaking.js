// The dialog that breaks a lock. It asks for a reason and a confirmation, and breaks only the leases that it names.

import { breakLock } from './api.js';
import { h, mark, write } from './dom.js';
import { isTogether, lasting, mode, who } from './format.js';

/** The error code if the named lease no longer holds the lock. */
const PASSED_ON = ['other-lease', 'not-held'];

/**
 * Asks, and breaks. `find()` is the lock as it is now, and `done(text)` is told what came of it. What is returned is to be
 * called when there are news.
 */
export function askToBreak(find, done) {
  let lock = find();
  let isSent = false;
  /** Why the break failed, and whether the named lease no longer holds the lock. */
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
    ['drain', 'Drain', 'Refuse renewals. The next holder gets the lock when the lease would have ended.'],
    ['now', 'Now', 'The next holder gets the lock at once. Until the old holder notices, there may be two holders.'],
  ].map(([value, label, words]) => {
    const input = h('input', { type: 'radio', name: 'mode', value, checked: value === 'drain' });
    return h('label', { class: 'choice' }, input, h('span', {}, h('strong', {}, label), h('small', {}, words)));
  });
  const go = h('button', { type: 'submit', class: 'danger', disabled: true }, 'Break it');
  const again = h('button', { type: 'button', class: 'again', onclick: lookAgain }, 'Refresh');
  const trouble = h('p', { class: 'trouble', role: 'alert' });
  const cancel = h('button', { type: 'button', onclick: () => dialog.close() }, 'Cancel');
  const form = h(
    'form',
    { onsubmit: submit, oninput: paint },
    h('h2', { id: 'break-title' }, 'Break ', h('span', { class: 'mono' }, lock.name)),
    h('div', {}, holder, all),
    h('fieldset', {}, h('legend', {}, 'When can the next holder have it?'), ...modes),
    h(
      'label',
      { for: 'break-reason' },
      'Reason, for the history. The holder learns of the break with its next renewal.',
    ),
    reason,
    h('label', { for: 'break-name' }, 'Type the name of the lock to confirm.'),
    typed,
    trouble,
    h('div', { class: 'actions' }, cancel, again, go),
  );
  const dialog = h('dialog', { class: 'break', 'aria-labelledby': 'break-title', onclose: () => dialog.remove() }, form);

  function paint() {
    // Our own request may be the cause of the change.
    if (isSent) return;
    const now = find();
    const isSeen = canBreak(now) && isSame(now, lock);
    const isNamed = isSeen && !isPassedOn;
    // Some of several holders may have left.
    if (isNamed) lock = now;
    write(holder, inWords(lock));
    write(all, lock.holds > 1 ? `The break ends all ${lock.holds} holds.` : '');
    write(trouble, isSeen ? failed : changeInWords(now));
    again.hidden = isNamed;
    mark(again, 'disabled', !canBreak(now));
    mark(go, 'disabled', !isNamed || typed.value !== lock.name || !reason.value.trim());
  }

  /** Shows the current holders, and asks for a new confirmation, because the last one named others. */
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
        broken.drains_ms > 0 ? `the next holder gets it in ${lasting(broken.drains_ms)}` : 'the next holder can have it';
      done(`Broken on ${broken.nodes} nodes: ${when}.`);
    } catch (error) {
      failed = `The break failed: ${error.message}`;
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

/** Describes the lease that the break ends. */
function inWords(lock) {
  const by = who(lock.holder) || 'Somebody';
  const fence = `with fence ${lock.fence ?? lock.digest}. The break does not affect a newer lease.`;
  if (lock.holds === 1) return `${by} holds it, ${fence}`;
  if (!isTogether(lock)) return `${by} holds it, entered ${lock.holds} times, ${fence}`;
  return `${mode(lock)} ${lock.mode === 'slots' ? 'are taken' : 'hold it'}: ${by} came last, ${fence}`;
}

/** Why the named lease can no longer be broken. */
function changeInWords(now) {
  if (now?.broken) return 'The lock is already broken.';
  if (now?.held) {
    const what = isTogether(now) ? 'Another holder has joined' : 'The holder has changed';
    return `${what}: refresh.`;
  }
  return now?.mode ? 'The nodes do not agree on the holder now.' : 'The lock has no holder any more.';
}
