// Charts by uPlot in the page's own colours.

import uPlot from "./vendor/uplot/uPlot.esm.js";
import {element} from "./dom.js";

const HEIGHT = 190;

/** A colour of the style sheet. */
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function colourOf(series, index) {
  return colour(`--series${(series.colour ?? index) % 6}`);
}

function axis(extra = {}) {
  return {stroke: colour("--quiet"), grid: {stroke: colour("--line"), width: 1}, ticks: {stroke: colour("--line"), width: 1},
    font: "12px system-ui, sans-serif", ...extra};
}

/** 12000 -> "12k". */
function short(number) {
  if (number === null || Math.abs(number) < 10_000) return number === null ? "" : String(number);
  return Math.abs(number) < 1e6 ? `${number / 1e3}k` : `${number / 1e6}M`;
}

/**
 * A chart that fits its container.  `series`: [{name, dash, colour, values, low, high}] over the same `xs`; `pick(x)` is
 * called with the place of a click; `leastX` is shown at least.
 */
export class Chart {
  constructor({label, height = HEIGHT, range = null, pick = null, xTitle = "", leastX = 0}) {
    Object.assign(this, {label, height, range, pick, xTitle, leastX});
    this.node = element("figure", {class: "chart"});
    this.plot = null;
    this.observer = new ResizeObserver(() => this.#resize());
    this.observer.observe(this.node);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.last && this.draw(...this.last));
  }

  draw(xs, series, marker = null) {
    this.last = [xs, series, marker];
    this.marker = marker;
    const width = this.node.clientWidth || 300;
    const key = JSON.stringify([series.map((one) => [one.name, one.dash]), colour("--ink")]);
    const data = [xs, ...series.map((one) => one.values)];
    if (this.plot && this.key === key) {
      this.plot.setData(data);
      return;
    }
    this.key = key;
    this.plot?.destroy();
    this.node.replaceChildren();
    this.plot = new uPlot({
      width, height: this.height, legend: {show: series.length > 1, live: false, markers: {dash: (_, index) => series[index - 1]?.dash ? "dashed" : "solid"}}, cursor: {y: false, points: {show: false}},
      scales: {x: {time: false, range: (_, low, high) => [low ?? 0, Math.max(high ?? 0, this.leastX, (low ?? 0) + 1e-3)]}, y: this.range ? {range: this.range} : {}},
      axes: [axis(this.xTitle ? {label: this.xTitle, labelSize: 18, size: 34, labelFont: "12px system-ui, sans-serif", incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500]} : {size: 30}), axis({size: 52, values: (_, ticks) => ticks.map(short)})],
      series: [{}, ...series.map((one, index) => ({
        label: one.name, stroke: colourOf(one, index), width: 2, dash: one.dash ? [6, 4] : undefined,
        spanGaps: true, points: {show: xs.length < 40, size: 5},
      }))],
      hooks: {draw: [(plot) => this.#drawExtras(plot)]},
    }, data, this.node);
    this.plot.root.setAttribute("role", "img");
    this.plot.root.setAttribute("aria-label", this.label);
    if (this.pick) this.plot.over.addEventListener("click", () => {
      const index = this.plot.cursor.idx;
      if (index !== null && index !== undefined) this.pick(this.last[0][index]);
    });
  }

  /** Error bars, and the line of the cursor's ply. */
  #drawExtras(plot) {
    const [xs, series] = this.last, {ctx} = plot;
    ctx.save();
    ctx.setLineDash([]);
    series.forEach((one, index) => {
      if (!one.low) return;
      ctx.strokeStyle = colourOf(one, index);
      ctx.lineWidth = devicePixelRatio;
      xs.forEach((x, i) => {
        if (one.low[i] === null || one.low[i] === undefined) return;
        const at = plot.valToPos(x, "x", true);
        ctx.beginPath();
        ctx.moveTo(at, plot.valToPos(one.low[i], "y", true));
        ctx.lineTo(at, plot.valToPos(one.high[i], "y", true));
        ctx.stroke();
      });
    });
    if (this.marker !== null) {
      const at = plot.valToPos(this.marker, "x", true);
      ctx.strokeStyle = colour("--accent");
      ctx.lineWidth = 2 * devicePixelRatio;
      ctx.beginPath();
      ctx.moveTo(at, plot.bbox.top);
      ctx.lineTo(at, plot.bbox.top + plot.bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  }

  #resize() {
    const width = this.node.clientWidth;
    if (this.plot && width && width !== this.plot.width) this.plot.setSize({width, height: this.height});
  }
}
