// Claims about the views of locks, hot spots and history.

import assert from 'node:assert/strict';

import { streamManyLocks } from '../many_locks_stream.mjs';
import { TestProxy } from '../test_proxy.mjs';
import { address, caller } from '../rust_test.mjs';
import { LONG_TTL_MS, Visit } from '../visit.mjs';

/** Returns the seconds in `59 m 58 s` or `8 s`, and NaN for other texts. */
const parseSeconds = (text) => {
  const [, minutes = 0, seconds = Number.NaN] = /^(?:(\d+) m )?(\d+) s$/.exec(text) ?? [];
  return 60 * Number(minutes) + Number(seconds);
};

export const locks = {
  async locks_appear_and_count_down() {
    const visit = await Visit.begin(address);
    await visit.open();
    await visit.waitForText('.empty', 'No locks');
    const lease = await caller.lock({ name: 'invoices/42', ttl_ms: LONG_TTL_MS, label: 'the runner' });
    const row = await visit.waitForText('.locks .space .row', 'invoices/42');
    assert.match(await row.textContent(), /the runner/);
    assert.match(await row.textContent(), new RegExp(String(lease.fence)));
    const remaining = () => row.locator('.left .words').textContent();
    const width = () => row.locator('.left .fill').evaluate((fill) => fill.getBoundingClientRect().width);
    const firstText = await visit.waitUntil('the row shows the remaining time', remaining, (text) => parseSeconds(text) > 0);
    const [firstSeconds, firstWidth] = [parseSeconds(firstText), await width()];
    await visit.waitUntil('the remaining time decreases', remaining, (text) => parseSeconds(text) <= firstSeconds - 2);
    await visit.waitUntil('the bar becomes shorter', width, (current) => current < firstWidth);
    await caller.release(lease);
    await visit.waitUntilGone('.locks .space .row:not([hidden])', 'invoices/42');
    await visit.end();
  },

  async waiters_move_up_in_the_queue() {
    const heldLease = await caller.lock({ name: 'deploy', ttl_ms: LONG_TTL_MS, label: 'first' });
    const visit = await Visit.begin(address);
    await visit.open('/lock/deploy');
    const secondRequest = caller.lock({ name: 'deploy', wait_ms: 600_000, ttl_ms: LONG_TTL_MS, label: 'second' });
    await visit.waitUntil(
      'the queue has one waiter',
      () => visit.page.locator('.queue li').count(),
      (count) => count === 1,
    );
    const thirdRequest = caller.lock({ name: 'deploy', wait_ms: 600_000, ttl_ms: LONG_TTL_MS, label: 'third' });
    await visit.waitUntil(
      'the queue has two waiters',
      () => visit.page.locator('.queue li').count(),
      (count) => count === 2,
    );
    const times = await visit.page.locator('.queue li').allTextContents();
    assert.ok(
      times.every((text) => / s$/.test(text)),
      times,
    );
    await caller.release(heldLease);
    await visit.waitForText('.facts', 'second');
    await visit.waitUntil(
      'the queue has one waiter again',
      () => visit.page.locator('.queue li').count(),
      (count) => count === 1,
    );
    await caller.release(await secondRequest);
    await visit.waitForText('.facts', 'third');
    await visit.waitForText('.queue-panel', 'No waiters');
    await visit.waitForText('.small td', 'released');
    await caller.release(await thirdRequest);
    await visit.end();
  },

  async hot_spots_show_waiting_times() {
    const heldLease = await caller.lock({ name: 'hot', ttl_ms: LONG_TTL_MS });
    const visit = await Visit.begin(address);
    await visit.open('/hot');
    const abort = new AbortController();
    const waiting = caller.lock({ name: 'hot', wait_ms: 600_000, ttl_ms: LONG_TTL_MS }, abort.signal).catch(() => {});
    const row = await visit.waitForText('.hot .space .row', 'hot');
    const cell = (id) => row.locator(`.${id}`).textContent();
    await visit.waitUntil(
      'the row shows one waiter',
      () => cell('waiters'),
      (text) => text === '1',
    );
    assert.equal(await cell('wait'), '–', 'no waiter has left the queue yet, so there is no mean');
    abort.abort();
    await waiting;
    // A waiter that leaves the queue without the lock also counts.
    const mean = await visit.waitUntil(
      'the row shows the mean waiting time',
      () => cell('wait'),
      (text) => / s$/.test(text),
    );
    assert.ok(Number.parseFloat(mean) > 0, mean);
    assert.equal(await cell('waiters'), '–');
    await caller.release(heldLease);
    await visit.end();
  },

  async a_keyed_lease_lasts_from_its_first_request_to_its_release() {
    const request = { name: 'keyed', ttl_ms: LONG_TTL_MS, key: 'key-0123456789abcdef0123456789abcdef', label: 'somebody' };
    const visit = await Visit.begin(address);
    const { page } = visit;
    await visit.open('/history');
    await caller.lock(request);
    const lease = await caller.lock(request);
    await visit.waitUntil(
      'the history shows both grants',
      () => page.locator('.history .space .row:not([hidden])').filter({ hasText: 'granted' }).count(),
      (count) => count === 2,
    );
    await caller.release(lease);
    const row = await visit.waitForText('.history .space .row', 'released');
    assert.match(await row.textContent(), /held for \d/);
    assert.match(await row.textContent(), new RegExp(`somebody.*${lease.fence}`));
    await visit.open('/lock/keyed');
    await visit.waitUntil(
      'the timeline shows one lease, which was released',
      () => page.locator('.strip .lease').evaluateAll((all) => all.map(({ dataset }) => dataset.end).join()),
      (ends) => ends === 'released',
    );
    await visit.end();
  },

  async an_expired_lease_is_shown_as_lapsed() {
    const visit = await Visit.begin(address);
    const { page } = visit;
    await visit.open('/history?only=lost');
    const lease = await caller.lock({ name: 'forgotten', ttl_ms: 5_000, label: 'gone home' });
    const row = await visit.waitForText('.history .space .row', 'lapsed');
    assert.match(await row.textContent(), new RegExp(`forgotten.*gone home.*${lease.fence}.*nobody renewed it`));
    // A page that is opened later shows the event as well.
    await page.reload();
    await visit.waitForText('.history .space .row', 'nobody renewed it');
    await visit.checkAccessibility('the history with an expired lease');
    await visit.open('/lock/forgotten');
    await visit.waitUntil(
      'the timeline shows that the lease has expired',
      () => page.locator('.strip .lease').evaluateAll((all) => all.map(({ dataset }) => dataset.end).join()),
      (ends) => ends === 'lapsed',
    );
    await visit.end();
  },

  async a_free_lock_has_no_holder() {
    const visit = await Visit.begin(address);
    await visit.open('/lock/free');
    await visit.waitForText('.lock-state', 'free');
    await visit.waitForText('.holder-panel', 'No holder.');
    await visit.waitForText('.nodes-panel', 'No node has a vote for this lock.');
    await visit.waitForText('.full-width', 'No events yet.');
    assert.equal(await visit.page.locator('thead:visible').count(), 0, 'a table without rows must be hidden');
    await visit.checkAccessibility('a free lock');
    const lease = await caller.lock({ name: 'free', ttl_ms: LONG_TTL_MS, label: 'somebody' });
    await visit.waitForText('.facts', 'somebody');
    await visit.waitForText('.nodes-panel tbody tr', 'has the vote');
    assert.ok(await visit.page.locator('.holder-panel p').isHidden());
    await caller.release(lease);
    await visit.waitForText('.holder-panel', 'No holder.');
    assert.ok(await visit.page.locator('.facts').isHidden());
    await visit.end();
  },

  async a_break_needs_a_reason_and_the_name_of_the_lock() {
    const lease = await caller.lock({ name: 'db/primary', ttl_ms: LONG_TTL_MS, label: 'stuck' });
    const visit = await Visit.begin(address);
    const { page } = visit;
    await visit.open('/lock/db%2Fprimary');
    await visit.waitForText('.facts', 'stuck');
    await page.keyboard.press('b');
    const submit = page.locator('dialog button[type=submit]');
    assert.ok(await submit.isDisabled());
    await page.fill('#break-reason', 'its host is on fire');
    await page.fill('#break-name', 'db/secondary');
    assert.ok(await submit.isDisabled(), 'the name of another lock must not confirm the break');
    await page.fill('#break-name', 'db/primary');
    await page.fill('#break-reason', ' ');
    assert.ok(await submit.isDisabled(), 'a break must have a reason');
    assert.equal((await caller.renew(lease)).status, 200);
    await page.fill('#break-reason', 'its host is on fire');
    await page.check('dialog input[value=now]');
    await submit.click();
    for (;;) {
      await page.waitForSelector('.result:not(:empty), dialog .trouble:not(:empty)');
      const trouble = await page.locator('dialog .trouble').allTextContents();
      if (trouble.length === 0) break;
      // If the nodes were slow, the dialog stays open and can be sent again.
      assert.match(trouble[0], /^(The break failed: .*(quorum|slow).*)?$/);
      if (trouble[0]) await submit.click();
    }
    await visit.waitForText('.result', 'Broken on');
    await visit.waitForText('.small tr', 'its host is on fire');
    assert.equal((await caller.renew(lease)).status, 410);
    await page.keyboard.press('5');
    const row = await visit.waitForText('.history .space .row', 'its host is on fire');
    assert.match(await row.textContent(), /broken/);
    await visit.end();
  },

  async ten_thousand_rows_scroll_smoothly() {
    const lease = await caller.lock({ name: 'one of many', ttl_ms: LONG_TTL_MS, label: 'model' });
    const lock = await caller.readLock(lease);
    await caller.release(lease);
    const proxy = await TestProxy.open(address);
    proxy.streamHandler = streamManyLocks(lock, 10_000);
    const visit = await Visit.begin(proxy.address);
    const { page } = visit;
    await visit.open();
    await visit.waitForText('.summary', '10,000 locks');
    // Scrolls, and checks on every frame that the rows cover the table and that there are few more rows than fit.
    const measured = await page.evaluate(async () => {
      const table = document.querySelector('.table');
      const space = table.querySelector('.space');
      const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
      const counts = { rows: 0, gaps: 0, frames: 0, created: 0 };
      const drawnPerFrame = [];
      const drawn = new Set();
      const observer = new MutationObserver((list) => {
        for (const { target, addedNodes } of list) {
          drawn.add(target.parentElement?.closest('.row'));
          counts.created += [...addedNodes].filter((node) => node.nodeType === Node.ELEMENT_NODE).length;
        }
      });
      observer.observe(space, { subtree: true, childList: true, characterData: true });
      for (; counts.frames < 300; counts.frames += 1) {
        table.scrollTop += counts.frames < 200 ? 137 : 2_900;
        await frame();
        const { top, bottom } = table.getBoundingClientRect();
        const shown = [...space.children].filter((row) => !row.hidden).map((row) => row.getBoundingClientRect());
        const [firstTop, lastBottom] = [Math.min(...shown.map((box) => box.top)), Math.max(...shown.map((box) => box.bottom))];
        const end = space.getBoundingClientRect().bottom;
        if (firstTop > top + 30 || lastBottom < Math.min(bottom, end) - 1) counts.gaps += 1;
        counts.rows = Math.max(counts.rows, space.children.length);
        if (counts.frames < 200) drawnPerFrame.push(drawn.size);
        drawn.clear();
      }
      // Use a low quantile, because some frames also update all visible rows.
      const rowsDrawn = drawnPerFrame.sort((a, b) => a - b)[Math.floor(drawnPerFrame.length / 4)];
      return { ...counts, rowsDrawn, isAtEnd: table.scrollTop + table.clientHeight >= table.scrollHeight - 1 };
    });
    assert.equal(measured.gaps, 0);
    assert.ok(measured.isAtEnd, 'the table did not scroll to its end');
    assert.ok(measured.rows < 60, `${measured.rows} rows exist, although only about 27 are visible`);
    // The table may create a few more rows when rows above the visible rows exist.
    assert.ok(measured.created < 10 * measured.rows, `rows are not reused: ${measured.created} elements in ${measured.frames} frames`);
    assert.ok(measured.rowsDrawn <= 10, `scrolling by five rows drew ${measured.rowsDrawn} rows`);
    await visit.waitForText('.locks .space .row', 'many/09999');
    await page.fill('.filter', '/0500');
    await visit.waitForText('.summary', '10 of 10,000 locks');
    await visit.end();
    proxy.close();
  },

  async the_keyboard_and_the_address_select_views() {
    const leases = [];
    for (const name of ['a/1', 'a/2', 'b/1']) leases.push(await caller.lock({ name, ttl_ms: LONG_TTL_MS }));
    const visit = await Visit.begin(address);
    const { page } = visit;
    const hash = () => page.evaluate(() => location.hash);
    await visit.open();
    await visit.waitForText('.summary', '3 locks');
    await page.keyboard.press('/');
    await page.keyboard.type('a/');
    await visit.waitForText('.summary', '2 of 3 locks');
    await page.keyboard.press('Enter');
    await page.click('.heads .age button');
    await visit.waitUntil('the address contains the filter and the order', hash, (current) => current === '#/locks?filter=a%2F&sort=age');
    await page.reload();
    await visit.waitForText('.summary', '2 of 3 locks');
    assert.equal(await page.locator('.head .age').getAttribute('aria-sort'), 'descending');
    await page.locator('.table').focus();
    await page.keyboard.press('Escape');
    await visit.waitForText('.summary', '3 locks');
    await page.click('.heads .name button');
    await page.locator('.table').focus();
    for (const key of ['j', 'j', 'j', 'k']) await page.keyboard.press(key);
    const selectedRow = async () => page.locator(`#${await page.locator('.table').getAttribute('aria-activedescendant')}`);
    await visit.waitUntil(
      'the second row is selected',
      async () => (await selectedRow()).textContent(),
      (text) => /^a\/2/.test(text),
    );
    await page.keyboard.press('Enter');
    await visit.waitForText('h1', 'a/2');
    for (const [key, view] of [
      ['3', 'nodes'],
      ['4', 'hot'],
      ['5', 'history'],
      ['2', 'lock/a%2F2'],
    ]) {
      await page.keyboard.press(key);
      await visit.waitUntil(`the key ${key} opens ${view}`, hash, (current) => current.startsWith(`#/${view}`));
    }
    // The page handles both keys before it draws the view that the first key opens.
    await page.evaluate(() => {
      for (const key of ['1', '?']) document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
    });
    await page.waitForSelector('main[data-view=locks]');
    await visit.waitForText('dialog', 'Keys');
    await page.keyboard.press('Escape');
    await page.goBack();
    await visit.waitUntil('the back button opens the previous view', hash, (current) => current.startsWith('#/lock/a%2F2'));
    await page.keyboard.press('Escape');
    await visit.waitUntil('Esc opens the list of locks', hash, (current) => current.startsWith('#/locks'));
    for (const lease of leases) await caller.release(lease);
    await visit.end();
  },

  async an_unknown_address_opens_the_locks() {
    const visit = await Visit.begin(address);
    const { page } = visit;
    const hash = () => page.evaluate(() => location.hash);
    for (const path of ['/nonsense', '/toString', '/lockss/x?filter=y']) {
      await visit.open(path);
      await visit.waitForText('.empty', 'No locks');
      assert.equal(await hash(), '#/locks', path);
    }
    // The skip link does not leave the view.
    await visit.open('/nodes');
    await visit.waitForText('.headline', 'One node');
    await page.locator('.skip').focus();
    await page.keyboard.press('Enter');
    await visit.waitUntil(
      'the view has the focus',
      () => page.evaluate(() => document.activeElement.id),
      (id) => id === 'main',
    );
    assert.equal(await hash(), '#/nodes');
    await visit.end();
  },
};
