// Formats numbers, times and holders.

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const NOTHING = '–';

const twoDigits = (number) => String(Math.floor(number)).padStart(2, '0');

/** Formats a duration: `8 s`, `3 m 05 s`, `2 h 10 m`, `4 d 03 h`. */
export function formatDuration(ms) {
  if (ms == null) return NOTHING;
  const time = Math.max(0, ms);
  if (time < MINUTE) return `${Math.floor(time / SECOND)} s`;
  if (time < HOUR) return `${Math.floor(time / MINUTE)} m ${twoDigits((time % MINUTE) / SECOND)} s`;
  if (time < DAY) return `${Math.floor(time / HOUR)} h ${twoDigits((time % HOUR) / MINUTE)} m`;
  return `${Math.floor(time / DAY)} d ${twoDigits((time % DAY) / HOUR)} h`;
}

/** Formats a duration like `formatDuration`, but with tenths below ten seconds: `0.4 s`, `8.2 s`. */
export function formatShortDuration(ms) {
  if (ms == null) return NOTHING;
  return ms < 10 * SECOND ? `${(Math.max(0, ms) / SECOND).toFixed(1)} s` : formatDuration(ms);
}

/** Formats microseconds: `340 µs`, `1.9 ms`, `12 ms`, `1.2 s`. */
export function formatMicros(micros) {
  if (micros == null) return NOTHING;
  if (micros < 1_000) return `${Math.round(micros)} µs`;
  if (micros >= 1_000_000) return `${Number((micros / 1_000_000).toFixed(1))} s`;
  return micros < 10_000 ? `${Number((micros / 1_000).toFixed(1))} ms` : `${Math.round(micros / 1_000)} ms`;
}

/** Formats a difference of clocks: `+12 ms`, `−1.5 s`. */
export function formatSkew(ms) {
  if (ms == null) return NOTHING;
  const sign = ms === 0 ? '' : ms < 0 ? '−' : '+';
  const size = Math.abs(ms);
  return size < SECOND ? `${sign}${size} ms` : `${sign}${(size / SECOND).toFixed(1)} s`;
}

const grouped = new Intl.NumberFormat('en', { useGrouping: true });

/** Formats a number: `10,000`. */
export const formatCount = (number) => grouped.format(number);

/** Formats a number with a noun: `1 lock`, `2 locks`. */
export const formatQuantity = (number, one, many = `${one}s`) => `${formatCount(number)} ${number === 1 ? one : many}`;

/** Returns an error message without the details of each node. */
export const withoutDetails = (trouble) => trouble.split(';', 1)[0];

/** Returns the label of the holder, or the host and process if there is no label. */
export function holderName(holder) {
  if (!holder) return '';
  return holder.label || hostAndProcess(holder);
}

/** Returns the host and process of the holder, unless `holderName` returns them. */
export const holderProcess = (holder) => (holder?.label ? hostAndProcess(holder) : '');

/** Returns `host:pid`, or only the host if another program holds the lock, because its process is unknown. */
const hostAndProcess = ({ host, pid }) => (pid ? `${host}:${pid}` : host);

/** Returns whether a lock in this mode can have several holders. */
export const hasSeveralHolders = ({ mode }) => mode === 'shared' || mode === 'slots';

/** Returns the mode of a lock as text, with the number of its holders. */
export function formatMode(lock) {
  if (!lock.mode) return '';
  if (lock.mode === 'slots') return `${lock.holds} of ${lock.slots} slots`;
  return lock.mode === 'shared' ? formatQuantity(lock.holds, 'reader') : lock.mode;
}

const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const date = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' });

/** Formats a time: the time of day, after the date unless it is today. */
export function formatTime(unixMs) {
  const at = new Date(unixMs);
  const today = at.toDateString() === new Date().toDateString();
  return today ? clock.format(at) : `${date.format(at)} ${clock.format(at)}`;
}
