// The service's clock, as far as it can be told from here.

let ahead = null;

/** A stream that begins: what it says is as of now. */
export function set(unixMs) {
  ahead = unixMs - performance.now();
}

/** A later word. What comes late makes the clock seem slow, never fast: the largest difference is the best. */
export function hear(unixMs) {
  const difference = unixMs - performance.now();
  if (ahead == null || difference > ahead) ahead = difference;
}

/** Milliseconds of Unix time by the service's clock. */
export const now = () => (ahead == null ? Date.now() : ahead + performance.now());
