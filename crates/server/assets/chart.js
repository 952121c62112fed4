// A plot of a node's round-trip times: p50 and p99.

import uPlot from './uplot/uplot.js';
import { trip } from './format.js';

const HEIGHT = 120;
/** The longest time span, and the span of an empty plot, in seconds. */
const SPAN_MAX_S = 600;
const SPAN_MIN_S = 120;
/** The axis shows seconds if the span is shorter than this. */
const SECONDS_BELOW_S = 300;
/** The largest width of a character on an axis. */
const LETTER_PX = 7;

/** The current value of a colour in the style sheet. */
function colour(name) {
  const probe = document.createElement('span');
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/** A logarithmic range, because p99 is often a hundred times p50. */
function decades(_, least, most) {
  const [low, high] = [Math.floor(Math.log10(least ?? 0.1)), Math.ceil(Math.log10(most ?? 1))];
  return [10 ** low, 10 ** Math.max(high, low + 1)];
}

const splits = (_, __, low, high) => {
  const found = [];
  for (let at = Math.round(Math.log10(low)); at <= Math.round(Math.log10(high)); at += 1) found.push(10 ** at);
  return found;
};

/** The samples of the last ten minutes. */
function range(_, from, to) {
  const span = Math.min(SPAN_MAX_S, Math.max(SPAN_MIN_S, to - from));
  return [to - span, to];
}

function times(plot, seconds) {
  const { min, max } = plot.scales.x;
  const length = max - min < SECONDS_BELOW_S ? 8 : 5;
  // A label left of the plot would overlap the lowest label of the other axis.
  const isApart = (at) => plot.valToPos(at, 'x') > (length * LETTER_PX) / 2;
  return seconds.map((at) => (isApart(at) ? new Date(at * 1_000).toTimeString().slice(0, length) : ''));
}

export class Chart {
  #plot;
  #seen;

  constructor(element) {
    const font = '11px system-ui, sans-serif';
    const axis = {
      stroke: colour('--dim'),
      font,
      grid: { stroke: colour('--line'), width: 1 },
      ticks: { show: false },
    };
    const options = {
      width: Math.max(200, element.clientWidth),
      height: HEIGHT,
      legend: { show: false },
      cursor: { show: false },
      padding: [8, 26, 0, 0],
      scales: {
        x: { time: true, range },
        y: { distr: 3, range: decades },
      },
      axes: [
        {
          ...axis,
          space: 80,
          size: 24,
          values: times,
        },
        {
          ...axis,
          size: 52,
          splits,
          // There is room for every label.
          filter: (_, values) => values,
          values: (_, values) => values.map((value) => trip(value * 1_000)),
        },
      ],
      series: [
        {},
        { label: 'p99', stroke: colour('--dim'), width: 1, points: { show: false } },
        { label: 'p50', stroke: colour('--accent'), width: 1.75, points: { show: false } },
      ],
    };
    this.#plot = new uPlot(options, [[], [], []], element);
    this.#seen = new ResizeObserver(() =>
      this.#plot.setSize({ width: Math.max(200, element.clientWidth), height: HEIGHT }),
    );
    this.#seen.observe(element);
  }

  show(times, { p50, p99 }) {
    this.#plot.setData([times, p99, p50]);
  }

  destroy() {
    this.#seen.disconnect();
    this.#plot.destroy();
  }
}
