// What is claimed of the page: `node claims.mjs CLAIM ADDRESS`. Steps that are others' to do are printed, and awaited.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline/promises';

import { crowd } from './crowd.mjs';
import { Door } from './door.mjs';
import { Caller, Visit, axe } from './visit.mjs';

const [claim, address, ...rest] = process.argv.slice(2);
const caller = new Caller(address);
const VIEWS = ['locks', 'lock', 'nodes', 'hot', 'history'];
const seconds = (text) => Number(/(\d+) s$/.exec(text)?.[1] ?? Number.NaN);

/** Asks whoever has started us to do something. */
async function others(step) {
  const lines = createInterface({ input: process.stdin });
  console.log(step);
  await lines[Symbol.asyncIterator]().next();
  lines.close();
}

const claims = {
  async locks_appear_and_count_down() {
    const visit = await Visit.begin(address);
    await visit.open();
    await visit.sees('.empty', 'Nothing is locked');
    const lease = await caller.lock({ name: 'invoices/42', ttl_ms: 60_000, label: 'the runner' });
    const row = await visit.sees('.locks .space .row', 'invoices/42');
    assert.match(await row.textContent(), /the runner/);
    assert.match(await row.textContent(), new RegExp(String(lease.fence)));
    const left = () => row.locator('.left .words').textContent();
    const width = () => row.locator('.left .fill').evaluate((fill) => fill.getBoundingClientRect().width);
    const [first, wide] = [seconds(await left()), await width()];
    await visit.until('the time left runs down', left, (text) => seconds(text) <= first - 2);
    assert.ok((await width()) < wide, 'and so does the bar');
    await caller.release(lease);
    await visit.gone('.locks .space .row:not([hidden])', 'invoices/42');
    await visit.end();
  },

  async waiters_move() {
    const held = await caller.lock({ name: 'deploy', ttl_ms: 60_000, label: 'first' });
    const visit = await Visit.begin(address);
    await visit.open('/lock/deploy');
    const second = caller.lock({ name: 'deploy', wait_ms: 600_000, label: 'second' });
    await visit.until(
      'one waits',
      () => visit.page.locator('.line li').count(),
      (count) => count === 1,
    );
    const third = caller.lock({ name: 'deploy', wait_ms: 600_000, label: 'third' });
    await visit.until(
      'two wait',
      () => visit.page.locator('.line li').count(),
      (count) => count === 2,
    );
    const times = await visit.page.locator('.line li').allTextContents();
    assert.ok(
      times.every((text) => / s$/.test(text)),
      times,
    );
    await caller.release(held);
    await visit.sees('.facts', 'second');
    await visit.until(
      'one is left',
      () => visit.page.locator('.line li').count(),
      (count) => count === 1,
    );
    await caller.release(await second);
    await visit.sees('.facts', 'third');
    await visit.sees('.in-line', 'Nobody waits');
    await visit.sees('.small td', 'released');
    await caller.release(await third);
    await visit.end();
  },

  async break_works_with_confirmation() {
    const lease = await caller.lock({ name: 'db/primary', ttl_ms: 60_000, label: 'stuck' });
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
      // The nodes of a busy machine may be late: the dialog stays, and can be sent again.
      assert.match(trouble[0], /^(It was not broken: .*(quorum|slow).*)?$/);
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

  async a_node_in_quarantine_is_visible() {
    const visit = await Visit.begin(address);
    await visit.open('/nodes');
    await visit.sees('#quorum', '3 of 3 vote, can lose 1 more');
    await others('restart a node');
    const node = await visit.sees('.node[data-kind=wait]', 'quarantined');
    await visit.sees('.node[data-kind=wait] .countdown', /may vote again in \d+ (s|m)/);
    await visit.until(
      'it counts',
      () => node.locator('.numbers').textContent(),
      (text) => text.endsWith('1'),
    );
    await visit.sees('#quorum', '2 of 3 vote, can lose 0 more');
    await visit.sees('.headline[data-level=low]', 'can lose 0 more');
    const voting = await visit.sees('.node[data-kind=vote] .numbers', /\d (µs|ms)/);
    assert.match(await voting.textContent(), /p99\d/);
    await visit.page.keyboard.press('5');
    await visit.sees('.history .space .row', 'restarted');
    await visit.end();
  },

  async a_stream_that_is_cut_says_so_and_comes_back() {
    const door = await Door.open(address);
    const visit = await Visit.begin(door.address);
    await visit.open();
    await visit.sees('.empty', 'Nothing is locked');
    door.shut();
    await visit.sees('#banner', /The stream is cut: .* What you see is \d+ s old/);
    await visit.sees('#live', /cut \d+ s/);
    const faded = await visit.page.locator('main').evaluate((main) => getComputedStyle(main).filter);
    assert.match(faded, /grayscale/, 'what is not current does not look current');
    const lease = await caller.lock({ name: 'meanwhile', ttl_ms: 60_000 });
    door.reopen();
    await visit.live();
    assert.ok(await visit.page.locator('#banner').isHidden());
    await visit.sees('.locks .space .row', 'meanwhile');
    assert.match(door.resumed.at(-1), /^[0-9a-f]{16}-\d+$/, 'it goes on behind what it has read');
    await caller.release(lease);
    await visit.end(/Failed to load resource/);
    door.close();
  },

  async a_stream_that_stalls_says_so() {
    const door = await Door.open(address);
    const visit = await Visit.begin(door.address);
    await visit.open();
    door.hold(true);
    await visit.sees('#banner', /The stream has stalled: .* What you see is \d+ s old/);
    door.hold(false);
    await visit.live();
    await visit.end();
    door.close();
  },

  async ten_thousand_rows_scroll_smoothly() {
    const lease = await caller.lock({ name: 'one of many', ttl_ms: 60_000, label: 'model' });
    const lock = await (await fetch(`${address}/v1/locks/one%20of%20many`)).json();
    await caller.release(lease);
    const door = await Door.open(address);
    door.stream = crowd(lock, 10_000);
    const visit = await Visit.begin(door.address);
    const { page } = visit;
    await visit.open();
    await visit.sees('.summary', '10,000 locks');
    // On every frame of the way down: rows without a gap, and no more of them than there is room for.
    const seen = await page.evaluate(async () => {
      const table = document.querySelector('.table');
      const space = table.querySelector('.space');
      const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
      const found = { rows: 0, gaps: 0, frames: 0, long: 0 };
      const steps = [];
      new PerformanceObserver((list) => (found.long += list.getEntries().length)).observe({ type: 'longtask' });
      const drawn = new Set();
      const watch = new MutationObserver((list) =>
        list.forEach((change) => drawn.add(change.target.parentElement?.closest('.row'))),
      );
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
      // Some frames also have news, or a second that has passed, for all rows in sight.
      const drawnEach = steps.sort((a, b) => a - b)[Math.floor(steps.length / 4)];
      return { ...found, drawnEach, end: table.scrollTop + table.clientHeight >= table.scrollHeight - 1 };
    });
    console.error(JSON.stringify(seen));
    assert.equal(seen.gaps, 0);
    assert.ok(seen.end, 'it came to the end');
    assert.ok(seen.rows < 60, `${seen.rows} rows exist, of which some 27 are in sight`);
    assert.ok(seen.drawnEach <= 10, `a step of five rows draws those, and not all: ${seen.drawnEach}`);
    await visit.sees('.locks .space .row', 'crowd/09999');
    await page.fill('.filter', '/0500');
    await visit.sees('.summary', '10 of 10,000 locks');
    await visit.end();
    door.close();
  },

  async nothing_serious_is_found_by_axe() {
    const checker = await readFile(axe, 'utf8');
    const held = await caller.lock({ name: 'held/here', ttl_ms: 60_000, label: 'somebody' });
    const gone = new AbortController();
    const waits = caller.lock({ name: 'held/here', wait_ms: 600_000 }, gone.signal).catch(() => {});
    for (const [width, colorScheme] of [
      [1400, 'light'],
      [390, 'dark'],
    ]) {
      const visit = await Visit.begin(address, { width, colorScheme });
      // The checker itself is not the page's: it is put in behind the policy's back.
      const check = async (what) => {
        await visit.page.evaluate(checker);
        const { violations } = await visit.page.evaluate(() => globalThis.axe.run());
        const serious = violations.filter(({ impact }) => ['serious', 'critical'].includes(impact));
        const told = serious.map(({ id, nodes }) => [id, ...nodes.map((node) => node.html.slice(0, 160))]);
        assert.deepEqual(told, [], `${what}, ${width} px, ${colorScheme}`);
      };
      for (const view of VIEWS) {
        await visit.open(view === 'lock' ? '/lock/held%2Fhere' : `/${view}`);
        if (view === 'locks') await visit.sees('.locks .space .row', 'somebody');
        if (view === 'lock') await visit.sees('.facts', 'somebody');
        await check(view);
      }
      await visit.open('/lock/held%2Fhere');
      await visit.sees('.facts', 'somebody');
      await visit.page.click('.lock-head button');
      await check('breaking');
      await visit.page.keyboard.press('Escape');
      await visit.page.click('#help');
      await check('help');
      await visit.end();
    }
    gone.abort();
    await waits;
    await caller.release(held);
  },

  async no_lease_id_is_in_the_page() {
    const plain = await caller.lock({ name: 'secret', ttl_ms: 60_000, label: 'holder' });
    const owner = 'owner-0123456789abcdef0123456789abcdef';
    const owned = await caller.lock({ name: 'owned', ttl_ms: 60_000, owner });
    const secrets = [plain, owned].flatMap(({ lease_id }) => [
      lease_id,
      ...lease_id.split(/[.:]/).filter((part) => /^[0-9a-f]{32,}$/i.test(part)),
    ]);
    assert.equal(secrets.length, 5, 'two leases, and what signs them, with an owner');
    const visit = await Visit.begin(address);
    const seen = [];
    for (const path of ['/locks', '/lock/secret', '/lock/owned', '/nodes', '/hot', '/history']) {
      await visit.open(path);
      if (path === '/locks') await visit.sees('.locks .space .row', 'owned');
      if (path.startsWith('/lock/')) await visit.sees('.facts', 'Fence');
      seen.push(
        await visit.page.evaluate(
          () => document.documentElement.outerHTML + JSON.stringify([{ ...localStorage }, { ...sessionStorage }]),
        ),
      );
    }
    for (const secret of [...secrets, owner]) assert.ok(![...seen, ...visit.asked].join('\n').includes(secret), secret);
    await caller.release(plain);
    await caller.release(owned);
    await visit.end();
  },

  async a_bearer_token_is_asked_for_and_kept_in_the_tab_only() {
    const [token] = rest;
    const visit = await Visit.begin(address);
    const { page } = visit;
    await page.goto(address);
    await page.fill('#bearer', 'wrong');
    await page.keyboard.press('Enter');
    // The wrong one is forgotten, and asked for again.
    await visit.until(
      'it is asked for again',
      () => page.locator('#bearer').inputValue(),
      (value) => value === '',
    );
    await page.fill('#bearer', token);
    await page.keyboard.press('Enter');
    await visit.live();
    const kept = await page.evaluate(() => [
      JSON.stringify({ ...sessionStorage }),
      JSON.stringify({ ...localStorage }) + document.cookie + location.href,
    ]);
    assert.ok(kept[0].includes(token) && !kept[1].includes(token));
    assert.ok(!visit.asked.join('\n').includes(token));
    assert.ok(!(await page.content()).includes(token));
    await page.reload();
    await visit.live();
    const other = await visit.context.newPage();
    await other.goto(address);
    await other.waitForSelector('#bearer');
    await visit.end(/401/);
  },

  async keys_move_through_the_views_and_the_address_holds_them() {
    const leases = [];
    for (const name of ['a/1', 'a/2', 'b/1']) leases.push(await caller.lock({ name, ttl_ms: 60_000 }));
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
    assert.equal(await hash(), '#/locks?filter=a%2F&sort=age');
    await page.reload();
    await visit.sees('.summary', '2 of 3 locks');
    assert.equal(await page.locator('.head .age').getAttribute('aria-sort'), 'descending');
    await page.locator('.table').focus();
    await page.keyboard.press('Escape');
    await visit.sees('.summary', '3 locks');
    await page.click('.heads .name button');
    await page.locator('.table').focus();
    for (const key of ['j', 'j', 'j', 'k']) await page.keyboard.press(key);
    const active = await page.locator('.table').getAttribute('aria-activedescendant');
    assert.match(await page.locator(`#${active}`).textContent(), /^a\/2/);
    await page.keyboard.press('Enter');
    await visit.sees('h1', 'a/2');
    for (const [key, view] of [
      ['3', 'nodes'],
      ['4', 'hot'],
      ['5', 'history'],
      ['2', 'lock/a%2F2'],
      ['1', 'locks'],
    ]) {
      await page.keyboard.press(key);
      await visit.until(`${key} leads to ${view}`, hash, (here) => here.startsWith(`#/${view}`));
    }
    await page.keyboard.press('?');
    await visit.sees('dialog', 'Keys');
    await page.keyboard.press('Escape');
    await page.goBack();
    await visit.until('back is back', hash, (here) => here.startsWith('#/lock/a%2F2'));
    await page.keyboard.press('Escape');
    await visit.until('Esc leads to the locks', hash, (here) => here.startsWith('#/locks'));
    for (const lease of leases) await caller.release(lease);
    await visit.end();
  },

  async nothing_that_is_not_the_pages_own_runs() {
    const name = '<img src=x onerror="document.title=1">';
    const lease = await caller.lock({ name, ttl_ms: 60_000, label: '<script>document.title=2</script>' });
    const visit = await Visit.begin(address);
    const { page } = visit;
    await visit.open();
    const row = await visit.sees('.locks .space .row', 'onerror');
    await row.click();
    await visit.sees('h1', 'onerror');
    assert.equal(await page.locator('main img, main script').count(), 0);
    const let_in = await page.evaluate(async () => {
      const script = document.createElement('script');
      try {
        script.text = 'globalThis.letIn = true';
        document.head.append(script);
      } catch {
        return 'refused';
      }
      return globalThis.letIn ?? 'refused';
    });
    assert.equal(let_in, 'refused');
    assert.match(await page.title(), /^<img/, 'a name is a text');
    await caller.release(lease);
    await visit.end(/Trusted|Content Security Policy|inline script/i);
  },
};

await claims[claim]();
process.exit(0);
