// The views of locks.

import assert from 'node:assert/strict';

import { crowd } from '../crowd.mjs';
import { Door } from '../door.mjs';
import { address, caller } from '../told.mjs';
import { LONG_MS, Visit } from '../visit.mjs';

/** The seconds in `59 m 58 s` or `8 s`; NaN for other texts. */
const seconds = (text) => {
  const [, minutes = 0, rest = Number.NaN] = /^(?:(\d+) m )?(\d+) s$/.exec(text) ?? [];
  return 60 * Number(minutes) + Number(rest);
};

export const locks = {
  async locks_appear_and_count_down() {
    const visit = await Visit.begin(address);
    await visit.open();
    await visit.sees('.empty', 'No locks');
    const lease = await caller.lock({ name: 'invoices/42', ttl_ms: LONG_MS, label: 'the runner' });
    const row = await visit.sees('.locks .space .row', 'invoices/42');
    assert.match(await row.textContent(), /the runner/);
    assert.match(await row.textContent(), new RegExp(String(lease.fence)));
    const left = () => row.locator('.left .words').textContent();
    const width = () => row.locator('.left .fill').evaluate((fill) => fill.getBoundingClientRect().width);
    const [first, wide] = [seconds(await visit.until('it says so', left, (text) => seconds(text) > 0)), await width()];
    await visit.until('the time left runs down', left, (text) => seconds(text) <= first - 2);
    await visit.until('and so does the bar', width, (now) => now < wide);
    await caller.release(lease);
    await visit.gone('.locks .space .row:not([hidden])', 'invoices/42');
    await visit.end();
  },

  async waiters_move() {
    const held = await caller.lock({ name: 'deploy', ttl_ms: LONG_MS, label: 'first' });
    const visit = await Visit.begin(address);
    await visit.open('/lock/deploy');
    const second = caller.lock({ name: 'deploy', wait_ms: 600_000, ttl_ms: LONG_MS, label: 'second' });
    await visit.until(
      'one waits',
      () => visit.page.locator('.queue li').count(),
      (count) => count === 1,
    );
    const third = caller.lock({ name: 'deploy', wait_ms: 600_000, ttl_ms: LONG_MS, label: 'third' });
    await visit.until(
      'two wait',
      () => visit.page.locator('.queue li').count(),
      (count) => count === 2,
    );
    const times = await visit.page.locator('.queue li').allTextContents();
    assert.ok(
      times.every((text) => / s$/.test(text)),
      times,
    );
    await caller.release(held);
    await visit.sees('.facts', 'second');
    await visit.until(
      'one is left',
      () => visit.page.locator('.queue li').count(),
      (count) => count === 1,
    );
    await caller.release(await second);
    await visit.sees('.facts', 'third');
    await visit.sees('.in-queue', 'No waiters');
    await visit.sees('.small td', 'released');
    await caller.release(await third);
    await visit.end();
  },

  async hot_spots_show_waiting_times() {
    const held = await caller.lock({ name: 'hot', ttl_ms: LONG_MS });
    const visit = await Visit.begin(address);
    await visit.open('/hot');
    const gone = new AbortController();
    const waiting = caller.lock({ name: 'hot', wait_ms: 600_000, ttl_ms: LONG_MS }, gone.signal).catch(() => {});
    const row = await visit.sees('.hot .space .row', 'hot');
    const cell = (id) => row.locator(`.${id}`).textContent();
    await visit.until(
      'one waits',
      () => cell('waiters'),
      (text) => text === '1',
    );
    assert.equal(await cell('wait'), '–', 'nobody has left the queue');
    gone.abort();
    await waiting;
    // Waiters that timed out count, too.
    const mean = await visit.until(
      'it is told',
      () => cell('wait'),
      (text) => / s$/.test(text),
    );
    assert.ok(Number.parseFloat(mean) > 0, mean);
    assert.equal(await cell('waiters'), '–');
    await caller.release(held);
    await visit.end();
  },

  async a_keyed_lease_lasts_from_its_first_request_to_its_release() {
    const ask = { name: 'keyed', ttl_ms: LONG_MS, key: 'key-0123456789abcdef0123456789abcdef', label: 'somebody' };
    const visit = await Visit.begin(address);
    const { page } = visit;
    await visit.open('/history');
    await caller.lock(ask);
    const lease = await caller.lock(ask);
    await visit.until(
      'both tries are told',
      () => page.locator('.history .space .row:not([hidden])').filter({ hasText: 'granted' }).count(),
      (count) => count === 2,
    );
    await caller.release(lease);
    const row = await visit.sees('.history .space .row', 'released');
    assert.match(await row.textContent(), /held for \d/);
    assert.match(await row.textContent(), new RegExp(`somebody.*${lease.fence}`));
    await visit.open('/lock/keyed');
    await visit.until(
      'one lease, which was released',
      () => page.locator('.strip .lease').evaluateAll((all) => all.map(({ dataset }) => dataset.end).join()),
      (ends) => ends === 'released',
    );
    await visit.end();
  },

  async an_unrenewed_lease_is_shown_as_lost() {
    const visit = await Visit.begin(address);
    const { page } = visit;
    await visit.open('/history?only=lost');
    const lease = await caller.lock({ name: 'forgotten', ttl_ms: 5_000, label: 'gone home' });
    const row = await visit.sees('.history .space .row', 'lapsed');
    assert.match(await row.textContent(), new RegExp(`forgotten.*gone home.*${lease.fence}.*nobody renewed it`));
    // A page that is opened later shows it as well.
    await page.reload();
    await visit.sees('.history .space .row', 'nobody renewed it');
    await visit.checked('a lapse');
    await visit.open('/lock/forgotten');
    await visit.until(
      'its timeline says so',
      () => page.locator('.strip .lease').evaluateAll((all) => all.map(({ dataset }) => dataset.end).join()),
      (ends) => ends === 'lapsed',
    );
    await visit.end();
  },

  async a_free_lock_has_no_holder() {
    const visit = await Visit.begin(address);
    await visit.open('/lock/free');
    await visit.sees('.lock-state', 'free');
    await visit.sees('.who-has-it', 'No holder.');
    await visit.sees('.by-node', 'No node has a vote for this lock.');
    await visit.sees('.whole', 'No events yet.');
    assert.equal(await visit.page.locator('thead:visible').count(), 0, 'a table without rows');
    await visit.checked('a free lock');
    const lease = await caller.lock({ name: 'free', ttl_ms: LONG_MS, label: 'somebody' });
    await visit.sees('.facts', 'somebody');
    await visit.sees('.by-node tbody tr', 'has the vote');
    assert.ok(await visit.page.locator('.who-has-it p').isHidden());
    await caller.release(lease);
    await visit.sees('.who-has-it', 'No holder.');
    assert.ok(await visit.page.locator('.facts').isHidden());
    await visit.end();
  },

  async break_works_with_confirmation() {
    const lease = await caller.lock({ name: 'db/primary', ttl_ms: LONG_MS, label: 'stuck' });
    const visit = await Visit.begin(address);
    const { page } = visit;
    await visit.open('/lock/db%2Fprimary');
    await visit.sees('.facts', 'stuck');
    await page.keyboard.press('b');
    const go = page.locator('dialog button[type=submit]');
    assert.ok(await go.isDisabled());
    await page.fill('#break-reason', 'its host is on fire');
    await page.fill('#break-name', 'db/secondary');
    assert.ok(await go.isDisabled(), 'another name confirms nothing');
    await page.fill('#break-name', 'db/primary');
    await page.fill('#break-reason', ' ');
    assert.ok(await go.isDisabled(), 'a reason is needed');
    assert.equal((await caller.renew(lease)).status, 200);
    await page.fill('#break-reason', 'its host is on fire');
    await page.check('dialog input[value=now]');
    await go.click();
    for (;;) {
      await page.waitForSelector('.said:not(:empty), dialog .trouble:not(:empty)');
      const trouble = await page.locator('dialog .trouble').allTextContents();
      if (trouble.length === 0) break;
      // If the nodes were slow, the dialog stays open and can be sent again.
      assert.match(trouble[0], /^(The break failed: .*(quorum|slow).*)?$/);
      if (trouble[0]) await go.click();
    }
    await visit.sees('.said', 'Broken on');
    await visit.sees('.small tr', 'its host is on fire');
    assert.equal((await caller.renew(lease)).status, 410);
    await page.keyboard.press('5');
    const told = await visit.sees('.history .space .row', 'its host is on fire');
    assert.match(await told.textContent(), /broken/);
    await visit.end();
  },

  async ten_thousand_rows_scroll_smoothly() {
    const lease = await caller.lock({ name: 'one of many', ttl_ms: LONG_MS, label: 'model' });
    const lock = await caller.read(lease);
    await caller.release(lease);
    const door = await Door.open(address);
    door.stream = crowd(lock, 10_000);
    const visit = await Visit.begin(door.address);
    const { page } = visit;
    await visit.open();
    await visit.sees('.summary', '10,000 locks');
    // On every frame while scrolling: rows without a gap, and no more of them than fit.
    const seen = await page.evaluate(async () => {
      const table = document.querySelector('.table');
      const space = table.querySelector('.space');
      const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
      const found = { rows: 0, gaps: 0, frames: 0, made: 0 };
      const steps = [];
      const drawn = new Set();
      const watch = new MutationObserver((list) => {
        for (const { target, addedNodes } of list) {
          drawn.add(target.parentElement?.closest('.row'));
          found.made += [...addedNodes].filter((node) => node.nodeType === Node.ELEMENT_NODE).length;
        }
      });
      watch.observe(space, { subtree: true, childList: true, characterData: true });
      for (; found.frames < 300; found.frames += 1) {
        table.scrollTop += found.frames < 200 ? 137 : 2_900;
        await frame();
        const { top, bottom } = table.getBoundingClientRect();
        const shown = [...space.children].filter((row) => !row.hidden).map((row) => row.getBoundingClientRect());
        const [head, foot] = [Math.min(...shown.map((box) => box.top)), Math.max(...shown.map((box) => box.bottom))];
        const end = space.getBoundingClientRect().bottom;
        if (head > top + 30 || foot < Math.min(bottom, end) - 1) found.gaps += 1;
        found.rows = Math.max(found.rows, space.children.length);
        if (found.frames < 200) steps.push(drawn.size);
        drawn.clear();
      }
      // Some frames also update all visible rows.
      const drawnEach = steps.sort((a, b) => a - b)[Math.floor(steps.length / 4)];
      return { ...found, drawnEach, end: table.scrollTop + table.clientHeight >= table.scrollHeight - 1 };
    });
    assert.equal(seen.gaps, 0);
    assert.ok(seen.end, 'it came to the end');
    assert.ok(seen.rows < 60, `${seen.rows} rows exist, of which some 27 are in sight`);
    // A few more rows are created once there are rows above the visible ones.
    assert.ok(seen.made < 10 * seen.rows, `rows are used again: ${seen.made} elements were made in ${seen.frames} frames`);
    assert.ok(seen.drawnEach <= 10, `a step of five rows draws those, and not all: ${seen.drawnEach}`);
    await visit.sees('.locks .space .row', 'crowd/09999');
    await page.fill('.filter', '/0500');
    await visit.sees('.summary', '10 of 10,000 locks');
    await visit.end();
    door.close();
  },

  async the_keyboard_and_the_address_select_views() {
    const leases = [];
    for (const name of ['a/1', 'a/2', 'b/1']) leases.push(await caller.lock({ name, ttl_ms: LONG_MS }));
    const visit = await Visit.begin(address);
    const { page } = visit;
    const hash = () => page.evaluate(() => location.hash);
    await visit.open();
    await visit.sees('.summary', '3 locks');
    await page.keyboard.press('/');
    await page.keyboard.type('a/');
    await visit.sees('.summary', '2 of 3 locks');
    await page.keyboard.press('Enter');
    await page.click('.heads .age button');
    await visit.until('the address holds the view', hash, (here) => here === '#/locks?filter=a%2F&sort=age');
    await page.reload();
    await visit.sees('.summary', '2 of 3 locks');
    assert.equal(await page.locator('.head .age').getAttribute('aria-sort'), 'descending');
    await page.locator('.table').focus();
    await page.keyboard.press('Escape');
    await visit.sees('.summary', '3 locks');
    await page.click('.heads .name button');
    await page.locator('.table').focus();
    for (const key of ['j', 'j', 'j', 'k']) await page.keyboard.press(key);
    const active = async () => page.locator(`#${await page.locator('.table').getAttribute('aria-activedescendant')}`);
    await visit.until(
      'the second row is chosen',
      async () => (await active()).textContent(),
      (text) => /^a\/2/.test(text),
    );
    await page.keyboard.press('Enter');
    await visit.sees('h1', 'a/2');
    for (const [key, view] of [
      ['3', 'nodes'],
      ['4', 'hot'],
      ['5', 'history'],
      ['2', 'lock/a%2F2'],
    ]) {
      await page.keyboard.press(key);
      await visit.until(`${key} leads to ${view}`, hash, (here) => here.startsWith(`#/${view}`));
    }
    // The page handles both keys before it draws the view of the first.
    await page.evaluate(() => {
      for (const key of ['1', '?']) document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
    });
    await page.waitForSelector('main[data-view=locks]');
    await visit.sees('dialog', 'Keys');
    await page.keyboard.press('Escape');
    await page.goBack();
    await visit.until('back is back', hash, (here) => here.startsWith('#/lock/a%2F2'));
    await page.keyboard.press('Escape');
    await visit.until('Esc leads to the locks', hash, (here) => here.startsWith('#/locks'));
    for (const lease of leases) await caller.release(lease);
    await visit.end();
  },

  async an_unknown_address_opens_the_locks() {
    const visit = await Visit.begin(address);
    const { page } = visit;
    const hash = () => page.evaluate(() => location.hash);
    for (const path of ['/nonsense', '/toString', '/lockss/x?filter=y']) {
      await visit.open(path);
      await visit.sees('.empty', 'No locks');
      assert.equal(await hash(), '#/locks', path);
    }
    // The skip link stays in the view.
    await visit.open('/nodes');
    await visit.sees('.headline', 'One node');
    await page.locator('.skip').focus();
    await page.keyboard.press('Enter');
    await visit.until(
      'the view has the focus',
      () => page.evaluate(() => document.activeElement.id),
      (id) => id === 'main',
    );
    assert.equal(await hash(), '#/nodes');
    await visit.end();
  },
};
