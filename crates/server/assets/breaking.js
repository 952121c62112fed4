// Ending somebody else's lease: with a reason, and never by a slip of the hand.

import { breakLock } from './api.js';
import { h, write } from './dom.js';
import { lasting, who } from './words.js';

/** Asks, and breaks. `done(text)` is told what came of it. */
export function askToBreak(lock, done) {
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
  const trouble = h('p', { class: 'trouble', role: 'alert' });
  const cancel = h('button', { type: 'button', onclick: () => dialog.close() }, 'Cancel');
  const form = h(
    'form',
    { onsubmit: submit, oninput: () => (go.disabled = typed.value !== lock.name || !reason.value.trim()) },
    h('h2', { id: 'break-title' }, 'Break ', h('span', { class: 'mono' }, lock.name)),
    h(
      'p',
      {},
      `${who(lock.holder) || 'Somebody'} holds it, with fence ${lock.fence ?? lock.digest}. A newer lease is left alone.`,
    ),
    h('fieldset', {}, h('legend', {}, 'When may the next one have it?'), ...modes),
    h('label', { for: 'break-reason' }, 'Why? The holder and the history are told.'),
    reason,
    h('label', { for: 'break-name' }, 'Type the name of the lock to confirm.'),
    typed,
    trouble,
    h('div', { class: 'actions' }, cancel, go),
  );
  const dialog = h('dialog', { 'aria-labelledby': 'break-title', onclose: () => dialog.remove() }, form);

  async function submit(event) {
    event.preventDefault();
    go.disabled = true;
    write(trouble, '');
    try {
      const broken = await breakLock(lock, new FormData(form).get('mode'), reason.value.trim());
      dialog.close();
      const when =
        broken.drains_ms > 0 ? `nobody else gets it for ${lasting(broken.drains_ms)}` : 'the next one may have it';
      done(`Broken on ${broken.nodes} nodes: ${when}.`);
    } catch (error) {
      write(trouble, `It was not broken: ${error.message}`);
      go.disabled = false;
    }
  }

  document.body.append(dialog);
  dialog.showModal();
  reason.focus();
}
