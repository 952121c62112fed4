// The view of nodes: which nodes vote, why the other nodes do not vote, and the round-trip times of all nodes.

import { h, setAttribute, shape, setText } from '../dom.js';
import { emptyView, shapeOfNode } from '../draw.js';
import { formatCount, formatQuantity, formatDuration, formatSkew, formatMicros } from '../format.js';

export function nodes({ store }) {
  const headline = h('p', { class: 'headline' });
  const words = h('p', { class: 'dim' });
  const dots = h('div', { class: 'dots large', 'aria-hidden': 'true' });
  const list = h('div', { class: 'nodes' });
  const element = h(
    'section',
    { class: 'view scrolls', 'aria-label': 'Nodes', tabindex: 0 },
    h('h1', { class: 'visually-hidden' }, 'Nodes'),
    h('header', { class: 'nodes-head' }, dots, h('div', {}, headline, words)),
    list,
  );
  let Chart = null;
  let panels = new Map();
  let isDestroyed = false;

  // Loaded on first use, because no other view has charts.
  import('../chart.js').then((module) => {
    ({ Chart } = module);
    if (!isDestroyed) paint();
  });
  const darkColours = matchMedia('(prefers-color-scheme: dark)');
  darkColours.addEventListener('change', redraw);
  addEventListener('theme', redraw);

  /** Creates the charts again after a change of the colours, because a chart keeps its colours. */
  function redraw() {
    for (const panel of panels.values()) panel.destroy();
    panels = new Map();
    list.replaceChildren();
    paint();
  }

  function paint() {
    const { nodes, total, majority, voting, can_lose } = store.nodes;
    if (!store.hasSnapshot) return list.replaceChildren(emptyView('Reading the nodes'));
    setText(
      headline,
      voting < majority
        ? 'No majority: no lock can be acquired'
        : total === 1
          ? 'One node, and it votes'
          : `${voting} of ${total} vote: can lose ${can_lose} more`,
    );
    setText(
      words,
      total === 1 ? 'No other node can replace it.' : `A lock needs ${majority} of ${formatQuantity(total, 'node')}.`,
    );
    setAttribute(headline, 'data-level', voting < majority ? 'bad' : can_lose === 0 && total > 2 ? 'low' : null);
    const kinds = nodes.map((node) => shapeOfNode(node.state));
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
    isDestroyed = true;
    darkColours.removeEventListener('change', redraw);
    removeEventListener('theme', redraw);
    for (const panel of panels.values()) panel.destroy();
  }

  return { element, title: 'Nodes', paint, handleKey: () => false, destroy };
}

/** The numbers of a node: each label, and what it means. */
const NUMBERS = [
  ['p50', 'Median of the latest round trips'],
  ['p99', '99th percentile of the latest round trips'],
  ['Clock', 'Difference between the clock of the node and the median of all clocks'],
  ['Restarts', 'How often the node has lost its memory since this replica first connected to it'],
];

class Panel {
  #shape = shape('');
  #state = h('span', { class: 'node-state' });
  #trouble = h('p', { class: 'node-trouble' });
  #countdown = h('div', { class: 'countdown' });
  #numbers = NUMBERS.map(([label, title]) => [h('dt', { title }, label), h('dd')]);
  #chartElement = h('div', { class: 'chart' });
  #noSamples = h('p', { class: 'dim none' }, 'No round trips yet.');
  #chart = null;
  /** The longest remaining time of the quarantine so far, at which the bar is full. */
  #fullMs = 0;

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
      this.#chartElement,
      this.#noSamples,
    );
  }

  paint(node, store, Chart) {
    const kind = shapeOfNode(node.state);
    setAttribute(this.#shape, 'data-kind', kind);
    setAttribute(this.element, 'data-kind', kind);
    const silent = node.silent_ms == null ? '' : ` for ${formatDuration(node.silent_ms + performance.now() - node.receivedAt)}`;
    setText(this.#state, node.state + silent);
    // For a quarantine, the text from the service has a remaining time that would not count down. The countdown below shows this time.
    const trouble =
      node.state === 'quarantined'
        ? `This node ${node.restarts > 0 ? 'lost its memory' : 'is new or lost its memory'}. It votes again when every lease that it may have forgotten has ended.`
        : node.trouble;
    setText(this.#trouble, trouble ?? '');
    this.#trouble.hidden = !trouble;
    this.#paintCountdown(node);
    const skewed = node.skew_ms == null ? null : formatSkew(node.skew_ms);
    const values = [
      formatMicros(node.p50_us),
      formatMicros(node.p99_us),
      skewed ?? '–',
      node.restarts == null ? '–' : formatCount(node.restarts),
    ];
    this.#numbers.forEach(([, dd], index) => setText(dd, values[index]));
    setAttribute(this.#numbers[3][1], 'data-some', node.restarts > 0);
    this.#paintChart(node, store, Chart);
  }

  #paintCountdown(node) {
    this.#countdown.hidden = node.quarantine_ms == null;
    if (node.quarantine_ms == null) {
      this.#fullMs = 0;
      return;
    }
    const left = Math.max(0, node.quarantine_ms - (performance.now() - node.receivedAt));
    this.#fullMs = Math.max(this.#fullMs, left);
    const [bar, words] = this.#countdown.children;
    bar.firstChild.style.transform = `scaleX(${(left / this.#fullMs).toFixed(3)})`;
    setText(words, left === 0 ? 'can vote at any moment' : `can vote in ${formatDuration(left)}`);
  }

  #paintChart(node, store, Chart) {
    const samples = store.samples.get(node.node);
    const hasLine = (samples?.p50.filter((value) => value != null).length ?? 0) > 1;
    this.#noSamples.hidden = hasLine;
    this.#chartElement.hidden = !hasLine;
    if (!hasLine || !Chart) return;
    this.#chart ??= new Chart(this.#chartElement);
    this.#chart.show(store.sampleTimes, samples);
  }

  destroy() {
    this.#chart?.destroy();
  }
}
