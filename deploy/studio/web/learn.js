// The page Learn: the curves of a run, and of a second one over them.

import {Chart} from "./chart.js";
import {choice, element} from "./dom.js";
import {showRun} from "./run_line.js";

export class LearnPage {
  constructor(panel, link) {
    this.panel = panel;
    this.link = link;
    this.other = "";
    this.by = "minutes";
    this.charts = new Map();
    link.on("curves", (message) => this.#take(message));
    link.on("run", (run) => this.run && showRun(this.run, run));
  }

  begin(hello) {
    if (!hello.has_run) return;
    this.known = this.message = null;
    this.run = element("p", {class: "status run", "aria-live": "off"});
    this.axis = choice({label: "Over", id: "learn-axis", value: this.by, options: [["minutes", "minutes of training"], ["steps", "gradient steps"]],
      change: (value) => { this.by = value; this.#draw(); }});
    this.second = choice({label: "Compare with", id: "learn-other", value: "", options: [["", "no other run"]],
      change: (value) => { this.other = value; this.#ask(); }});
    this.grid = element("div", {class: "charts"});
    this.charts.clear();
    this.panel.replaceChildren(this.run, element("div", {class: "filters", role: "group", "aria-label": "What is shown"}, this.axis, this.second), this.grid);
  }

  show() {
    this.#ask();
  }

  hide() {
    this.link.send("leave");
  }

  #ask() {
    this.link.send("learn", {other: this.other});
  }

  #take(message) {
    this.message = message;
    const known = ["", ...message.others].join("\n");
    if (this.known !== known) {
      this.known = known;
      this.second.select.replaceChildren(element("option", {value: ""}, "no other run"), ...message.others.map((name) => element("option", {value: name}, name)));
      this.second.select.value = this.other;
    }
    this.#draw();
  }

  #draw() {
    if (!this.message) return;
    const {runs} = this.message;
    const titles = [...new Set(runs.flatMap((run) => run.charts.map((chart) => chart.title)))];
    if (!titles.length) {
      this.grid.replaceChildren(element("p", {class: "hint"}, "The run has written no metrics yet."));
      this.charts.clear();
      return;
    }
    if ([...this.charts.keys()].join("\n") !== titles.join("\n")) {
      this.charts = new Map(titles.map((title) => [title, null]));
      this.grid.replaceChildren(...titles.map((title) => this.#makeChart(title, runs)));
    }
    for (const title of titles) this.#drawChart(title, runs);
  }

  #makeChart(title, runs) {
    const {unit, is_share: isShare} = runs.flatMap((run) => run.charts).find((chart) => chart.title === title);
    const chart = new Chart({label: `${title} over training`, range: isShare ? [0, 1] : null});
    this.charts.set(title, chart);
    return element("section", {class: "panel"}, element("h2", {}, title, unit ? element("small", {}, ` ${unit}`) : null), chart.node);
  }

  /** All series of a chart over one axis: uPlot wants the same places for all of them. */
  #drawChart(title, runs) {
    const series = runs.flatMap((run, index) => (run.charts.find((chart) => chart.title === title)?.series ?? [])
      .map((one, colour) => ({...one, colour, name: runs.length > 1 ? `${one.name} (${run.name})` : one.name, dash: index > 0})));
    const xs = [...new Set(series.flatMap((one) => one[this.by]))].sort((a, b) => a - b);
    const places = new Map(xs.map((x, index) => [x, index]));
    const spread = (one, values) => {
      if (!values) return undefined;
      const found = Array(xs.length).fill(null);
      one[this.by].forEach((x, index) => { found[places.get(x)] = values[index] ?? null; });
      return found;
    };
    this.charts.get(title).draw(xs, series.map((one) => ({...one, values: spread(one, one.values), low: spread(one, one.low), high: spread(one, one.high)})));
  }
}
