// The bearer token, kept until the tab is closed.

const KEY = 'quorlock.bearer';

export const bearer = () => sessionStorage.getItem(KEY);

export const keep = (text) => sessionStorage.setItem(KEY, text);

export const forget = () => sessionStorage.removeItem(KEY);

/** The headers of a request, with the bearer token if there is one. */
export function headers(more = {}) {
  const known = bearer();
  return known ? { ...more, authorization: `Bearer ${known}` } : more;
}
