// The views of nodes, and streams that break or stall.

import assert from 'node:assert/strict';

import { Door } from '../door.mjs';
import { Tale } from '../tale.mjs';
import { address, caller, others } from '../told.mjs';
import { LONG_MS, Visit } from '../visit.mjs';

export const news = {
  async a_node_in_quarantine_is_visible() {
    const visit = await Visit.begin(address);
    await visit.open('/nodes');
    await visit.sees('#quorum', '3 of 3 vote, can lose 1 more');
    await others('restart a node');
    const node = await visit.sees('.node[data-kind=wait]', 'quarantined');
    await visit.sees('.node[data-kind=wait] .countdown', /can vote in \d+ (s|m|h)/);
    await visit.until(
      'it counts',
      () => node.locator('.numbers').textContent(),
      (text) => /Restarts[1-9]\d*$/.test(text),
    );
    await visit.sees('#quorum', '2 of 3 vote, can lose 0 more');
    await visit.sees('.headline[data-level=low]', 'can lose 0 more');
    await visit.sees('.node[data-kind=vote] .numbers', /p50\d[\d.]* (µs|m?s)p99\d[\d.]* (µs|m?s)/);
    await visit.checked('a node in quarantine');
    await visit.page.keyboard.press('5');
    await visit.sees('.history .space .row', 'restarted');
    await visit.checked('a restart');
    await visit.page.reload();
    await visit.sees('.history .space .row', 'restarted');
    await visit.end();
  },

  async a_release_is_shown_before_the_next_grant() {
    const at_ms = Date.now();
    const event = (after, what, fence, more) => {
      const by = { host: 'h', pid: 1, label: `${what} ${fence}` };
      return { at_ms: at_ms + after, name: 'a', what, fence, by, mode: 'exclusive', reason: '', ...more };
    };
    const tale = new Tale([]);
    const door = await Door.open(address);
    door.stream = tale.answer;
    const visit = await Visit.begin(door.address);
    await visit.open('/history');
    await visit.calm();
    // The holders' clocks differ: events in the order of their times, and in the opposite order.
    tale.happen(event(0, 'granted', 1));
    tale.happen(event(12, 'released', 1));
    tale.happen(event(11, 'granted', 2));
    tale.happen(event(20, 'granted', 3));
    tale.happen(event(22, 'released', 2));
    // Events of other locks, and late events, keep their places.
    tale.happen(event(30, 'released', 1, { name: 'b' }));
    tale.happen(event(500, 'lost', 2));
    const row = visit.page.locator('.space .row:not([hidden])');
    await visit.until(
      'all are there',
      () => row.count(),
      (count) => count === 7,
    );
    const told = (await row.allTextContents()).map((text) => /(granted|released|lost) \d/.exec(text)[0]);
    const order = ['lost 2', 'released 1', 'granted 3', 'released 2', 'granted 2', 'released 1', 'granted 1'];
    assert.deepEqual(told, order);
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
    const door = await Door.open(address);
    const tell = (history, more) => (response) => {
      const say = (what, data) => response.write(`event: ${what}\ndata: ${JSON.stringify(data)}\n\n`);
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      say('snapshot', { at_ms, nodes, locks: [], history, outages: [] });
      for (const [what, data] of more) say(what, data);
    };
    door.stream = tell(
      [event(at_ms - 9_000, 'first')],
      [
        ['gap', { at_ms: at_ms - 5_000 }],
        ['history', event(at_ms - 5_000, 'second')],
      ],
    );
    const visit = await Visit.begin(door.address);
    await visit.open('/history?only=grants');
    const rows = () => visit.page.locator('.history .space .row:not([hidden]) .name').allTextContents();
    await visit.until('the gap is between them', rows, (names) => names.join() === 'second,,first');
    await visit.sees('.history .space .row', 'some of it is missing here');
    await visit.checked('a gap');
    // A new stream does not repeat known events.
    door.stream = tell([event(at_ms - 1_000, 'third')], []);
    door.shut();
    door.reopen();
    await visit.until('there is another gap', rows, (names) => names.join() === 'third,,second,,first');
    await visit.end(/Failed to load resource/);
    door.close();
  },

  async a_cut_stream_is_shown_and_resumes() {
    const door = await Door.open(address);
    const visit = await Visit.begin(door.address);
    await visit.open();
    await visit.sees('.empty', 'No locks');
    door.shut();
    await visit.sees('#banner', /Disconnected: .* The data is (\d+ m )?\d+ s old/);
    await visit.sees('#live', /cut (\d+ m )?\d+ s/);
    await visit.until(
      'what is not current does not look current',
      () => visit.page.locator('main').evaluate((main) => getComputedStyle(main).filter),
      (filter) => /grayscale/.test(filter),
    );
    const lease = await caller.lock({ name: 'meanwhile', ttl_ms: LONG_MS });
    door.reopen();
    await visit.calm();
    await visit.sees('.locks .space .row', 'meanwhile');
    assert.match(door.resumed.at(-1), /^[0-9a-f]{16}-\d+$/, 'it goes on behind what it has read');
    await caller.release(lease);
    await visit.end(/Failed to load resource/);
    door.close();
  },

  async a_stalled_stream_is_shown() {
    const door = await Door.open(address);
    const visit = await Visit.begin(door.address);
    await visit.open();
    door.hold(true);
    await visit.sees('#banner', /The stream has stalled: .* The data is (\d+ m )?\d+ s old/);
    door.hold(false);
    await visit.live();
    await visit.end();
    door.close();
  },

  async without_a_majority_the_age_of_the_locks_is_shown() {
    const visit = await Visit.begin(address);
    await visit.open();
    await caller.lock({ name: 'known before', ttl_ms: LONG_MS });
    await visit.sees('.locks .space .row', 'known before');
    await others('take the majority away');
    // A message that all nodes share is shown once.
    const told = /^Cannot read the locks: 1 of 3 vote, (2 are \w+|1 is \w+, 1 is \w+)\. The locks below were read (\d+ m )?\d+ s ago\.$/;
    await visit.sees('#banner span', told);
    await visit.sees('#quorum', '1 of 3 vote: no majority');
    assert.equal(await visit.page.locator('.locks .space .row:not([hidden])').count(), 1, 'what was known stands');
    const filter = () => visit.page.locator('main').evaluate((main) => getComputedStyle(main).filter);
    assert.match(await filter(), /grayscale/);
    await visit.page.keyboard.press('3');
    await visit.sees('.headline', 'No majority');
    assert.equal(await filter(), 'none', 'the nodes are as they are');
    await others('give it back');
    await visit.calm();
    await visit.end();
  },

  async unread_locks_are_not_shown_as_free() {
    const visit = await Visit.begin(address);
    const { page } = visit;
    await page.goto(address);
    const told = /^Cannot read the locks: 0 of 3 vote, 3 are in quarantine\. 3 of 3 nodes are new, or lost their memory/;
    await visit.sees('#banner span', told);
    await visit.sees('#banner span', /can vote in \d+ [hms].*\. If no lock is in use, run: quorlock nodes init --yes$/);
    // The banner appears at once, and the view follows.
    await page.locator('.empty').waitFor({ state: 'detached' });
    assert.equal(await page.locator('.summary').textContent(), '');
    await visit.checked('new nodes');
    await page.goto(`${address}/#/lock/unknown`);
    await visit.sees('.lock-state', 'unknown');
    await visit.sees('.who-has-it', 'Unknown.');
    await page.keyboard.press('3');
    await visit.sees('.node[data-kind=wait]', 'is new or lost its memory');
    await others('declare them');
    await page.keyboard.press('1');
    await visit.calm();
    await visit.sees('.empty', 'No locks');
    await visit.sees('.summary', '0 locks');
    await visit.end();
  },
};
