// A visit to the page: whatever it complains about, or asks of others, fails the claim.

import { createRequire } from 'node:module';
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';

const require = createRequire(`${process.env.QUORLOCK_PAGE_MODULES}/`);
export const { chromium } = require('playwright-core');
const axe = require.resolve('axe-core/axe.min.js');

/** Longer than anything takes, on a machine that is busy with other tests. */
const PATIENCE_MS = 120_000;
/** The ttl of leases that are to outlast the claim: the services of these tests allow it. */
export const LONG_MS = 3_600_000;
/** What the browser itself says of an answer from nodes that were late. What the page makes of it is seen on the page. */
const LATE = /^Failed to load resource: .* status of 503/;

export class Visit {
  complaints = [];
  /** Every address that was asked for. */
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

  /** Waits until text is there, or with a function until that holds on the page. */
  async sees(selector, text) {
    const found = this.page.locator(selector).filter({ hasText: text }).first();
    await found.waitFor();
    return found;
  }

  gone(selector, text) {
    return this.page.locator(selector).filter({ hasText: text }).first().waitFor({ state: 'detached' });
  }

  /** Waits until there is nothing to warn of. */
  async calm() {
    await this.live();
    await this.page.locator('#banner').waitFor({ state: 'hidden' });
  }

  /** Repeats a look at the page until it comes out as wanted. */
  async until(what, look, isIt) {
    const end = Date.now() + PATIENCE_MS;
    for (;;) {
      const seen = await look();
      if (isIt(seen)) return seen;
      assert.ok(Date.now() < end, `${what}: ${JSON.stringify(seen)}`);
      await new Promise((done) => setTimeout(done, 100));
    }
  }

  /** Makes sure that axe finds nothing serious in what is there. */
  async checked(what) {
    // The checker itself is not the page's: it is put in behind the policy's back.
    await this.page.evaluate(await readFile(axe, 'utf8'));
    const { violations } = await this.page.evaluate(() => globalThis.axe.run());
    const serious = violations.filter(({ impact }) => ['serious', 'critical'].includes(impact));
    const told = serious.map(({ id, nodes }) => [id, ...nodes.map((node) => node.html.slice(0, 160))]);
    assert.deepEqual(told, [], what);
  }

  /** Ends the visit. `forgiven` are complaints that the claim itself has caused. */
  async end(forgiven = /^$/) {
    await this.browser.close();
    const complaints = this.complaints.filter((complaint) => !forgiven.test(complaint) && !LATE.test(complaint));
    assert.deepEqual(complaints, [], 'the page complains of nothing');
    const others = this.asked.filter((url) => !url.startsWith(`${this.address}/`) && !url.startsWith('data:'));
    assert.deepEqual(others, [], 'nobody else is asked for anything');
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

  /** The same, by somebody patient: who is told that the nodes were late asks again. */
  async ask(path, body, signal) {
    for (;;) {
      const answer = await this.post(path, body, signal);
      if (answer.status !== 503) return answer;
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
