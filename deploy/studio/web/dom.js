// Small tools for the page: elements, SVG elements, text for people.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children; `on…` are listeners, `class` and the rest attributes. */
export function element(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** The same for SVG. */
export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "value" || key === "checked") node[key] = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** "+0.123", with a true minus sign. */
export function signed(value, digits = 2) {
  if (value === null || value === undefined) return "–";
  const text = Math.abs(value).toFixed(digits);
  return value < 0 ? `−${text}` : `+${text}`;
}

export function percent(share, digits = 1) {
  return `${(100 * share).toFixed(digits)} %`;
}

export function count(number) {
  return Math.round(number).toLocaleString("en-US");
}

/** A bar that is filled by `share`. */
export function gauge(share, label = null) {
  const part = element("span", {class: "part"});
  part.style.inlineSize = `${100 * share}%`;
  return element("span", label ? {class: "gauge", role: "img", "aria-label": `${label} ${percent(share)}`} : {class: "gauge", "aria-hidden": "true"}, part);
}

/** The four buttons that step through a game; `go(name)` is called with first, back, on or last. */
export function stepButtons(go) {
  const names = [["«", "To the beginning", "first"], ["‹", "One move back", "back"], ["›", "One move on", "on"], ["»", "To the end", "last"]];
  return element("div", {class: "steps", role: "group", "aria-label": "Step through the game"},
    ...names.map(([sign, label, name]) => element("button", {"aria-label": label, onclick: () => go(name)}, sign)));
}

/** A labelled slider; `show` makes the text behind it, `change` is called with the number. */
export function slider({label, id, min, max, step, value, show, change}) {
  const output = element("output", {for: id}, show(value));
  const input = element("input", {
    type: "range", id, min, max, step, value, "aria-valuetext": show(value),
    oninput: () => {
      output.textContent = show(Number(input.value));
      input.setAttribute("aria-valuetext", output.textContent);
      change(Number(input.value), false);
    },
    onchange: () => change(Number(input.value), true),
  });
  const node = element("div", {class: "slider"}, element("label", {for: id}, label), input, output);
  node.set = (number, text = show(number)) => {
    input.value = number;
    output.textContent = text;
    input.setAttribute("aria-valuetext", output.textContent);
  };
  node.input = input;
  return node;
}

/** A labelled choice of `options`, [[value, text], …]. */
export function choice({label, id, options, value, change}) {
  const select = element("select", {id, onchange: () => change(select.value)},
    ...options.map(([key, text]) => element("option", {value: key}, text)));
  select.value = value;
  const node = element("div", {class: "choice"}, element("label", {for: id}, label), select);
  node.select = select;
  return node;
}
