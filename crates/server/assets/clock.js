// An estimate of the service's clock.

/** The estimated difference between Unix time by the service's clock and `performance.now()`, in milliseconds. */
let offsetMs = null;

/** Starts a new estimate with the time in the first event of a stream. */
export function restart(unixMs) {
  offsetMs = unixMs - performance.now();
}

/** Improves the estimate with the time in an event. A delay makes the service's clock seem slow, never fast, so the largest difference is the
 * best estimate. */
export function update(unixMs) {
  const difference = unixMs - performance.now();
  if (offsetMs == null || difference > offsetMs) offsetMs = difference;
}

/** Returns the time by the service's clock, in milliseconds of Unix time. */
export const now = () => (offsetMs == null ? Date.now() : offsetMs + performance.now());
