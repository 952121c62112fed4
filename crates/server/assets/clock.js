// An estimate of the service's clock.

let ahead = null;

/** Starts a new estimate from the first event of a stream. */
export function set(unixMs) {
  ahead = unixMs - performance.now();
}

/** Improves the estimate. Delays make the service's clock seem slow, never fast, so the largest difference is the best. */
export function hear(unixMs) {
  const difference = unixMs - performance.now();
  if (ahead == null || difference > ahead) ahead = difference;
}

/** Milliseconds of Unix time by the service's clock. */
export const now = () => (ahead == null ? Date.now() : ahead + performance.now());
