// What the page is careful about: those who cannot see it, secrets, and strangers.

import assert from 'node:assert/strict';

import { address, caller, rest } from '../told.mjs';
import { LONG_MS, Visit } from '../visit.mjs';

const VIEWS = ['locks', 'lock', 'nodes', 'hot', 'history'];

export const care = {
  async nothing_serious_is_found_by_axe() {
    const held = await caller.lock({ name: 'held/here', ttl_ms: LONG_MS, label: 'somebody' });
    const gone = new AbortController();
    const waits = caller.lock({ name: 'held/here', wait_ms: 600_000 }, gone.signal).catch(() => {});
    for (const [width, colorScheme] of [
      [1400, 'light'],
      [1400, 'dark'],
      [390, 'light'],
      [390, 'dark'],
    ]) {
      const visit = await Visit.begin(address, { width, colorScheme });
      const check = (what) => visit.checked(`${what}, ${width} px, ${colorScheme}`);
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

  async a_phone_has_room_for_every_view_and_tells_why() {
    const name = `a/name/that/is/${'much/'.repeat(20)}too/long`;
    const label = 'a label that is rather long, too, for a phone';
    const { fence } = await caller.lock({ name, ttl_ms: LONG_MS, label });
    const broken = await caller.ask(`/v1/locks/${encodeURIComponent(name)}/break`, { fence, reason: 'on fire' });
    assert.equal(broken.status, 200, JSON.stringify(broken));
    const visit = await Visit.begin(address, { width: 390, height: 844 });
    for (const path of ['/locks', `/lock/${encodeURIComponent(name)}`, '/nodes', '/hot', '/history']) {
      await visit.open(path);
      const [wide, room] = await visit.page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      assert.ok(wide <= room, `${path} is ${wide} px wide`);
    }
    const why = await visit.sees('.history .space .row .reason', 'on fire');
    const { width } = await why.boundingBox();
    assert.ok(width > 40, `${width} px for the reason`);
    await visit.end();
  },

  async no_lease_id_is_in_the_page() {
    const plain = await caller.lock({ name: 'secret', ttl_ms: LONG_MS, label: 'holder' });
    const owner = 'owner-0123456789abcdef0123456789abcdef';
    const owned = await caller.lock({ name: 'owned', ttl_ms: LONG_MS, owner });
    const key = 'key-0123456789abcdef0123456789abcdef';
    const keyed = await caller.lock({ name: 'keyed', ttl_ms: LONG_MS, key });
    const secrets = [plain, owned, keyed].flatMap(({ lease_id }) => [
      lease_id,
      ...lease_id.split(/[.:]/).filter((part) => /^[0-9a-f]{32,}$/i.test(part)),
    ]);
    assert.equal(secrets.length, 8, 'three leases, and what signs them, with two owners');
    const visit = await Visit.begin(address);
    const seen = [];
    for (const path of ['/locks', '/lock/secret', '/lock/owned', '/lock/keyed', '/nodes', '/hot', '/history']) {
      await visit.open(path);
      if (path === '/locks') await visit.sees('.locks .space .row', 'keyed');
      if (path.startsWith('/lock/')) await visit.sees('.facts', 'Fence');
      seen.push(
        await visit.page.evaluate(
          () => document.documentElement.outerHTML + JSON.stringify([{ ...localStorage }, { ...sessionStorage }]),
        ),
      );
    }
    for (const secret of [...secrets, owner, key]) assert.ok(![...seen, ...visit.asked].join('\n').includes(secret), secret);
    await caller.release(plain);
    await caller.release(owned);
    await caller.release(keyed);
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

  async nothing_that_is_not_the_pages_own_runs() {
    const name = '<img src=x onerror="document.title=1">';
    const lease = await caller.lock({ name, ttl_ms: LONG_MS, label: '<script>document.title=2</script>' });
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
