// Accessibility, secrets, and foreign scripts.

import assert from 'node:assert/strict';

import { Door } from '../door.mjs';
import { Tale } from '../tale.mjs';
import { address, caller, rest } from '../told.mjs';
import { LONG_MS, Visit } from '../visit.mjs';

const VIEWS = ['locks', 'lock', 'nodes', 'hot', 'history'];
/** Texts closer than this read as one. */
const APART_PX = 2;

export const care = {
  async axe_finds_nothing_serious() {
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

  async every_view_and_reason_fits_on_a_phone() {
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

  async a_phone_shows_no_keyboard_shortcuts() {
    for (const isPhone of [true, false]) {
      const visit = await Visit.begin(address, { isPhone });
      await visit.open('/lock');
      const words = await (await visit.sees('.empty p', 'Pick one among all locks')).innerText();
      assert.equal(/j and k move, Enter opens/.test(words), !isPhone, words);
      await visit.end();
    }
  },

  async no_text_is_cut_off() {
    const label = 'x'.repeat(60);
    const lease = await caller.lock({ name: 'held', ttl_ms: LONG_MS, label });
    const door = await Door.open(address);
    const held = await Tale.of(address, lease);
    const [node] = held.nodes;
    const on = (at, more) => ({ ...node, node: `redis://10.20.30.4${at}:6379`, waiting: 1_000, ...more });
    const nodes = [on(0), on(1, { fence: 1 }), on(2, { held: false, fence: null, left_ms: null })];
    const undecided = { ...held, name: 'undecided', held: false, holder: null, fence: null, left_ms: null, nodes };
    const tale = new Tale([{ ...held, nodes }, undecided], ['voting', 'voting', 'voting']);
    door.stream = tale.answer;
    for (const width of [1400, 1100, 390]) {
      const visit = await Visit.begin(door.address, { width });
      const { page } = visit;
      const fits = async (selector) => {
        const [wide, room] = await page
          .locator(selector)
          .first()
          .evaluate((element) => [element.scrollWidth, element.clientWidth]);
        assert.ok(wide <= room, `${selector} of ${width} px: ${wide} px in ${room}`);
      };
      await visit.open();
      const row = await visit.sees('.locks .space .row', 'undecided');
      const [cell, words] = [await row.locator('.left').boundingBox(), await row.locator('.left .words').boundingBox()];
      assert.equal(await row.locator('.left .words').textContent(), 'undecided');
      await fits('.locks .space .row:has-text("undecided") .left .words');
      assert.ok(words.x >= cell.x && words.x + words.width <= cell.x + cell.width, JSON.stringify([cell, words]));
      await visit.open('/lock/held');
      await visit.sees('.by-node', 'vote with another fence');
      await fits('.by-node .wide');
      await page.click('.lock-head button');
      await visit.sees('dialog', label);
      await fits('dialog');
      await visit.end();
    }
    door.close();
  },

  async labels_of_a_chart_do_not_overlap() {
    const door = await Door.open(address);
    const tale = new Tale([], ['voting', 'voting', 'voting']);
    door.stream = tale.answer;
    const visit = await Visit.begin(door.address);
    const { page } = visit;
    await page.addInitScript(() => {
      // The labels of each chart, and their positions.
      globalThis.drawn = new Map();
      const { fillText, clearRect } = CanvasRenderingContext2D.prototype;
      CanvasRenderingContext2D.prototype.clearRect = function (...where) {
        globalThis.drawn.set(this, []);
        clearRect.apply(this, where);
      };
      CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
        const size = this.measureText(text);
        const [left, right] = [x - size.actualBoundingBoxLeft, x + size.actualBoundingBoxRight];
        const [top, bottom] = [y - size.actualBoundingBoxAscent, y + size.actualBoundingBoxDescent];
        if (text) globalThis.drawn.get(this)?.push({ text, left, right, top, bottom });
        fillText.call(this, text, x, y);
      };
    });
    await visit.open('/nodes');
    // A label must pass the edge of the chart.
    const began = Date.now();
    let most = 0;
    for (let second = 0; second < 60; second += 1) {
      tale.look(began + 1_000 * second);
      await new Promise((done) => setTimeout(done, 300));
      const seen = await page.evaluate(() => [...globalThis.drawn.values()]);
      for (const words of seen) {
        most = Math.max(most, words.length);
        for (const one of words) {
          const meets = (other) =>
            other !== one &&
            one.left < other.right + APART_PX &&
            other.left < one.right + APART_PX &&
            one.top < other.bottom + APART_PX &&
            other.top < one.bottom + APART_PX;
          assert.deepEqual(words.filter(meets), [], `what meets ${one.text} in second ${second}`);
        }
      }
    }
    assert.ok(most >= 5, `a drawing has words on both axes: ${most}`);
    await visit.end();
    door.close();
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
    assert.equal(secrets.length, 11, 'three leases, each with its id and its signature, and two owners');
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

  async a_bearer_token_is_kept_only_in_the_tab() {
    const [token] = rest;
    const visit = await Visit.begin(address);
    const { page } = visit;
    await page.goto(address);
    await visit.sees('dialog.bearer', 'The service needs a bearer token');
    assert.equal(await page.locator('dialog.bearer .trouble').count(), 0, 'an error is shown before the first attempt');
    await page.fill('#bearer', 'wrong');
    await page.keyboard.press('Enter');
    await visit.sees('dialog.bearer .trouble', 'The service does not know this bearer token');
    await visit.checked('a wrong token');
    // The wrong token is discarded, and the page asks again.
    await visit.until(
      'it is asked for again',
      () => page.locator('#bearer').inputValue(),
      (value) => value === '',
    );
    await page.fill('#bearer', token);
    await page.keyboard.press('Enter');
    await visit.live();
    await visit.sees('.empty pre', 'Authorization: Bearer $TOKEN');
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

  async foreign_scripts_do_not_run() {
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
    assert.match(await page.title(), /^<img/, 'a name is shown as text');
    await caller.release(lease);
    await visit.end(/Trusted|Content Security Policy|inline script/i);
  },
};
