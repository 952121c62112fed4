// The dialog that breaks a lock, and which holds a break ends.

import assert from 'node:assert/strict';

import { Door } from '../door.mjs';
import { Tale } from '../tale.mjs';
import { address, caller } from '../told.mjs';
import { LONG_MS, Visit } from '../visit.mjs';

/** Fills in the dialog of a break. */
async function confirm(page, name) {
  await page.fill('#break-reason', 'its host is on fire');
  await page.fill('#break-name', name);
}

/** Confirms the break, and retries if the nodes were slow. */
async function breakIt(visit) {
  const go = visit.page.locator('dialog button[type=submit]');
  await go.click();
  await visit.until(
    'it is broken',
    async () => {
      const trouble = (await visit.page.locator('dialog .trouble').allTextContents()).join('');
      if (/quorum|slow/.test(trouble) && (await go.isEnabled())) await go.click();
      return (await visit.page.locator('.said').textContent()) || trouble;
    },
    (said) => /^Broken on/.test(said),
  );
}

export const breaking = {
  async a_break_shows_the_number_of_holds_it_ends() {
    const readers = [];
    for (const label of ['ann', 'bob', 'cleo']) {
      readers.push(await caller.lock({ name: 'read', mode: 'shared', ttl_ms: LONG_MS, label }));
    }
    const owner = 'owner-0123456789abcdef0123456789abcdef';
    for (let entry = 0; entry < 2; entry += 1) await caller.lock({ name: 'owned', ttl_ms: LONG_MS, owner, label: 'dora' });
    for (const label of ['eve', 'finn']) {
      await caller.lock({ name: 'slots', mode: 'slots', slots: 5, ttl_ms: LONG_MS, label });
    }
    await caller.lock({ name: 'alone', ttl_ms: LONG_MS, label: 'gus' });
    const visit = await Visit.begin(address);
    const { page } = visit;
    const dialog = page.locator('dialog');
    const asks = async (name, holder) => {
      await visit.open(`/lock/${name}`);
      await visit.sees('.facts', holder);
      await page.click('.lock-head button');
    };
    await asks('owned', 'dora');
    assert.match(await dialog.textContent(), /dora holds it, entered 2 times, .*ends all 2 holds\./);
    await asks('slots', 'finn');
    assert.match(await dialog.textContent(), /2 of 5 slots are taken: finn came last, .*ends all 2 holds\./);
    await asks('alone', 'gus');
    assert.match(await dialog.textContent(), /gus holds it, with fence \d+/);
    assert.doesNotMatch(await dialog.textContent(), /holds\./);
    await asks('read', 'cleo');
    assert.match(await dialog.textContent(), /3 readers hold it: cleo came last, .*ends all 3 holds\./);
    await visit.checked('a break of three');
    // A reader that releases is no longer part of the break; the others still are.
    await confirm(page, 'read');
    await caller.release(readers[0]);
    await visit.sees('dialog', 'ends all 2 holds.');
    await breakIt(visit);
    for (const reader of readers.slice(1)) assert.equal((await caller.renew(reader)).status, 410);
    await visit.end();
  },

  async a_break_ends_only_the_named_holds() {
    const first = await caller.lock({ name: 'busy', ttl_ms: LONG_MS, label: 'the first' });
    const visit = await Visit.begin(address);
    const { page } = visit;
    const [go, again] = [page.locator('dialog button[type=submit]'), page.locator('dialog .again')];
    await visit.open('/lock/busy');
    await visit.sees('.facts', 'the first');
    await page.keyboard.press('b');
    await confirm(page, 'busy');
    assert.ok((await go.isEnabled()) && (await again.isHidden()));
    await caller.release(first);
    await visit.sees('dialog .trouble', 'The lock has no holder any more');
    assert.ok((await go.isDisabled()) && (await again.isDisabled()));
    const second = await caller.lock({ name: 'busy', ttl_ms: LONG_MS, label: 'the second' });
    await visit.sees('dialog .trouble', 'The holder has changed');
    await page.keyboard.press('Enter');
    await page.fill('#break-reason', 'its host is still on fire');
    assert.ok(await go.isDisabled(), 'the second holder was not confirmed');
    await visit.sees('dialog', 'the first holds it');
    await visit.checked('a lock that has changed hands');
    await again.click();
    await visit.sees('dialog', `the second holds it, with fence ${second.fence}`);
    assert.equal(await page.inputValue('#break-name'), '', 'the confirmation was for another holder');
    assert.ok((await go.isDisabled()) && (await again.isHidden()));
    assert.equal((await caller.renew(second)).status, 200);
    await page.fill('#break-name', 'busy');
    await breakIt(visit);
    assert.equal((await caller.renew(second)).status, 410);
    await visit.end();
  },

  async a_late_break_must_be_confirmed_again() {
    const first = await caller.lock({ name: 'busy', ttl_ms: LONG_MS, label: 'the first' });
    const door = await Door.open(address);
    const tale = new Tale([await Tale.of(address, first)]);
    door.stream = tale.answer;
    const visit = await Visit.begin(door.address);
    const { page } = visit;
    await visit.open('/lock/busy');
    await visit.sees('.facts', 'the first');
    await page.keyboard.press('b');
    await confirm(page, 'busy');
    // The page gets no event about this.
    await caller.release(first);
    const second = await caller.lock({ name: 'busy', ttl_ms: LONG_MS, label: 'the second' });
    const go = page.locator('dialog button[type=submit]');
    await visit.until(
      'it is left alone',
      async () => {
        if (await go.isEnabled()) await go.click();
        return page.locator('dialog .trouble').textContent();
      },
      (trouble) => /^The break failed: .*another fence/.test(trouble),
    );
    await page.fill('#break-reason', 'its host is still on fire');
    assert.ok(await go.isDisabled(), 'the same break cannot be sent again');
    tale.change(await Tale.of(address, second));
    await visit.sees('dialog .trouble', 'The holder has changed');
    await page.click('dialog .again');
    await visit.sees('dialog', 'the second holds it');
    await page.fill('#break-name', 'busy');
    await breakIt(visit);
    assert.equal((await caller.renew(second)).status, 410);
    await visit.end(/409/);
    door.close();
  },

  async a_break_dialog_closes_with_its_view() {
    await caller.lock({ name: 'left', ttl_ms: LONG_MS, label: 'somebody' });
    const visit = await Visit.begin(address);
    const { page } = visit;
    await visit.open();
    await (await visit.sees('.locks .space .row', 'left')).click();
    await visit.sees('.facts', 'somebody');
    await page.keyboard.press('b');
    await page.waitForSelector('dialog[open]');
    await page.goBack();
    await visit.sees('.locks .space .row', 'left');
    await page.waitForSelector('dialog', { state: 'detached' });
    await visit.end();
  },
};
