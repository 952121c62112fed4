// A stream of events about ten thousand locks that are renewed all the time.

const RENEWED_EACH_SECOND = 1_000;

/** Returns a handler that sends the stream, with copies of this lock. */
export const crowd = (lock, size) => (response) => {
  let number = 0;
  const say = (event, data) =>
    response.write(`id: 00000000000000aa-${(number += 1)}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  const one = (at, renewals) => {
    const left_ms = 30_000 + (at % 29_000);
    return { ...lock, name: `crowd/${String(at).padStart(5, '0')}`, left_ms, renewals, at_ms: Date.now() };
  };
  const nodes = lock.nodes.map(({ node }) => ({
    node,
    state: 'voting',
    trouble: null,
    quarantine_ms: null,
    restarts: 0,
  }));
  const locks = Array.from({ length: size }, (_, at) => one(at, 0));
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  say('snapshot', {
    at_ms: Date.now(),
    nodes: { total: nodes.length, majority: 1, voting: nodes.length, can_lose: 0, nodes },
    locks,
    history: [],
  });
  let next = 0;
  const turn = setInterval(() => {
    for (let renewed = 0; renewed < RENEWED_EACH_SECOND; renewed += 1)
      say('lock', one((next += 1) % size, Math.floor(next / size)));
    say('look', { at_ms: Date.now(), took_ms: 20, locks: size, is_cut: false, trouble: null });
  }, 1_000);
  response.on('close', () => clearInterval(turn));
};
