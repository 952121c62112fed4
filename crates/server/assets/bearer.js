// Stores the bearer token until the tab is closed.

const KEY = 'quorlock.bearer';

export const bearerToken = () => sessionStorage.getItem(KEY);

export const storeBearerToken = (token) => sessionStorage.setItem(KEY, token);

export const deleteBearerToken = () => sessionStorage.removeItem(KEY);

/** Returns the headers of a request, with the bearer token if there is one. */
export function withBearerToken(headers = {}) {
  const token = bearerToken();
  return token ? { ...headers, authorization: `Bearer ${token}` } : headers;
}
