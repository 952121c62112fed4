// A visit to the page in a browser, and a caller of the service. If the page logs an error or sends a request to another host, the claim fails.

import { createRequire } from 'node:module';
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';

const require = createRequire(`${process.env.QUORLOCK_PAGE_MODULES}/`);
export const { chromium } = require('playwright-core');
const axe = require.resolve('axe-core/axe.min.js');

/** The longest wait for a step, which is longer than any step takes on a busy machine. */
const WAIT_MAX_MS = 120_000;
/** A ttl that is longer than any claim takes. The services of these tests allow this ttl. */
export const LONG_TTL_MS = 3_600_000;
/** The browser's message about a 503 reply, which the service sends if the nodes are slow. It does not fail the claim. */
const STATUS_503 = /^Failed to load resource: .* status of 503/;

export class Visit {
  /** The errors and warnings in the console of the browser. */
  consoleErrors = [];
  /** The URLs of all requests. */
  requestedUrls = [];

  static async begin(address, { width = 1400, height = 860, colorScheme = 'light', isPhone = false } = {}) {
    const visit = new Visit();
    const args = process.getuid() === 0 ? ['--no-sandbox'] : [];
    const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
    visit.browser = await chromium.launch({ executablePath, args, timeout: WAIT_MAX_MS });
    visit.context = await visit.browser.newContext({
      viewport: { width, height },
      colorScheme,
      hasTouch: isPhone,
      isMobile: isPhone,
    });
    visit.context.setDefaultTimeout(WAIT_MAX_MS);
    visit.page = await visit.context.newPage();
    visit.address = address;
    visit.page.on(
      'console',
      (message) => ['error', 'warning'].includes(message.type()) && visit.consoleErrors.push(message.text()),
    );
    visit.page.on('pageerror', (error) => visit.consoleErrors.push(String(error)));
    visit.page.on('request', (request) => visit.requestedUrls.push(request.url()));
    return visit;
  }

  /** Opens a view, and waits until the page receives the stream. */
  async open(path = '/locks') {
    await this.page.goto(`${this.address}/#${path}`);
    await this.waitUntilLive();
  }

  /** Waits until the page receives the stream. */
  waitUntilLive() {
    return this.page.waitForSelector('body[data-stream="live"]');
  }

  /** Waits until an element with this text is visible, and returns the element. */
  async waitForText(selector, text) {
    const element = this.page.locator(selector).filter({ hasText: text }).first();
    await element.waitFor();
    return element;
  }

  /** Waits until no element with this text exists. */
  waitUntilGone(selector, text) {
    return this.page.locator(selector).filter({ hasText: text }).first().waitFor({ state: 'detached' });
  }

  /** Waits until the page receives the stream and shows no warning. */
  async waitUntilNoWarning() {
    await this.waitUntilLive();
    await this.page.locator('#banner').waitFor({ state: 'hidden' });
  }

  /** Calls `read` until `isExpected` accepts its result, and returns the result. `goal` is for the error message. */
  async waitUntil(goal, read, isExpected) {
    const end = Date.now() + WAIT_MAX_MS;
    for (;;) {
      const result = await read();
      if (isExpected(result)) return result;
      assert.ok(Date.now() < end, `timed out before: ${goal}; last result: ${JSON.stringify(result)}`);
      await new Promise((done) => setTimeout(done, 100));
    }
  }

  /** Checks that axe finds no serious problem on the page. `state` describes what the page shows. */
  async checkAccessibility(state) {
    // The content security policy would block a script element, so axe is evaluated directly.
    await this.page.evaluate(await readFile(axe, 'utf8'));
    const { violations } = await this.page.evaluate(() => globalThis.axe.run());
    const seriousViolations = violations.filter(({ impact }) => ['serious', 'critical'].includes(impact));
    const problems = seriousViolations.map(({ id, nodes }) => [id, ...nodes.map((node) => node.html.slice(0, 160))]);
    assert.deepEqual(problems, [], state);
  }

  /** Ends the visit, and checks the console and the requests. `expected` matches errors that the claim itself has caused. */
  async end(expected = /^$/) {
    await this.browser.close();
    const consoleErrors = this.consoleErrors.filter((error) => !expected.test(error) && !STATUS_503.test(error));
    assert.deepEqual(consoleErrors, [], 'the page logged errors');
    const foreignUrls = this.requestedUrls.filter((url) => !url.startsWith(`${this.address}/`) && !url.startsWith('data:'));
    assert.deepEqual(foreignUrls, [], 'the page sent requests to other hosts');
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

  /** Sends a POST request, and repeats it while the nodes are too slow or too few. */
  async postUntilDecided(path, body, signal) {
    for (;;) {
      const answer = await this.post(path, body, signal);
      if (answer.status !== 503) return answer;
    }
  }

  /** Reads a lock until the answer shows this lease. The service may answer from a copy that is a second old, or refuse the read. */
  async readLock({ name, fence }) {
    for (;;) {
      const response = await fetch(`${this.address}/v1/locks/${encodeURIComponent(name)}`);
      const answer = await response.json();
      if (response.ok && answer.fence === fence) return answer;
      assert.ok([200, 429, 503].includes(response.status), JSON.stringify(answer));
      await new Promise((done) => setTimeout(done, 100));
    }
  }

  async lock(body, signal) {
    const lease = await this.postUntilDecided('/v1/leases', body, signal);
    assert.equal(lease.status, 201, JSON.stringify(lease));
    return lease;
  }

  renew({ name, lease_id }) {
    return this.postUntilDecided('/v1/leases/renew', { name, lease_id });
  }

  async release({ name, lease_id }) {
    const answer = await this.postUntilDecided('/v1/leases/release', { name, lease_id });
    assert.equal(answer.status, 204, JSON.stringify(answer));
  }
}
