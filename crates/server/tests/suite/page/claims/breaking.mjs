// Claims about breaks: the dialog, and the holds that a break ends.

import assert from 'node:assert/strict';

import { TestProxy } from '../test_proxy.mjs';
import { FakeStream } from '../fake_stream.mjs';
import { address, caller } from '../rust_test.mjs';
import { LONG_TTL_MS, Visit } from '../visit.mjs';

/** Types a reason and the name of the lock into the dialog. */
async function fillIn(page, name) {
  await page.fill('#break-reason', 'its host is on fire');
  await page.fill('#break-name', name);
}

/** Sends the break, and sends it again if the nodes were slow. */
async function confirmBreak(visit) {
  const submit = visit.page.locator('dialog button[type=submit]');
  await submit.click();
  await visit.waitUntil(
    'the lock is broken',
    async () => {
      const trouble = (await visit.page.locator('dialog .trouble').allTextContents()).join('');
      if (/quorum|slow/.test(trouble) && (await submit.isEnabled())) await submit.click();
      return (await visit.page.locator('.result').textContent()) || trouble;
    },
    (message) => /^Broken on/.test(message),
  );
}

export const breaking = {
  async a_break_shows_the_number_of_holds_it_ends() {
    const readers = [];
    for (const label of ['ann', 'bob', 'cleo']) {
      readers.push(await caller.lock({ name: 'read', mode: 'shared', ttl_ms: LONG_TTL_MS, label }));
    }
    const owner = 'owner-0123456789abcdef0123456789abcdef';
    for (let entry = 0; entry < 2; entry += 1) await caller.lock({ name: 'owned', ttl_ms: LONG_TTL_MS, owner, label: 'dora' });
    for (const label of ['eve', 'finn']) {
      await caller.lock({ name: 'slots', mode: 'slots', slots: 5, ttl_ms: LONG_TTL_MS, label });
    }
    await caller.lock({ name: 'alone', ttl_ms: LONG_TTL_MS, label: 'gus' });
    const visit = await Visit.begin(address);
    const { page } = visit;
    const dialog = page.locator('dialog');
    const openDialog = async (name, holder) => {
      await visit.open(`/lock/${name}`);
      await visit.waitForText('.facts', holder);
      await page.click('.lock-head button');
    };
    await openDialog('owned', 'dora');
    assert.match(await dialog.textContent(), /dora holds the lock, entered 2 times, .*ends all 2 holds\./);
    await openDialog('slots', 'finn');
    assert.match(await dialog.textContent(), /2 of 5 slots are taken\. The newest holder is finn, .*ends all 2 holds\./);
    await openDialog('alone', 'gus');
    assert.match(await dialog.textContent(), /gus holds the lock, with fence \d+/);
    assert.doesNotMatch(await dialog.textContent(), /holds\./);
    await openDialog('read', 'cleo');
    assert.match(await dialog.textContent(), /3 readers hold the lock\. The newest holder is cleo, .*ends all 3 holds\./);
    await visit.checkAccessibility('a break of three holds');
    // If one reader releases the lock, the break ends only the holds of the other readers.
    await fillIn(page, 'read');
    await caller.release(readers[0]);
    await visit.waitForText('dialog', 'ends all 2 holds.');
    await confirmBreak(visit);
    for (const reader of readers.slice(1)) assert.equal((await caller.renew(reader)).status, 410);
    await visit.end();
  },

  async a_break_ends_only_the_named_holds() {
    const firstLease = await caller.lock({ name: 'busy', ttl_ms: LONG_TTL_MS, label: 'the first' });
    const visit = await Visit.begin(address);
    const { page } = visit;
    const [submit, refresh] = [page.locator('dialog button[type=submit]'), page.locator('dialog .refresh')];
    await visit.open('/lock/busy');
    await visit.waitForText('.facts', 'the first');
    await page.keyboard.press('b');
    await fillIn(page, 'busy');
    assert.ok((await submit.isEnabled()) && (await refresh.isHidden()));
    await caller.release(firstLease);
    await visit.waitForText('dialog .trouble', 'The lock has no holder any more');
    assert.ok((await submit.isDisabled()) && (await refresh.isDisabled()));
    const secondLease = await caller.lock({ name: 'busy', ttl_ms: LONG_TTL_MS, label: 'the second' });
    await visit.waitForText('dialog .trouble', 'The holder has changed');
    await page.keyboard.press('Enter');
    await page.fill('#break-reason', 'its host is still on fire');
    assert.ok(await submit.isDisabled(), 'the user has not confirmed the break of the second lease');
    await visit.waitForText('dialog', 'the first holds the lock');
    await visit.checkAccessibility('a dialog whose lock has another holder');
    await refresh.click();
    await visit.waitForText('dialog', `the second holds the lock, with fence ${secondLease.fence}`);
    assert.equal(await page.inputValue('#break-name'), '', 'the new holder must be confirmed again');
    assert.ok((await submit.isDisabled()) && (await refresh.isHidden()));
    assert.equal((await caller.renew(secondLease)).status, 200);
    await page.fill('#break-name', 'busy');
    await confirmBreak(visit);
    assert.equal((await caller.renew(secondLease)).status, 410);
    await visit.end();
  },

  async a_break_of_an_old_lease_fails_and_must_be_confirmed_again() {
    const firstLease = await caller.lock({ name: 'busy', ttl_ms: LONG_TTL_MS, label: 'the first' });
    const proxy = await TestProxy.open(address);
    const stream = new FakeStream([await FakeStream.readLock(address, firstLease)]);
    proxy.streamHandler = stream.handler;
    const visit = await Visit.begin(proxy.address);
    const { page } = visit;
    await visit.open('/lock/busy');
    await visit.waitForText('.facts', 'the first');
    await page.keyboard.press('b');
    await fillIn(page, 'busy');
    // The page gets no event about the new holder.
    await caller.release(firstLease);
    const secondLease = await caller.lock({ name: 'busy', ttl_ms: LONG_TTL_MS, label: 'the second' });
    const submit = page.locator('dialog button[type=submit]');
    await visit.waitUntil(
      'the break fails',
      async () => {
        if (await submit.isEnabled()) await submit.click();
        return page.locator('dialog .trouble').textContent();
      },
      (trouble) => /^The break failed: .*another fence/.test(trouble),
    );
    await page.fill('#break-reason', 'its host is still on fire');
    assert.ok(await submit.isDisabled(), 'a break that failed because of a new holder must not be sent again');
    stream.sendLock(await FakeStream.readLock(address, secondLease));
    await visit.waitForText('dialog .trouble', 'The holder has changed');
    await page.click('dialog .refresh');
    await visit.waitForText('dialog', 'the second holds the lock');
    await page.fill('#break-name', 'busy');
    await confirmBreak(visit);
    assert.equal((await caller.renew(secondLease)).status, 410);
    await visit.end(/409/);
    proxy.close();
  },

  async a_break_dialog_closes_with_its_view() {
    await caller.lock({ name: 'left', ttl_ms: LONG_TTL_MS, label: 'somebody' });
    const visit = await Visit.begin(address);
    const { page } = visit;
    await visit.open();
    await (await visit.waitForText('.locks .space .row', 'left')).click();
    await visit.waitForText('.facts', 'somebody');
    await page.keyboard.press('b');
    await page.waitForSelector('dialog[open]');
    await page.goBack();
    await visit.waitForText('.locks .space .row', 'left');
    await page.waitForSelector('dialog', { state: 'detached' });
    await visit.end();
  },
};
