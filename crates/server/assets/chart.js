// A plot of a node's round-trip times: p50 and p99.

import uPlot from './uplot/uplot.js';
import { formatMicros } from './format.js';

const HEIGHT = 120;
/** The longest and the shortest time span of a plot, in seconds. */
const SPAN_MAX_S = 600;
const SPAN_MIN_S = 120;
/** The time axis shows seconds if the span is shorter than this. */
const SECONDS_BELOW_S = 300;
/** The largest width of a character on an axis. */
const CHARACTER_PX = 7;

/** Returns the current value of a colour of the style sheet. */
function colourOf(name) {
  const probe = document.createElement('span');
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

/** Returns the range of the logarithmic axis, in whole decades. The axis is logarithmic because p99 is often a hundred times p50. */
function decadeRange(_, min, max) {
  const [low, high] = [Math.floor(Math.log10(min ?? 0.1)), Math.ceil(Math.log10(max ?? 1))];
  return [10 ** low, 10 ** Math.max(high, low + 1)];
}

/** Returns the powers of ten in a range, at which the axis has labels. */
const powersOfTen = (_, __, low, high) => {
  const powers = [];
  for (let at = Math.round(Math.log10(low)); at <= Math.round(Math.log10(high)); at += 1) powers.push(10 ** at);
  return powers;
};

/** Returns the range of the time axis, which ends with the newest sample. */
function timeRange(_, start, end) {
  const span = Math.min(SPAN_MAX_S, Math.max(SPAN_MIN_S, end - start));
  return [end - span, end];
}

/** Returns the labels of the time axis. */
function timeLabels(plot, seconds) {
  const { min, max } = plot.scales.x;
  const length = max - min < SECONDS_BELOW_S ? 8 : 5;
  // A label at the left edge of the plot would overlap the lowest label of the other axis.
  const hasRoom = (at) => plot.valToPos(at, 'x') > (length * CHARACTER_PX) / 2;
  return seconds.map((at) => (hasRoom(at) ? new Date(at * 1_000).toTimeString().slice(0, length) : ''));
}

export class Chart {
  #plot;
  #resizeObserver;

  constructor(element) {
    const font = '11px system-ui, sans-serif';
    const axis = {
      stroke: colourOf('--dim'),
      font,
      grid: { stroke: colourOf('--line'), width: 1 },
      ticks: { show: false },
    };
    const options = {
      width: Math.max(200, element.clientWidth),
      height: HEIGHT,
      legend: { show: false },
      cursor: { show: false },
      padding: [8, 26, 0, 0],
      scales: {
        x: { time: true, range: timeRange },
        y: { distr: 3, range: decadeRange },
      },
      axes: [
        {
          ...axis,
          space: 80,
          size: 24,
          values: timeLabels,
        },
        {
          ...axis,
          size: 52,
          splits: powersOfTen,
          // Show every label: by default uPlot leaves out labels of a logarithmic axis.
          filter: (_, values) => values,
          values: (_, values) => values.map((value) => formatMicros(value * 1_000)),
        },
      ],
      series: [
        {},
        { label: 'p99', stroke: colourOf('--dim'), width: 1, points: { show: false } },
        { label: 'p50', stroke: colourOf('--accent'), width: 1.75, points: { show: false } },
      ],
    };
    this.#plot = new uPlot(options, [[], [], []], element);
    this.#resizeObserver = new ResizeObserver(() =>
      this.#plot.setSize({ width: Math.max(200, element.clientWidth), height: HEIGHT }),
    );
    this.#resizeObserver.observe(element);
  }

  show(times, { p50, p99 }) {
    this.#plot.setData([times, p99, p50]);
  }

  destroy() {
    this.#resizeObserver.disconnect();
    this.#plot.destroy();
  }
}
