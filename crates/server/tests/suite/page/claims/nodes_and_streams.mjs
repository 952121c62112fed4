// Claims about the view of nodes, the history, and streams of events that end or stall.

import assert from 'node:assert/strict';

import { TestProxy } from '../test_proxy.mjs';
import { FakeStream } from '../fake_stream.mjs';
import { address, caller, runStep } from '../rust_test.mjs';
import { LONG_TTL_MS, Visit } from '../visit.mjs';

export const nodesAndStreams = {
  async a_node_in_quarantine_is_visible() {
    const visit = await Visit.begin(address);
    await visit.open('/nodes');
    await visit.waitForText('#quorum', '3 of 3 vote, can lose 1 more');
    await runStep('restart a node');
    const node = await visit.waitForText('.node[data-kind=wait]', 'quarantined');
    await visit.waitForText('.node[data-kind=wait] .countdown', /can vote in \d+ (s|m|h)/);
    await visit.waitUntil(
      'the page shows the number of restarts',
      () => node.locator('.numbers').textContent(),
      (text) => /Restarts[1-9]\d*$/.test(text),
    );
    await visit.waitForText('#quorum', '2 of 3 vote, can lose 0 more');
    await visit.waitForText('.headline[data-level=low]', 'can lose 0 more');
    await visit.waitForText('.node[data-kind=vote] .numbers', /p50\d[\d.]* (µs|m?s)p99\d[\d.]* (µs|m?s)/);
    await visit.checkAccessibility('the view of nodes with a quarantined node');
    await visit.page.keyboard.press('5');
    await visit.waitForText('.history .space .row', 'restarted');
    await visit.checkAccessibility('the history with a restart');
    await visit.page.reload();
    await visit.waitForText('.history .space .row', 'restarted');
    await visit.end();
  },

  async a_release_is_shown_before_the_next_grant() {
    const at_ms = Date.now();
    const event = (delay_ms, what, fence, more) => {
      const by = { host: 'h', pid: 1, label: `${what} ${fence}` };
      return { at_ms: at_ms + delay_ms, name: 'a', what, fence, by, mode: 'exclusive', reason: '', ...more };
    };
    const stream = new FakeStream([]);
    const proxy = await TestProxy.open(address);
    proxy.streamHandler = stream.handler;
    const visit = await Visit.begin(proxy.address);
    await visit.open('/history');
    await visit.waitUntilNoWarning();
    // The clocks of the holders differ, so a release may have a later time than the next grant.
    stream.sendHistory(event(0, 'granted', 1));
    stream.sendHistory(event(12, 'released', 1));
    stream.sendHistory(event(11, 'granted', 2));
    stream.sendHistory(event(20, 'granted', 3));
    stream.sendHistory(event(22, 'released', 2));
    // Events of other locks, and events with much later times, are sorted by time.
    stream.sendHistory(event(30, 'released', 1, { name: 'b' }));
    stream.sendHistory(event(500, 'lost', 2));
    const row = visit.page.locator('.space .row:not([hidden])');
    await visit.waitUntil(
      'all events are shown',
      () => row.count(),
      (count) => count === 7,
    );
    const shown = (await row.allTextContents()).map((text) => /(granted|released|lost) \d/.exec(text)[0]);
    const expected = ['lost 2', 'released 1', 'granted 3', 'released 2', 'granted 2', 'released 1', 'granted 1'];
    assert.deepEqual(shown, expected);
    await visit.end();
  },

  async gaps_in_the_history_are_shown() {
    const event = (at_ms, name) => ({
      at_ms,
      name,
      what: 'granted',
      fence: at_ms,
      by: null,
      mode: 'exclusive',
      reason: '',
    });
    const at_ms = Date.now();
    const nodes = { total: 1, majority: 1, voting: 1, can_lose: 0, nodes: [] };
    const proxy = await TestProxy.open(address);
    const streamOf = (history, more) => (response) => {
      const send = (what, data) => response.write(`event: ${what}\ndata: ${JSON.stringify(data)}\n\n`);
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      send('snapshot', { at_ms, nodes, locks: [], history, outages: [] });
      for (const [what, data] of more) send(what, data);
    };
    proxy.streamHandler = streamOf(
      [event(at_ms - 9_000, 'first')],
      [
        ['gap', { at_ms: at_ms - 5_000 }],
        ['history', event(at_ms - 5_000, 'second')],
      ],
    );
    const visit = await Visit.begin(proxy.address);
    await visit.open('/history?only=grants');
    const rows = () => visit.page.locator('.history .space .row:not([hidden]) .name').allTextContents();
    await visit.waitUntil('the gap is between the two events', rows, (names) => names.join() === 'second,,first');
    await visit.waitForText('.history .space .row', 'some events are missing here');
    await visit.checkAccessibility('the history with a gap');
    // The snapshot of a new stream contains none of the known events, so there is another gap.
    proxy.streamHandler = streamOf([event(at_ms - 1_000, 'third')], []);
    proxy.disconnect();
    proxy.reopen();
    await visit.waitUntil('the page shows another gap', rows, (names) => names.join() === 'third,,second,,first');
    await visit.end(/Failed to load resource/);
    proxy.close();
  },

  async a_lost_connection_is_shown_and_the_stream_resumes() {
    const proxy = await TestProxy.open(address);
    const visit = await Visit.begin(proxy.address);
    await visit.open();
    await visit.waitForText('.empty', 'No locks');
    proxy.disconnect();
    await visit.waitForText('#banner', /Disconnected: .* The data is (\d+ m )?\d+ s old/);
    await visit.waitForText('#live', /cut (\d+ m )?\d+ s/);
    await visit.waitUntil(
      'old data is greyed out',
      () => visit.page.locator('main').evaluate((main) => getComputedStyle(main).filter),
      (filter) => /grayscale/.test(filter),
    );
    const lease = await caller.lock({ name: 'meanwhile', ttl_ms: LONG_TTL_MS });
    proxy.reopen();
    await visit.waitUntilNoWarning();
    await visit.waitForText('.locks .space .row', 'meanwhile');
    assert.match(proxy.lastEventIds.at(-1), /^[0-9a-f]{16}-\d+$/, 'the new request must continue after the last event');
    await caller.release(lease);
    await visit.end(/Failed to load resource/);
    proxy.close();
  },

  async a_stalled_stream_is_shown() {
    const proxy = await TestProxy.open(address);
    const visit = await Visit.begin(proxy.address);
    await visit.open();
    proxy.dropReplies(true);
    await visit.waitForText('#banner', /The stream has stalled: .* The data is (\d+ m )?\d+ s old/);
    proxy.dropReplies(false);
    await visit.waitUntilLive();
    await visit.end();
    proxy.close();
  },

  async without_a_majority_the_age_of_the_locks_is_shown() {
    const visit = await Visit.begin(address);
    await visit.open();
    await caller.lock({ name: 'known before', ttl_ms: LONG_TTL_MS });
    await visit.waitForText('.locks .space .row', 'known before');
    await runStep('freeze two nodes');
    // Nodes in the same state are counted together.
    const message = /^Cannot read the locks: 1 of 3 vote, (2 are \w+|1 is \w+, 1 is \w+)\. The locks below were read (\d+ m )?\d+ s ago\.$/;
    await visit.waitForText('#banner span', message);
    await visit.waitForText('#quorum', '1 of 3 vote: no majority');
    assert.equal(await visit.page.locator('.locks .space .row:not([hidden])').count(), 1, 'the page must still show the locks of the last read');
    const filter = () => visit.page.locator('main').evaluate((main) => getComputedStyle(main).filter);
    assert.match(await filter(), /grayscale/);
    await visit.page.keyboard.press('3');
    await visit.waitForText('.headline', 'No majority');
    assert.equal(await filter(), 'none', 'the view of nodes must not be greyed out');
    await runStep('resume the nodes');
    await visit.waitUntilNoWarning();
    await visit.end();
  },

  async unread_locks_are_not_shown_as_free() {
    const visit = await Visit.begin(address);
    const { page } = visit;
    await page.goto(address);
    const message = /^Cannot read the locks: 0 of 3 vote, 3 are in quarantine\. 3 of 3 nodes are new, or lost their memory/;
    await visit.waitForText('#banner span', message);
    await visit.waitForText('#banner span', /can vote in \d+ [hms].*\. If no lock is in use, run: quorlock nodes init --yes$/);
    // The banner appears before the view changes.
    await page.locator('.empty').waitFor({ state: 'detached' });
    assert.equal(await page.locator('.summary').textContent(), '');
    await visit.checkAccessibility('the page with new nodes');
    await page.goto(`${address}/#/lock/unknown`);
    await visit.waitForText('.lock-state', 'unknown');
    await visit.waitForText('.holder-panel', 'Unknown.');
    await page.keyboard.press('3');
    await visit.waitForText('.node[data-kind=wait]', 'is new or lost its memory');
    await runStep('initialize the cluster');
    await page.keyboard.press('1');
    await visit.waitUntilNoWarning();
    await visit.waitForText('.empty', 'No locks');
    await visit.waitForText('.summary', '0 locks');
    await visit.end();
  },
};
