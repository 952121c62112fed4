// The current view, which is part of the address (the fragment after `#`).

/** Parses an address such as `#/lock/invoices%2F42?filter=x`. `storeParameters` replaces the parameters of the view in the address. */
export function currentRoute() {
  const [path, query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const [view = 'locks', name = ''] = path.split('/');
  return {
    view: view || 'locks',
    name: decodeOrKeep(name),
    parameters: new URLSearchParams(query),
    storeParameters: (parameters) => replaceAddress(path, parameters),
  };
}

/** Replaces the address, without a new entry in the browser's history. */
export const replaceRoute = (path) => replaceAddress(path, new URLSearchParams());

function replaceAddress(path, parameters) {
  const query = parameters.toString();
  history.replaceState(null, '', `#/${path || 'locks'}${query && `?${query}`}`);
}

/** Opens a view. */
export const go = (path) => {
  location.hash = path;
};

/** Decodes a part of the address. Returns the part unchanged if it is malformed. */
function decodeOrKeep(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
