// The nodes view: which nodes vote, their round-trip times, and why others do not vote.

import { h, mark, shape, write } from '../dom.js';
import { empty, nodeKind } from '../draw.js';
import { count, counted, lasting, skew, trip } from '../format.js';

export function nodes({ store }) {
  const headline = h('p', { class: 'headline' });
  const words = h('p', { class: 'dim' });
  const dots = h('div', { class: 'dots large', 'aria-hidden': 'true' });
  const list = h('div', { class: 'nodes' });
  const element = h(
    'section',
    { class: 'view scrolls', 'aria-label': 'Nodes', tabindex: 0 },
    h('h1', { class: 'unseen' }, 'Nodes'),
    h('header', { class: 'nodes-head' }, dots, h('div', {}, headline, words)),
    list,
  );
  let Chart = null;
  let panels = new Map();
  let gone = false;

  // Loaded on first use, because no other view has charts.
  import('../chart.js').then((module) => {
    ({ Chart } = module);
    if (!gone) paint();
  });
  const looks = ['(prefers-color-scheme: dark)'].map((query) => matchMedia(query));
  looks.forEach((look) => look.addEventListener('change', redraw));
  addEventListener('theme', redraw);

  /** Draws the charts anew, because their colours are fixed when they are drawn. */
  function redraw() {
    for (const panel of panels.values()) panel.destroy();
    panels = new Map();
    list.replaceChildren();
    paint();
  }

  function paint() {
    const { nodes, total, majority, voting, can_lose } = store.nodes;
    if (!store.isKnown) return list.replaceChildren(empty('Reading the nodes'));
    write(
      headline,
      voting < majority
        ? 'No majority: no lock can be acquired'
        : total === 1
          ? 'One node, and it votes'
          : `${voting} of ${total} vote: can lose ${can_lose} more`,
    );
    write(
      words,
      total === 1 ? 'No other node can replace it.' : `A lock needs ${majority} of ${counted(total, 'node')}.`,
    );
    mark(headline, 'data-level', voting < majority ? 'bad' : can_lose === 0 && total > 2 ? 'low' : null);
    const kinds = nodes.map((node) => nodeKind(node.state));
    if (dots.key !== kinds.join()) dots.replaceChildren(...kinds.map(shape));
    dots.key = kinds.join();
    if (panels.size !== nodes.length || nodes.some(({ node }) => !panels.has(node))) {
      for (const panel of panels.values()) panel.destroy();
      panels = new Map(nodes.map((node) => [node.node, new Panel(node)]));
      list.replaceChildren(...[...panels.values()].map((panel) => panel.element));
    }
    for (const node of nodes) panels.get(node.node).paint(node, store, Chart);
  }

  function destroy() {
    gone = true;
    looks.forEach((look) => look.removeEventListener('change', redraw));
    removeEventListener('theme', redraw);
    for (const panel of panels.values()) panel.destroy();
  }

  return { element, title: 'Nodes', paint, key: () => false, destroy };
}

class Panel {
  #shape = shape('');
  #state = h('span', { class: 'node-state' });
  #trouble = h('p', { class: 'node-trouble' });
  #countdown = h('div', { class: 'countdown' });
  #numbers = ['p50', 'p99', 'Clock', 'Restarts'].map((label) => [h('dt', {}, label), h('dd')]);
  #drawing = h('div', { class: 'chart' });
  #none = h('p', { class: 'dim none' }, 'No round trips yet.');
  #chart = null;
  #full = 0;

  constructor({ node }) {
    const fill = h('span', { class: 'fill' });
    this.#countdown.append(h('span', { class: 'bar', 'aria-hidden': 'true' }, fill), h('span', { class: 'words' }));
    const head = h('header', {}, this.#shape, h('h2', { class: 'mono' }, node), this.#state);
    const numbers = h('dl', { class: 'numbers' }, ...this.#numbers.map((pair) => h('div', {}, ...pair)));
    this.element = h(
      'section',
      { class: 'panel node', 'aria-label': node },
      head,
      this.#trouble,
      this.#countdown,
      numbers,
      this.#drawing,
      this.#none,
    );
  }

  paint(node, store, Chart) {
    const kind = nodeKind(node.state);
    mark(this.#shape, 'data-kind', kind);
    mark(this.element, 'data-kind', kind);
    const silent = node.silent_ms == null ? '' : ` for ${lasting(node.silent_ms + performance.now() - node.heard)}`;
    write(this.#state, node.state + silent);
    // The countdown shows the remaining time; the text from the service would stand still.
    const trouble =
      node.state === 'quarantined'
        ? `This node ${node.restarts > 0 ? 'lost its memory' : 'is new or lost its memory'}. It votes again when every lease that it may have forgotten has ended.`
        : node.trouble;
    write(this.#trouble, trouble ?? '');
    this.#trouble.hidden = !trouble;
    this.#count(node);
    const skewed = node.skew_ms == null ? null : skew(node.skew_ms);
    const values = [
      trip(node.p50_us),
      trip(node.p99_us),
      skewed ?? '–',
      node.restarts == null ? '–' : count(node.restarts),
    ];
    this.#numbers.forEach(([, dd], at) => write(dd, values[at]));
    mark(this.#numbers[3][1], 'data-some', node.restarts > 0);
    this.#draw(node, store, Chart);
  }

  #count(node) {
    this.#countdown.hidden = node.quarantine_ms == null;
    if (node.quarantine_ms == null) {
      this.#full = 0;
      return;
    }
    const left = Math.max(0, node.quarantine_ms - (performance.now() - node.heard));
    this.#full = Math.max(this.#full, left);
    const [bar, words] = this.#countdown.children;
    bar.firstChild.style.transform = `scaleX(${(left / this.#full).toFixed(3)})`;
    write(words, left === 0 ? 'can vote any moment' : `can vote in ${lasting(left)}`);
  }

  #draw(node, store, Chart) {
    const lines = store.samples.get(node.node);
    const any = (lines?.p50.filter((value) => value != null).length ?? 0) > 1;
    this.#none.hidden = any;
    this.#drawing.hidden = !any;
    if (!any || !Chart) return;
    this.#chart ??= new Chart(this.#drawing);
    this.#chart.show(store.sampled, lines);
  }

  destroy() {
    this.#chart?.destroy();
  }
}
