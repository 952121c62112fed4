// Formats numbers, times and holders.

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const NOTHING = '–';

const two = (number) => String(Math.floor(number)).padStart(2, '0');

/** `8 s`, `3 m 05 s`, `2 h 10 m`, `4 d 03 h`. */
export function lasting(ms) {
  if (ms == null) return NOTHING;
  const time = Math.max(0, ms);
  if (time < MINUTE) return `${Math.floor(time / SECOND)} s`;
  if (time < HOUR) return `${Math.floor(time / MINUTE)} m ${two((time % MINUTE) / SECOND)} s`;
  if (time < DAY) return `${Math.floor(time / HOUR)} h ${two((time % HOUR) / MINUTE)} m`;
  return `${Math.floor(time / DAY)} d ${two((time % DAY) / HOUR)} h`;
}

/** Like `lasting`, with tenths below ten seconds: `0.4 s`, `8.2 s`. */
export function precisely(ms) {
  if (ms == null) return NOTHING;
  return ms < 10 * SECOND ? `${(Math.max(0, ms) / SECOND).toFixed(1)} s` : lasting(ms);
}

/** `340 µs`, `1.9 ms`, `12 ms`, `1.2 s`. */
export function trip(micros) {
  if (micros == null) return NOTHING;
  if (micros < 1_000) return `${Math.round(micros)} µs`;
  if (micros >= 1_000_000) return `${Number((micros / 1_000_000).toFixed(1))} s`;
  return micros < 10_000 ? `${Number((micros / 1_000).toFixed(1))} ms` : `${Math.round(micros / 1_000)} ms`;
}

/** `+12 ms`, `−1.5 s`. */
export function skew(ms) {
  if (ms == null) return NOTHING;
  const sign = ms === 0 ? '' : ms < 0 ? '−' : '+';
  const size = Math.abs(ms);
  return size < SECOND ? `${sign}${size} ms` : `${sign}${(size / SECOND).toFixed(1)} s`;
}

const grouped = new Intl.NumberFormat('en', { useGrouping: true });

/** `10,000`. */
export const count = (number) => grouped.format(number);

/** `1 lock`, `2 locks`. */
export const counted = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

/** An error message without the details of each node. */
export const briefly = (trouble) => trouble.split(';', 1)[0];

/** The holder: its label if it has one, else its host and process. */
export function who(holder) {
  if (!holder) return '';
  return holder.label || place(holder);
}

/** The host and process, unless `who` shows them. */
export const where = (holder) => (holder?.label ? place(holder) : '');

/** `host:pid`, or the host alone for another program, whose process is unknown. */
const place = ({ host, pid }) => (pid ? `${host}:${pid}` : host);

/** Whether the lock can have several holders. */
export const isTogether = ({ mode }) => mode === 'shared' || mode === 'slots';

/** The mode of a lock. */
export function mode(lock) {
  if (!lock.mode) return '';
  if (lock.mode === 'slots') return `${lock.holds} of ${lock.slots} slots`;
  return lock.mode === 'shared' ? counted(lock.holds, 'reader') : lock.mode;
}

const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const date = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' });

/** The time of day, with the date if it is not today's. */
export function moment(unixMs) {
  const at = new Date(unixMs);
  const today = at.toDateString() === new Date().toDateString();
  return today ? clock.format(at) : `${date.format(at)} ${clock.format(at)}`;
}
