// Requests to the service, and the errors that the service returns.

import { withBearerToken } from './bearer.js';

/** An error from the service: `code` and `message` come from its problem+json. */
export class Problem extends Error {
  constructor(status, code, detail) {
    super(detail);
    this.status = status;
    this.code = code;
  }

  static async fromResponse(response) {
    const body = await response.json().catch(() => ({}));
    return new Problem(
      response.status,
      body.code ?? 'unknown',
      body.detail ?? `the service answered with the status ${response.status}`,
    );
  }
}

async function request(path, options = {}) {
  const response = await fetch(path, { ...options, headers: withBearerToken(options.headers), cache: 'no-store' });
  if (!response.ok) throw await Problem.fromResponse(response);
  return response.json();
}

/** Reads the newest events of a lock, newest first. */
export async function readHistory(name, limit) {
  return (await request(`/v1/history?name=${encodeURIComponent(name)}&limit=${limit}`)).events;
}

/** Breaks the lease that this lock had when it was last read. */
export function breakLock(lock, mode, reason) {
  // JavaScript rounds numbers above 2^53, and a rounded fence would name another lease.
  if (lock.fence != null && !Number.isSafeInteger(lock.fence)) {
    return Promise.reject(new Problem(0, 'fence', 'the fence of the lock is too large for a browser: run quorlock break'));
  }
  const target = lock.fence == null ? { digest: lock.digest } : { fence: lock.fence };
  return request(`/v1/locks/${encodeURIComponent(lock.name)}/break`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...target, mode, reason }),
  });
}
