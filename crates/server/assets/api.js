// Requests to the service, and why they fail.

import { headers } from './bearer.js';

/** An error from the service: `code` and `message` come from its problem+json. */
export class Problem extends Error {
  constructor(status, code, detail) {
    super(detail);
    this.status = status;
    this.code = code;
  }

  static async of(response) {
    const said = await response.json().catch(() => ({}));
    return new Problem(
      response.status,
      said.code ?? 'unknown',
      said.detail ?? `the service answered ${response.status}`,
    );
  }
}

async function ask(path, options = {}) {
  const response = await fetch(path, { ...options, headers: headers(options.headers), cache: 'no-store' });
  if (!response.ok) throw await Problem.of(response);
  return response.json();
}

/** The history of a lock, newest first. */
export async function historyOf(name, limit) {
  return (await ask(`/v1/history?name=${encodeURIComponent(name)}&limit=${limit}`)).events;
}

/** Breaks a lock. */
export function breakLock(lock, mode, reason) {
  // JavaScript rounds numbers above 2^53, and a rounded fence would name another lease.
  if (lock.fence != null && !Number.isSafeInteger(lock.fence)) {
    return Promise.reject(new Problem(0, 'fence', 'this fence is too large for a browser: use quorlock break'));
  }
  const which = lock.fence == null ? { digest: lock.digest } : { fence: lock.fence };
  return ask(`/v1/locks/${encodeURIComponent(lock.name)}/break`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...which, mode, reason }),
  });
}
