// pi(a) ~ N(a)^(1/tau): the bars, their slider, and visits typed in.  The same rule as deploy/studio/temperature.py.

import {element, gauge, percent, slider} from "./dom.js";

export const LOW = 0.01, HIGH = 2, ARGMAX_BELOW = 0.05;
const TYPED = "10, 20, 150, 5, 40";
const MOST_BARS = 12;

/** The probabilities of moves with these visits; all on the first of the largest below ARGMAX_BELOW. */
export function probabilities(visits, temperature) {
  const largest = Math.max(...visits, 0);
  if (!largest) return visits.map(() => 1 / visits.length);
  if (temperature < ARGMAX_BELOW) {
    const best = visits.indexOf(largest);
    return visits.map((_, index) => index === best ? 1 : 0);
  }
  const shares = visits.map((count) => (count / largest) ** (1 / temperature));
  const sum = shares.reduce((total, share) => total + share, 0);
  return shares.map((share) => share / sum);
}

/** The visits that a text names, or null if it names none. */
export function parseVisits(text) {
  const words = text.split(/[\s,;]+/).filter(Boolean);
  const visits = words.map(Number);
  return visits.length && visits.length <= 64 && visits.every((n) => Number.isInteger(n) && n >= 0 && n <= 1e9) ? visits : null;
}

/** The panel: `change(temperature)` is called when the slider is let go. */
export class TemperaturePanel {
  constructor(change) {
    this.temperature = 1;
    this.moves = [];
    this.slider = slider({label: "Temperature τ", id: "temperature", min: LOW, max: HIGH, step: 0.01, value: 1,
      show: (value) => value < ARGMAX_BELOW ? `${value.toFixed(2)}: argmax` : value.toFixed(2),
      change: (value, isDone) => { this.temperature = value; this.#draw(); if (isDone) change(value); }});
    this.bars = element("div", {class: "bars", role: "img", "aria-label": "Probabilities of the moves"});
    this.typed = element("input", {id: "typed-visits", value: TYPED, inputmode: "numeric", autocomplete: "off", spellcheck: "false",
      oninput: () => this.#draw()});
    this.typedBars = element("div", {class: "bars typed", role: "img", "aria-label": "Probabilities of the typed visits"});
    this.wrong = element("p", {class: "wrong", id: "typed-wrong", "aria-live": "polite"});
    this.node = element("section", {class: "panel temperature", "aria-labelledby": "temperature-title"},
      element("h2", {id: "temperature-title"}, "From visits to moves"),
      element("p", {class: "hint"}, "π(a) ∝ N(a)", element("sup", {}, "1/τ"), ": how the engine draws its move."),
      this.slider, this.bars,
      element("details", {}, element("summary", {}, "Type in visits"),
        element("div", {class: "choice"}, element("label", {for: "typed-visits"}, "Visits N"), this.typed), this.wrong, this.typedBars));
    this.#draw();
  }

  set(temperature) {
    if (this.slider.input.matches(":active")) return;  // it is being dragged
    this.slider.set(temperature);
    this.temperature = temperature;
    this.#draw();
  }

  /** `moves`: [{move, visits}], most visited first. */
  show(moves) {
    this.moves = moves.filter((move) => move.visits > 0).slice(0, MOST_BARS);
    this.#draw();
  }

  #draw() {
    drawBars(this.bars, this.moves.map((move) => move.move), this.moves.map((move) => move.visits), this.temperature);
    const visits = parseVisits(this.typed.value);
    this.typed.setAttribute("aria-invalid", visits === null);
    this.wrong.textContent = visits === null ? "Whole numbers from 0, with commas or blanks between them, 64 at most." : "";
    if (visits) drawBars(this.typedBars, visits.map((_, index) => `a${index + 1}`), visits, this.temperature);
  }
}

function drawBars(node, names, visits, temperature) {
  const shares = probabilities(visits, temperature);
  node.setAttribute("aria-label", names.length
    ? `Probabilities: ${names.map((name, index) => `${name} ${percent(shares[index])}`).join(", ")}` : "No visits yet");
  node.replaceChildren(...names.map((name, index) => {
    return element("div", {class: "bar", "data-share": shares[index].toFixed(6)}, element("span", {class: "name"}, name), gauge(shares[index]),
      element("span", {class: "number"}, percent(shares[index])), element("span", {class: "visits"}, `N=${visits[index]}`));
  }));
}
