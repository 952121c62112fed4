// A fake stream of events about many locks, of which 1,000 are renewed every second.

const RENEWALS_PER_SECOND = 1_000;

/** Returns a handler that sends the stream, with `count` copies of this lock. */
export const streamManyLocks = (lock, count) => (response) => {
  let eventNumber = 0;
  const send = (event, data) =>
    response.write(`id: 00000000000000aa-${(eventNumber += 1)}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  const copyOfLock = (index, renewals) => {
    const left_ms = 30_000 + (index % 29_000);
    return { ...lock, name: `many/${String(index).padStart(5, '0')}`, left_ms, renewals, at_ms: Date.now() };
  };
  const nodes = lock.nodes.map(({ node }) => ({
    node,
    state: 'voting',
    trouble: null,
    quarantine_ms: null,
    restarts: 0,
  }));
  const locks = Array.from({ length: count }, (_, index) => copyOfLock(index, 0));
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  send('snapshot', {
    at_ms: Date.now(),
    nodes: { total: nodes.length, majority: 1, voting: nodes.length, can_lose: 0, nodes },
    locks,
    history: [],
  });
  let next = 0;
  const timer = setInterval(() => {
    for (let renewed = 0; renewed < RENEWALS_PER_SECOND; renewed += 1)
      send('lock', copyOfLock((next += 1) % count, Math.floor(next / count)));
    send('look', { at_ms: Date.now(), took_ms: 20, locks: count, is_truncated: false, trouble: null });
  }, 1_000);
  response.on('close', () => clearInterval(timer));
};
