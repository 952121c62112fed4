// A visit to the page. Errors in the console and requests to other hosts fail the claim.

import { createRequire } from 'node:module';
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';

const require = createRequire(`${process.env.QUORLOCK_PAGE_MODULES}/`);
export const { chromium } = require('playwright-core');
const axe = require.resolve('axe-core/axe.min.js');

/** Longer than any step takes on a busy machine. */
const PATIENCE_MS = 120_000;
/** The ttl of leases that must outlast the claim. The services of these tests allow it. */
export const LONG_MS = 3_600_000;
/** The browser's own message about a 503 reply, when the nodes were slow. The page shows its own message. */
const LATE = /^Failed to load resource: .* status of 503/;

export class Visit {
  complaints = [];
  /** The URLs of all requests. */
  asked = [];

  static async begin(address, { width = 1400, height = 860, colorScheme = 'light', isPhone = false } = {}) {
    const visit = new Visit();
    const args = process.getuid() === 0 ? ['--no-sandbox'] : [];
    const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
    visit.browser = await chromium.launch({ executablePath, args, timeout: PATIENCE_MS });
    visit.context = await visit.browser.newContext({
      viewport: { width, height },
      colorScheme,
      hasTouch: isPhone,
      isMobile: isPhone,
    });
    visit.context.setDefaultTimeout(PATIENCE_MS);
    visit.page = await visit.context.newPage();
    visit.address = address;
    visit.page.on(
      'console',
      (said) => ['error', 'warning'].includes(said.type()) && visit.complaints.push(said.text()),
    );
    visit.page.on('pageerror', (error) => visit.complaints.push(String(error)));
    visit.page.on('request', (request) => visit.asked.push(request.url()));
    return visit;
  }

  /** Opens a view, and waits until the page is live. */
  async open(path = '/locks') {
    await this.page.goto(`${this.address}/#${path}`);
    await this.live();
  }

  live() {
    return this.page.waitForSelector('body[data-stream="live"]');
  }

  /** Waits until an element with this text is visible. */
  async sees(selector, text) {
    const found = this.page.locator(selector).filter({ hasText: text }).first();
    await found.waitFor();
    return found;
  }

  gone(selector, text) {
    return this.page.locator(selector).filter({ hasText: text }).first().waitFor({ state: 'detached' });
  }

  /** Waits until no warning is shown. */
  async calm() {
    await this.live();
    await this.page.locator('#banner').waitFor({ state: 'hidden' });
  }

  /** Polls the page until `isIt` accepts the result of `look`. */
  async until(what, look, isIt) {
    const end = Date.now() + PATIENCE_MS;
    for (;;) {
      const seen = await look();
      if (isIt(seen)) return seen;
      assert.ok(Date.now() < end, `${what}: ${JSON.stringify(seen)}`);
      await new Promise((done) => setTimeout(done, 100));
    }
  }

  /** Checks that axe finds nothing serious on the page. */
  async checked(what) {
    // The content security policy would block a script element, so axe is evaluated directly.
    await this.page.evaluate(await readFile(axe, 'utf8'));
    const { violations } = await this.page.evaluate(() => globalThis.axe.run());
    const serious = violations.filter(({ impact }) => ['serious', 'critical'].includes(impact));
    const told = serious.map(({ id, nodes }) => [id, ...nodes.map((node) => node.html.slice(0, 160))]);
    assert.deepEqual(told, [], what);
  }

  /** Ends the visit. `forgiven` matches errors that the claim itself has caused. */
  async end(forgiven = /^$/) {
    await this.browser.close();
    const complaints = this.complaints.filter((complaint) => !forgiven.test(complaint) && !LATE.test(complaint));
    assert.deepEqual(complaints, [], 'the console has errors');
    const others = this.asked.filter((url) => !url.startsWith(`${this.address}/`) && !url.startsWith('data:'));
    assert.deepEqual(others, [], 'the page sent requests to other hosts');
  }
}

/** A caller of the service. */
export class Caller {
  constructor(address) {
    this.address = address;
  }

  async post(path, body, signal) {
    const headers = { 'content-type': 'application/json' };
    const response = await fetch(this.address + path, { method: 'POST', headers, body: JSON.stringify(body), signal });
    const text = await response.text();
    return { status: response.status, ...(text && JSON.parse(text)) };
  }

  /** The same, but retries if the nodes were slow. */
  async ask(path, body, signal) {
    for (;;) {
      const answer = await this.post(path, body, signal);
      if (answer.status !== 503) return answer;
    }
  }

  /** Reads a lock until this lease holds it: the service may answer with a copy of a second ago, or that it has none. */
  async read({ name, fence }) {
    for (;;) {
      const response = await fetch(`${this.address}/v1/locks/${encodeURIComponent(name)}`);
      const answer = await response.json();
      if (response.ok && answer.fence === fence) return answer;
      assert.ok([200, 429, 503].includes(response.status), JSON.stringify(answer));
      await new Promise((done) => setTimeout(done, 100));
    }
  }

  async lock(body, signal) {
    const lease = await this.ask('/v1/leases', body, signal);
    assert.equal(lease.status, 201, JSON.stringify(lease));
    return lease;
  }

  renew({ name, lease_id }) {
    return this.ask('/v1/leases/renew', { name, lease_id });
  }

  async release({ name, lease_id }) {
    const answer = await this.ask('/v1/leases/release', { name, lease_id });
    assert.equal(answer.status, 204, JSON.stringify(answer));
  }
}
