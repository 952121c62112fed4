// Claims about layout, accessibility, secrets, and foreign scripts.

import assert from 'node:assert/strict';

import { TestProxy } from '../test_proxy.mjs';
import { FakeStream } from '../fake_stream.mjs';
import { address, caller, otherArguments } from '../rust_test.mjs';
import { LONG_TTL_MS, Visit } from '../visit.mjs';

const VIEWS = ['locks', 'lock', 'nodes', 'hot', 'history'];
/** The smallest gap between two labels. Closer labels would read as one. */
const LABEL_GAP_MIN_PX = 2;

export const layoutAndSecrets = {
  async axe_finds_no_serious_problem() {
    const heldLease = await caller.lock({ name: 'held/here', ttl_ms: LONG_TTL_MS, label: 'somebody' });
    const abort = new AbortController();
    const waiting = caller.lock({ name: 'held/here', wait_ms: 600_000 }, abort.signal).catch(() => {});
    for (const [width, colorScheme] of [
      [1400, 'light'],
      [1400, 'dark'],
      [390, 'light'],
      [390, 'dark'],
    ]) {
      const visit = await Visit.begin(address, { width, colorScheme });
      const check = (state) => visit.checkAccessibility(`${state}, ${width} px, ${colorScheme}`);
      for (const view of VIEWS) {
        await visit.open(view === 'lock' ? '/lock/held%2Fhere' : `/${view}`);
        if (view === 'locks') await visit.waitForText('.locks .space .row', 'somebody');
        if (view === 'lock') await visit.waitForText('.facts', 'somebody');
        await check(view);
      }
      await visit.open('/lock/held%2Fhere');
      await visit.waitForText('.facts', 'somebody');
      await visit.page.click('.lock-head button');
      await check('the dialog of a break');
      await visit.page.keyboard.press('Escape');
      await visit.page.click('#help');
      await check('the help dialog');
      await visit.end();
    }
    abort.abort();
    await waiting;
    await caller.release(heldLease);
  },

  async every_view_and_reason_fits_on_a_phone() {
    const name = `a/name/that/is/${'much/'.repeat(20)}too/long`;
    const label = 'a label that is rather long, too, for a phone';
    const { fence } = await caller.lock({ name, ttl_ms: LONG_TTL_MS, label });
    const broken = await caller.postUntilDecided(`/v1/locks/${encodeURIComponent(name)}/break`, { fence, reason: 'on fire' });
    assert.equal(broken.status, 200, JSON.stringify(broken));
    const visit = await Visit.begin(address, { width: 390, height: 844 });
    for (const path of ['/locks', `/lock/${encodeURIComponent(name)}`, '/nodes', '/hot', '/history']) {
      await visit.open(path);
      const [pageWidth, viewportWidth] = await visit.page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      assert.ok(pageWidth <= viewportWidth, `${path} is ${pageWidth} px wide`);
    }
    const reason = await visit.waitForText('.history .space .row .reason', 'on fire');
    const { width } = await reason.boundingBox();
    assert.ok(width > 40, `the reason is only ${width} px wide`);
    await visit.end();
  },

  async a_phone_shows_no_keyboard_shortcuts() {
    for (const isPhone of [true, false]) {
      const visit = await Visit.begin(address, { isPhone });
      await visit.open('/lock');
      const text = await (await visit.waitForText('.empty p', 'Pick one among all locks')).innerText();
      assert.equal(/j and k move, Enter opens/.test(text), !isPhone, text);
      await visit.end();
    }
  },

  async no_text_is_cut_off() {
    const label = 'x'.repeat(60);
    const lease = await caller.lock({ name: 'held', ttl_ms: LONG_TTL_MS, label });
    const proxy = await TestProxy.open(address);
    const heldLock = await FakeStream.readLock(address, lease);
    const [node] = heldLock.nodes;
    const onNode = (index, more) => ({ ...node, node: `redis://10.20.30.4${index}:6379`, waiting: 1_000, ...more });
    const nodes = [onNode(0), onNode(1, { fence: 1 }), onNode(2, { held: false, fence: null, left_ms: null })];
    const undecided = { ...heldLock, name: 'undecided', held: false, holder: null, fence: null, left_ms: null, nodes };
    const stream = new FakeStream([{ ...heldLock, nodes }, undecided], ['voting', 'voting', 'voting']);
    proxy.streamHandler = stream.handler;
    for (const width of [1400, 1100, 390]) {
      const visit = await Visit.begin(proxy.address, { width });
      const { page } = visit;
      const assertFits = async (selector) => {
        const [textWidth, elementWidth] = await page
          .locator(selector)
          .first()
          .evaluate((element) => [element.scrollWidth, element.clientWidth]);
        assert.ok(textWidth <= elementWidth, `${selector} in a window of ${width} px: ${textWidth} px in ${elementWidth} px`);
      };
      await visit.open();
      const row = await visit.waitForText('.locks .space .row', 'undecided');
      const [cell, text] = [await row.locator('.left').boundingBox(), await row.locator('.left .words').boundingBox()];
      assert.equal(await row.locator('.left .words').textContent(), 'undecided');
      await assertFits('.locks .space .row:has-text("undecided") .left .words');
      assert.ok(text.x >= cell.x && text.x + text.width <= cell.x + cell.width, JSON.stringify([cell, text]));
      await visit.open('/lock/held');
      await visit.waitForText('.nodes-panel', 'vote with another fence');
      await assertFits('.nodes-panel .wide');
      await page.click('.lock-head button');
      await visit.waitForText('dialog', label);
      await assertFits('dialog');
      await visit.end();
    }
    proxy.close();
  },

  async labels_of_a_chart_do_not_overlap() {
    const proxy = await TestProxy.open(address);
    const stream = new FakeStream([], ['voting', 'voting', 'voting']);
    proxy.streamHandler = stream.handler;
    const visit = await Visit.begin(proxy.address);
    const { page } = visit;
    await page.addInitScript(() => {
      // The labels that each canvas shows, and their positions.
      globalThis.labels = new Map();
      const { fillText, clearRect } = CanvasRenderingContext2D.prototype;
      CanvasRenderingContext2D.prototype.clearRect = function (...rectangle) {
        globalThis.labels.set(this, []);
        clearRect.apply(this, rectangle);
      };
      CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
        const size = this.measureText(text);
        const [left, right] = [x - size.actualBoundingBoxLeft, x + size.actualBoundingBoxRight];
        const [top, bottom] = [y - size.actualBoundingBoxAscent, y + size.actualBoundingBoxDescent];
        if (text) globalThis.labels.get(this)?.push({ text, left, right, top, bottom });
        fillText.call(this, text, x, y);
      };
    });
    await visit.open('/nodes');
    // Within a minute of simulated time, labels move past the edge of the chart.
    const startMs = Date.now();
    let labelsMax = 0;
    for (let second = 0; second < 60; second += 1) {
      stream.sendLook(startMs + 1_000 * second);
      await new Promise((done) => setTimeout(done, 300));
      const canvases = await page.evaluate(() => [...globalThis.labels.values()]);
      for (const labels of canvases) {
        labelsMax = Math.max(labelsMax, labels.length);
        for (const label of labels) {
          const overlaps = (other) =>
            other !== label &&
            label.left < other.right + LABEL_GAP_MIN_PX &&
            other.left < label.right + LABEL_GAP_MIN_PX &&
            label.top < other.bottom + LABEL_GAP_MIN_PX &&
            other.top < label.bottom + LABEL_GAP_MIN_PX;
          assert.deepEqual(labels.filter(overlaps), [], `labels that overlap ${label.text} in second ${second}`);
        }
      }
    }
    assert.ok(labelsMax >= 5, `a chart must have labels on both axes, not only ${labelsMax} labels`);
    await visit.end();
    proxy.close();
  },

  async no_lease_id_is_in_the_page() {
    const plainLease = await caller.lock({ name: 'secret', ttl_ms: LONG_TTL_MS, label: 'holder' });
    const owner = 'owner-0123456789abcdef0123456789abcdef';
    const ownedLease = await caller.lock({ name: 'owned', ttl_ms: LONG_TTL_MS, owner });
    const key = 'key-0123456789abcdef0123456789abcdef';
    const keyedLease = await caller.lock({ name: 'keyed', ttl_ms: LONG_TTL_MS, key });
    const secrets = [plainLease, ownedLease, keyedLease].flatMap(({ lease_id }) => [
      lease_id,
      ...lease_id.split(/[.:]/).filter((part) => /^[0-9a-f]{32,}$/i.test(part)),
    ]);
    assert.equal(secrets.length, 11, 'the ids of three leases, their hexadecimal parts, and the owners of two leases');
    const visit = await Visit.begin(address);
    const pages = [];
    for (const path of ['/locks', '/lock/secret', '/lock/owned', '/lock/keyed', '/nodes', '/hot', '/history']) {
      await visit.open(path);
      if (path === '/locks') await visit.waitForText('.locks .space .row', 'keyed');
      if (path.startsWith('/lock/')) await visit.waitForText('.facts', 'Fence');
      pages.push(
        await visit.page.evaluate(
          () => document.documentElement.outerHTML + JSON.stringify([{ ...localStorage }, { ...sessionStorage }]),
        ),
      );
    }
    for (const secret of [...secrets, owner, key]) assert.ok(![...pages, ...visit.requestedUrls].join('\n').includes(secret), secret);
    await caller.release(plainLease);
    await caller.release(ownedLease);
    await caller.release(keyedLease);
    await visit.end();
  },

  async a_bearer_token_is_kept_only_in_the_tab() {
    const [token] = otherArguments;
    const visit = await Visit.begin(address);
    const { page } = visit;
    await page.goto(address);
    await visit.waitForText('dialog.bearer', 'The service needs a bearer token');
    assert.equal(await page.locator('dialog.bearer .trouble').count(), 0, 'an error is shown before the first attempt');
    await page.fill('#bearer', 'wrong');
    await page.keyboard.press('Enter');
    await visit.waitForText('dialog.bearer .trouble', 'The service does not know this bearer token');
    await visit.checkAccessibility('the dialog after a wrong token');
    // The page discards the wrong token, and asks for another token.
    await visit.waitUntil(
      'the page asks for another token',
      () => page.locator('#bearer').inputValue(),
      (value) => value === '',
    );
    await page.fill('#bearer', token);
    await page.keyboard.press('Enter');
    await visit.waitUntilLive();
    await visit.waitForText('.empty pre', 'Authorization: Bearer $TOKEN');
    const [sessionData, otherData] = await page.evaluate(() => [
      JSON.stringify({ ...sessionStorage }),
      JSON.stringify({ ...localStorage }) + document.cookie + location.href,
    ]);
    assert.ok(sessionData.includes(token) && !otherData.includes(token));
    assert.ok(!visit.requestedUrls.join('\n').includes(token));
    assert.ok(!(await page.content()).includes(token));
    await page.reload();
    await visit.waitUntilLive();
    const otherTab = await visit.context.newPage();
    await otherTab.goto(address);
    await otherTab.waitForSelector('#bearer');
    await visit.end(/401/);
  },

  async foreign_scripts_do_not_run() {
    const name = '<img src=x onerror="document.title=1">';
    const lease = await caller.lock({ name, ttl_ms: LONG_TTL_MS, label: '<script>document.title=2</script>' });
    const visit = await Visit.begin(address);
    const { page } = visit;
    await visit.open();
    const row = await visit.waitForText('.locks .space .row', 'onerror');
    await row.click();
    await visit.waitForText('h1', 'onerror');
    assert.equal(await page.locator('main img, main script').count(), 0);
    const result = await page.evaluate(async () => {
      const script = document.createElement('script');
      try {
        script.text = 'globalThis.scriptResult = "run"';
        document.head.append(script);
      } catch {
        return 'refused';
      }
      return globalThis.scriptResult ?? 'refused';
    });
    assert.equal(result, 'refused');
    assert.match(await page.title(), /^<img/, 'the page must show a name as text');
    await caller.release(lease);
    await visit.end(/Trusted|Content Security Policy|inline script/i);
  },
};
