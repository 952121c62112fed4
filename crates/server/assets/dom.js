// Creates elements without markup, so that data from outside is never parsed as HTML.

/** Creates an element: `h('button', { class: 'quiet', onclick }, 'Break')`. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Creates an SVG element. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null && child !== false));
  return element;
}

/** Sets the text of an element. Does nothing if the text is the same, which avoids a layout. */
export function setText(element, text) {
  if (element.shown !== text) {
    element.shown = text;
    element.textContent = text;
  }
}

/** Sets an attribute, or removes it if the value is null, undefined or false. Does nothing if the value is the same. */
export function setAttribute(element, name, value) {
  if (value == null || value === false) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else if (element.getAttribute(name) !== String(value)) {
    element.setAttribute(name, value);
  }
}

/** Creates a shape of a kind, for example `vote`. Each kind has its own form and colour: see `.shape` in style.css. */
export function shape(kind) {
  return h('span', { class: 'shape', 'data-kind': kind, 'aria-hidden': 'true' });
}
