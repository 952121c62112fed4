// Where we are: the part of the address behind `#` holds the view.

/** `#/lock/invoices%2F42?filter=x` as `{ view, name, parameters, keep }`. */
export function place() {
  const [path, query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const [view = 'locks', name = ''] = path.split('/');
  return {
    view: view || 'locks',
    name: decoded(name),
    parameters: new URLSearchParams(query),
    keep: (next) => keep(path, next),
  };
}

/** Puts this in place of an address that leads nowhere, without a step to go back to. */
export const instead = (path) => keep(path, new URLSearchParams());

/** Remembers how the view is set, without a step to go back to. */
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
