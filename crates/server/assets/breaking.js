// The dialog that breaks a lock. It asks for a reason and a confirmation, and breaks only the lease that it shows.

import { breakLock } from './api.js';
import { h, setAttribute, setText } from './dom.js';
import { hasSeveralHolders, formatDuration, formatMode, holderName } from './format.js';

/** The codes of the problems that mean that the shown lease no longer holds the lock. */
const LEASE_GONE = ['other-lease', 'not-held'];

/**
 * Opens the dialog. `find()` returns the current state of the lock, and `done(text)` gets a message about the finished break. Returns a
 * function that repaints the dialog after a change.
 */
export function openBreakDialog(find, done) {
  let lock = find();
  let isSent = false;
  /** Why the last attempt failed. */
  let failure = '';
  /** Whether the service has answered that the shown lease no longer holds the lock. */
  let isLeaseGone = false;

  const holder = h('p');
  const holdCount = h('strong');
  const reason = h('input', { id: 'break-reason', required: true, maxlength: 400, autocomplete: 'off' });
  const typedName = h('input', {
    id: 'break-name',
    required: true,
    autocomplete: 'off',
    spellcheck: 'false',
    class: 'mono',
  });
  const modes = [
    ['drain', 'Drain', 'Refuse renewals. The next holder gets the lock when the lease would have ended.'],
    ['now', 'Now', 'The next holder gets the lock at once. Until the old holder notices, there may be two holders.'],
  ].map(([value, label, description]) => {
    const input = h('input', { type: 'radio', name: 'mode', value, checked: value === 'drain' });
    return h('label', { class: 'choice' }, input, h('span', {}, h('strong', {}, label), h('small', {}, description)));
  });
  const submitButton = h('button', { type: 'submit', class: 'danger', disabled: true }, 'Break the lock');
  const refreshButton = h('button', { type: 'button', class: 'refresh', onclick: refresh }, 'Refresh');
  const trouble = h('p', { class: 'trouble', role: 'alert' });
  const cancel = h('button', { type: 'button', onclick: () => dialog.close() }, 'Cancel');
  const form = h(
    'form',
    { onsubmit: submit, oninput: paint },
    h('h2', { id: 'break-title' }, 'Break ', h('span', { class: 'mono' }, lock.name)),
    h('div', {}, holder, holdCount),
    h('fieldset', {}, h('legend', {}, 'When can the next holder get the lock?'), ...modes),
    h(
      'label',
      { for: 'break-reason' },
      'Reason, which the history shows. The holder learns of the break when it renews the lease.',
    ),
    reason,
    h('label', { for: 'break-name' }, 'Type the name of the lock to confirm.'),
    typedName,
    trouble,
    h('div', { class: 'actions' }, cancel, refreshButton, submitButton),
  );
  const dialog = h('dialog', { class: 'break', 'aria-labelledby': 'break-title', onclose: () => dialog.remove() }, form);

  function paint() {
    // The change may be the effect of the request that this dialog has sent.
    if (isSent) return;
    const now = find();
    const isUnchanged = isBreakable(now) && isSameLease(now, lock);
    const canSubmit = isUnchanged && !isLeaseGone;
    // Some of several holders may have released the lock.
    if (canSubmit) lock = now;
    setText(holder, describeLease(lock));
    setText(holdCount, lock.holds > 1 ? `The break ends all ${lock.holds} holds.` : '');
    setText(trouble, isUnchanged ? failure : describeChange(now));
    refreshButton.hidden = canSubmit;
    setAttribute(refreshButton, 'disabled', !isBreakable(now));
    setAttribute(submitButton, 'disabled', !canSubmit || typedName.value !== lock.name || !reason.value.trim());
  }

  /** Shows the current lease, and asks for a new confirmation, because the last confirmation was for another lease. */
  function refresh() {
    lock = find();
    failure = '';
    isLeaseGone = false;
    typedName.value = '';
    paint();
    typedName.focus();
  }

  async function submit(event) {
    event.preventDefault();
    paint();
    if (submitButton.disabled) return;
    isSent = true;
    failure = '';
    setAttribute(submitButton, 'disabled', true);
    setText(trouble, '');
    try {
      const broken = await breakLock(lock, new FormData(form).get('mode'), reason.value.trim());
      dialog.close();
      const when =
        broken.drain_ms > 0 ? `the next holder gets the lock in ${formatDuration(broken.drain_ms)}` : 'the next holder can get the lock now';
      done(`Broken on ${broken.nodes} nodes: ${when}.`);
    } catch (error) {
      failure = `The break failed: ${error.message}`;
      isLeaseGone = LEASE_GONE.includes(error.code);
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

const isBreakable = (lock) => Boolean(lock?.held) && !lock.broken;

const isSameLease = (now, lock) => now?.fence === lock.fence && now?.digest === lock.digest;

/** Describes the holds that the break ends. */
function describeLease(lock) {
  const by = holderName(lock.holder) || 'Somebody';
  const fence = `with fence ${lock.fence ?? lock.digest}. The break does not affect a newer lease.`;
  if (lock.holds === 1) return `${by} holds the lock, ${fence}`;
  if (!hasSeveralHolders(lock)) return `${by} holds the lock, entered ${lock.holds} times, ${fence}`;
  return `${formatMode(lock)} ${lock.mode === 'slots' ? 'are taken' : 'hold the lock'}. The newest holder is ${by}, ${fence}`;
}

/** Explains why the shown lease can no longer be broken. */
function describeChange(now) {
  if (now?.broken) return 'The lock is already broken.';
  if (now?.held) {
    const what = hasSeveralHolders(now) ? 'Another holder has joined' : 'The holder has changed';
    return `${what}: refresh this dialog.`;
  }
  return now?.mode ? 'The nodes do not agree on the holder at the moment.' : 'The lock has no holder any more.';
}
