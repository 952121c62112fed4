// The view, which the fragment of the address holds.

/** `#/lock/invoices%2F42?filter=x` as `{ view, name, parameters, keep }`. */
export function currentRoute() {
  const [path, query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const [view = 'locks', name = ''] = path.split('/');
  return {
    view: view || 'locks',
    name: decoded(name),
    parameters: new URLSearchParams(query),
    keep: (next) => keep(path, next),
  };
}

/** Replaces an unknown address, without a new history entry. */
export const replaceRoute = (path) => keep(path, new URLSearchParams());

/** Stores the view's parameters in the address, without a new history entry. */
function keep(path, parameters) {
  const query = parameters.toString();
  history.replaceState(null, '', `#/${path || 'locks'}${query && `?${query}`}`);
}

export const go = (path) => {
  location.hash = path;
};

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
