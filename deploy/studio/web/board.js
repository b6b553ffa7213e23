// The board of every game as one SVG: pieces, legal moves, what the search thinks, mouse, touch and keyboard.
//
// A board knows no rules: the studio sends the pieces of each cell and the legal moves with their cells
// (deploy/studio/boards.py).  Cells are row * columns + column from the top left corner, as the first player sees it.

import {element, percent, svg} from "./dom.js";
import {drawPiece, pieceName} from "./pieces.js";

const CELL = 40;
const HEX_HEIGHT = CELL * Math.sqrt(3) / 2;
const DRAG_PIXELS = 6;  // a pointer that moves less has clicked
const LABEL = 16;

export class Board {
  /**
   * `act(action)` plays a legal move; `edit(cell, event)`, if given, takes every click instead: the board is set up.
   */
  constructor({label, act = () => {}, edit = null}) {
    this.label = label;
    this.act = act;
    this.edit = edit;
    this.isFlipped = false;
    this.selected = null;  // a cell, or {drops: "P"}
    this.focus = 0;
    this.node = element("div", {class: "board"});
    this.question = null;  // the dialog that asks which piece a move makes
    this.state = null;
    this.overlay = {};
  }

  begin(game) {
    this.game = game;
    this.selected = null;
    if (this.focus >= game.rows * game.columns) this.focus = 0;
    this.#dismiss();
    this.node.className = `board ${game.kind}`;
  }

  /** Shows a position as boards.py describes it. */
  draw(state) {
    const isNew = this.state?.text !== state.text || this.state?.ply !== state.ply;
    const hadFocus = this.node.contains(document.activeElement) || this.question?.contains(document.activeElement);
    if (isNew) {
      this.selected = null;
      this.#dismiss();
    }
    this.state = state;
    if (this.game.kind === "text") return this.#drawText();
    const {width, height} = this.#size();
    this.top = svg("g", {class: "overlay", "aria-hidden": "true"});
    this.cells = [];
    this.picture = svg("svg", {
      viewBox: `${-LABEL} ${-LABEL} ${width + 2 * LABEL} ${height + 2 * LABEL}`, role: "grid",
      "aria-label": `${this.label}: ${this.#turn()}`, class: "picture",
    }, svg("g", {class: "ground", "aria-hidden": "true"}, ...this.#ground()), ...this.#rows(), this.top);
    const hands = this.game.kind === "shogi" ? [this.#hand(1), this.picture, this.#hand(0)] : [this.picture];
    this.node.replaceChildren(...(this.isFlipped ? hands.reverse() : hands));
    this.#drawOverlay();
    if (hadFocus) this.cells[this.focus]?.focus();
  }

  /**
   * What lies over the position: `moves` [{action, share, text}] as heat or arrows, `ownership` [cells] of the first
   * player in [-1, 1].
   */
  show(overlay) {
    this.overlay = overlay;
    if (this.state && this.game.kind !== "text") this.#drawOverlay();
  }

  flip(isFlipped) {
    if (this.isFlipped === isFlipped) return;
    this.isFlipped = isFlipped;
    if (this.state) this.draw(this.state);
  }

  name(cell) {
    const {columns, column_labels: letters, row_labels: numbers} = this.game;
    return `${letters[cell % columns]}${numbers[Math.floor(cell / columns)]}`;
  }

  // --- geometry ------------------------------------------------------------------------------------------------------

  #size() {
    const {rows, columns, kind} = this.game;
    if (kind === "hex") return {width: CELL * (columns + (rows - 1) / 2), height: HEX_HEIGHT * (rows - 1) + CELL * 1.16};
    return {width: CELL * columns, height: CELL * rows};
  }

  /** The middle of a cell as it is shown. */
  #middle(cell) {
    const {rows, columns, kind} = this.game;
    const at = this.isFlipped && kind !== "drops" ? rows * columns - 1 - cell : cell;
    const row = Math.floor(at / columns), column = at % columns;
    if (kind === "hex") return [CELL * (column + row / 2 + 0.5), HEX_HEIGHT * row + CELL * 0.58];
    return [CELL * (column + 0.5), CELL * (row + 0.5)];
  }

  // --- layers --------------------------------------------------------------------------------------------------------

  #ground() {
    const {rows, columns, kind} = this.game;
    const {width, height} = this.#size();
    const found = [];
    if (kind !== "hex") found.push(svg("rect", {class: "board-ground", width, height, rx: kind === "drops" ? 10 : 3}));
    if (kind === "go") {
      const [left, top] = [CELL / 2, CELL / 2], [right, bottom] = [width - CELL / 2, height - CELL / 2];
      for (let i = 0; i < columns; i++)
        found.push(svg("path", {class: "line", d: `M${CELL * (i + .5)} ${top}V${bottom}M${left} ${CELL * (i + .5)}H${right}`}));
      for (const cell of starPoints(rows)) {
        const [cx, cy] = this.#middle(cell);
        found.push(svg("circle", {class: "star", cx, cy, r: 3.2}));
      }
    }
    if (kind === "hex") found.push(...this.#hexEdges());
    if (this.game.kind !== "text") found.push(...this.#labels(width, height));
    return found;
  }

  #hexEdges() {
    const {rows, columns} = this.game;
    const side = [];
    const add = (cells, corners, player) => {
      for (const cell of cells) {
        const [x, y] = this.#middle(cell), points = hexCorners(x, y, CELL / Math.sqrt(3));
        side.push(svg("polyline", {class: `edge player${player}`, points: corners.map((k) => points[k]).join(" ")}));
      }
    };
    const line = (length, cell) => Array.from({length}, (_, i) => cell(i));
    const [north, south, west, east] = this.isFlipped ? [[2, 3, 4], [5, 0, 1], [0, 1, 2], [3, 4, 5]] : [[5, 0, 1], [2, 3, 4], [3, 4, 5], [0, 1, 2]];
    add(line(columns, (i) => i), north, 0);
    add(line(columns, (i) => (rows - 1) * columns + i), south, 0);
    add(line(rows, (i) => i * columns), west, 1);
    add(line(rows, (i) => i * columns + columns - 1), east, 1);
    return side;
  }

  #labels(width, height) {
    const {rows, columns, kind, row_labels: numbers, column_labels: letters} = this.game;
    const found = [], size = Math.max(Math.min(9, 3 + columns), width / 55);
    const isTurned = this.isFlipped && kind !== "drops";
    for (let c = 0; c < columns; c++) {
      const cell = isTurned ? (rows - 1) * columns + c : c;
      const x = this.#middle(cell)[0];
      found.push(svg("text", {class: "label", "font-size": size, x, y: kind === "chess" ? height + 11 : -5}, letters[c]));
    }
    for (let r = 0; r < rows; r++) {
      const cell = r * columns + (isTurned ? columns - 1 : 0);
      const [x, y] = this.#middle(cell);
      const isShogi = kind === "shogi";
      found.push(svg("text", {class: "label", "font-size": size, x: isShogi ? width + 8 : kind === "hex" ? x - CELL * 0.72 : -8, y: y + 4},
        numbers[r]));
    }
    return found;
  }

  #rows() {
    const {rows, columns} = this.game;
    return Array.from({length: rows}, (_, row) => svg("g", {role: "row"},
      ...Array.from({length: columns}, (_, column) => this.#cell(row * columns + column))));
  }

  #cell(cell) {
    const {columns, kind} = this.game;
    const [x, y] = this.#middle(cell), piece = this.state.cells[cell];
    const isDark = (Math.floor(cell / columns) + cell % columns) % 2 === 1;
    const face = kind === "hex"
      ? svg("polygon", {class: "face", points: hexCorners(x, y, CELL / Math.sqrt(3)).join(" ")})
      : svg("rect", {class: `face${isDark ? " dark" : ""}`, x: x - CELL / 2, y: y - CELL / 2, width: CELL, height: CELL});
    const node = svg("g", {role: "gridcell", tabindex: cell === this.focus ? 0 : -1, class: "cell", "data-cell": cell,
      "aria-label": `${this.name(cell)}, ${piece ? pieceName(this.game, piece) : "empty"}`,
      onkeydown: (event) => this.#key(event, cell), onfocus: () => this.#setFocus(cell)}, face);
    if (kind === "drops") node.append(svg("circle", {class: "hole", cx: x, cy: y, r: CELL * 0.4}));
    if (this.state.previous?.includes(cell)) node.classList.add("previous");
    if (piece) node.append(drawPiece(this.game, piece, x, y, CELL, this.isFlipped));
    if (this.#isDragged()) node.addEventListener("pointerdown", (event) => this.#press(event, cell));
    else node.addEventListener("click", (event) => {
      this.#setFocus(cell);
      if (this.edit || event.detail < 2) this.#choose(cell, event);  // a double click plays one move
    });
    this.cells[cell] = node;
    return node;
  }

  #hand(player) {
    const held = Object.entries(this.state.hands?.[player] ?? {});
    const isTheirs = (player === 1) !== this.isFlipped;
    const row = element("div", {class: `hand ${isTheirs ? "top" : "bottom"}${player === this.state.to_play ? " own" : ""}`, role: "group",
      "aria-label": `${this.game.players[player]}'s pieces in hand`});
    for (const [piece, number] of held) {
      const letter = player ? piece.toLowerCase() : piece;
      const picture = svg("svg", {viewBox: `0 0 ${CELL} ${CELL}`, "aria-hidden": "true"},
        drawPiece(this.game, letter, CELL / 2, CELL / 2, CELL, this.isFlipped));
      const isOwn = this.edit || this.#targets({drops: piece}).length > 0 && player === this.state.to_play;
      row.append(element("button", {
        class: "held", disabled: !isOwn, "data-drops": piece, "aria-label": `${pieceName(this.game, letter)}, ${number} in hand`,
        onclick: () => this.edit ? this.edit(null, {player, piece}) : this.#select({drops: piece}),
      }, picture, String(number)));
    }
    return row;
  }

  #drawOverlay() {
    const found = [], {kind} = this.game;
    const legal = new Map(this.state.legal.map((move) => [move.action, move]));
    if (this.overlay.ownership) {
      this.overlay.ownership.forEach((owner, cell) => {
        const [x, y] = this.#middle(cell), half = 3 + 5 * Math.abs(owner);
        if (Math.abs(owner) > 0.1)
          found.push(svg("rect", {class: `owner player${owner > 0 ? 0 : 1}`, x: x - half, y: y - half, width: 2 * half,
            height: 2 * half, opacity: 0.25 + 0.6 * Math.abs(owner)}));
      });
    }
    const shown = (this.overlay.moves ?? []).filter((move) => legal.has(move.action));
    const largest = Math.max(...shown.map((move) => move.share), 1e-9);
    shown.forEach((move, rank) => {
      const cells = legal.get(move.action);
      if (cells.to === null) return;
      if (kind === "chess" || kind === "shogi") {
        if (rank < 5 && move.share >= 0.02) found.push(this.#arrow(cells, move.share / largest, rank));
      } else found.push(...this.#heat(cells.to, move, move.share / largest, rank));
    });
    if (this.selected !== null) for (const move of this.#targets(this.selected)) {
      const [cx, cy] = this.#middle(move.to), isTaken = Boolean(this.state.cells[move.to]);
      found.push(svg("circle", {class: isTaken ? "target taken" : "target", cx, cy, r: isTaken ? CELL * .44 : CELL * .14}));
    } else if (!this.edit && !shown.length && this.overlay.hasDots !== false) for (const move of this.state.legal) {
      if (move.to === null || move.from !== undefined || move.drops) continue;
      const [cx, cy] = this.#middle(move.to);
      found.push(svg("circle", {class: "target", cx, cy, r: CELL * (kind === "go" ? .07 : .1)}));
    }
    this.cells.forEach((node, cell) => node.classList.toggle("selected", this.selected === cell));
    this.top.replaceChildren(...found);
  }

  #heat(cell, move, strength, rank) {
    const [cx, cy] = this.#middle(cell);
    const found = [svg("circle", {class: `heat${rank === 0 ? " best" : ""}`, cx, cy, r: CELL * 0.44, opacity: 0.2 + 0.75 * strength})];
    if (move.share >= 0.01)
      found.push(svg("text", {class: "share", "font-size": Math.max(Math.min(11, 4 + this.game.columns), this.game.columns * 0.7), x: cx, y: cy + 4}, percent(move.share, 0).replace(" %", "")));
    return found;
  }

  #arrow(cells, strength, rank) {
    const [x2, y2] = this.#middle(cells.to);
    if (cells.from === undefined)
      return svg("circle", {class: `arrow drop${rank === 0 ? " best" : ""}`, cx: x2, cy: y2, r: CELL * 0.42, "stroke-width": 2 + 3 * strength});
    const [x1, y1] = this.#middle(cells.from);
    const length = Math.hypot(x2 - x1, y2 - y1), [ux, uy] = [(x2 - x1) / length, (y2 - y1) / length];
    const width = 2 + 5 * strength, head = 8 + 5 * strength;
    const [bx, by] = [x2 - ux * head, y2 - uy * head];
    const points = [[x2, y2], [bx - uy * head * .6, by + ux * head * .6], [bx + uy * head * .6, by - ux * head * .6]];
    return svg("g", {class: `arrow${rank === 0 ? " best" : ""}`, opacity: 0.35 + 0.55 * strength},
      svg("line", {x1: x1 + ux * 8, y1: y1 + uy * 8, x2: bx, y2: by, "stroke-width": width}),
      svg("polygon", {points: points.join(" ")}));
  }

  #drawText() {
    const buttons = this.state.legal.map((move) =>
      element("button", {onclick: (event) => event.detail > 1 || this.act(move.action)}, move.move));
    this.node.replaceChildren(element("pre", {class: "drawing", tabindex: "0"}, this.state.drawing),
      element("div", {class: "moves", role: "group", "aria-label": "Legal moves"}, ...buttons));
  }

  #turn() {
    return this.state.result || `${this.game.players[this.state.to_play]} to move`;
  }

  // --- mouse, touch, keyboard ------------------------------------------------------------------------------------------

  #targets(from) {
    return this.state.legal.filter((move) => move.to !== null
      && (from?.drops ? move.drops === from.drops : move.from === from));
  }

  /** Whether pieces are moved from cell to cell; elsewhere a click is enough. */
  #isDragged() {
    return !this.edit && ["chess", "shogi"].includes(this.game.kind);
  }

  #press(event, cell) {
    if (event.button) return;
    this.#setFocus(cell);
    if (!this.#targets(cell).length || this.selected !== null && this.#finds(this.selected, cell).length) {
      event.preventDefault();
      this.#choose(cell, event);
      return;
    }
    const wasSelected = this.selected === cell;
    this.#select(cell);
    this.#drag(event, cell, wasSelected);
  }

  /** Follows a pointer that holds a piece. */
  #drag(start, cell, wasSelected) {
    start.preventDefault();
    const piece = () => this.cells[cell].querySelector(".piece");  // which a new picture replaces
    let isDragged = false;
    const place = (event) => {
      const matrix = this.picture.getScreenCTM().inverse();
      return new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix);
    };
    const origin = place(start);
    const follow = (event) => {
      isDragged ||= Math.hypot(event.clientX - start.clientX, event.clientY - start.clientY) > DRAG_PIXELS;
      if (!isDragged) return;
      const point = place(event);
      piece()?.setAttribute("transform", `translate(${point.x - origin.x} ${point.y - origin.y})`);
      this.cells[cell].classList.add("dragged");
    };
    const putBack = () => {
      removeEventListener("pointermove", follow);
      removeEventListener("pointerup", drop);
      removeEventListener("pointercancel", putBack);
      piece()?.removeAttribute("transform");
      this.cells[cell].classList.remove("dragged");
    };
    const drop = (event) => {
      putBack();
      if (!isDragged) return wasSelected ? this.#select(null) : undefined;
      const target = this.#cellAt(place(event));
      if (target !== null && target !== cell && this.#finds(cell, target).length) this.#choose(target, event);
    };
    addEventListener("pointermove", follow);
    addEventListener("pointerup", drop);
    addEventListener("pointercancel", putBack);
  }

  #cellAt(point) {
    let best = null, nearest = CELL * 0.75;
    this.cells.forEach((_, cell) => {
      const [x, y] = this.#middle(cell), distance = Math.hypot(point.x - x, point.y - y);
      if (distance < nearest) [best, nearest] = [cell, distance];
    });
    return best;
  }

  #finds(from, to) {
    return this.#targets(from).filter((move) => move.to === to);
  }

  /** A click on a cell: plays, selects, or sets up. */
  #choose(cell, event) {
    if (this.edit) return this.edit(cell, event);
    const {kind, columns} = this.game;
    if (this.#isDragged()) {
      const moves = this.selected === null ? [] : this.#finds(this.selected, cell);
      if (moves.length) return this.#play(moves);
      return this.#select(this.#targets(cell).length && this.selected !== cell ? cell : null);
    }
    const moves = this.state.legal.filter((move) => move.to !== null
      && (kind === "drops" ? move.to % columns === cell % columns : move.to === cell));
    if (moves.length) this.#play(moves);
  }

  #select(selected) {
    this.selected = selected;
    for (const button of this.node.querySelectorAll(".own .held"))
      button.classList.toggle("selected", button.dataset.drops === selected?.drops);
    this.#drawOverlay();
  }

  /** Plays the only move, or asks which piece it makes. */
  #play(moves) {
    this.selected = null;
    if (moves.length === 1) return this.act(moves[0].action);
    const title = "Promote to";
    const dialog = element("dialog", {class: "promotion", "aria-label": title});
    const close = () => {
      this.#dismiss();
      this.cells[this.focus]?.focus();
    };
    for (const move of moves) {
      const from = move.from === undefined ? "" : this.state.cells[move.from];
      const made = this.game.kind === "chess" ? (this.state.to_play ? move.makes : move.makes.toUpperCase()) : move.makes === "+" ? `+${from}` : from;
      dialog.append(element("button", {"aria-label": pieceName(this.game, made), "data-makes": move.makes || "=", onclick: () => { close(); this.act(move.action); }},
        svg("svg", {viewBox: `0 0 ${CELL} ${CELL}`, "aria-hidden": "true"}, drawPiece(this.game, made, CELL / 2, CELL / 2, CELL, this.isFlipped))));
    }
    dialog.append(element("button", {class: "cancel", onclick: close}, "Cancel"));
    dialog.addEventListener("close", () => this.question?.firstChild === dialog && close());  // by Escape
    this.question = element("div", {class: this.node.className}, dialog);  // outside the node, which draw() fills anew
    document.body.append(this.question);
    dialog.showModal();
  }

  /** Takes the question back, if there is one. */
  #dismiss() {
    this.question?.firstChild.close();
    this.question?.remove();
    this.question = null;
  }

  #setFocus(cell) {
    this.cells[this.focus]?.setAttribute("tabindex", -1);
    this.focus = cell;
    this.cells[cell].setAttribute("tabindex", 0);
  }

  #key(event, cell) {
    const {rows, columns} = this.game;
    const turn = this.isFlipped ? -1 : 1;
    const step = {ArrowLeft: [0, -turn], ArrowRight: [0, turn], ArrowUp: [-turn, 0], ArrowDown: [turn, 0]}[event.key];
    if (step) {
      const row = Math.floor(cell / columns) + step[0], column = cell % columns + step[1];
      if (row >= 0 && row < rows && column >= 0 && column < columns) this.cells[row * columns + column].focus();
    } else if (event.key === "Enter" || event.key === " ") event.repeat || this.#choose(cell, event);  // held: one move
    else if (event.key === "Escape") this.#select(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

function hexCorners(x, y, radius) {
  return Array.from({length: 6}, (_, k) => {
    const angle = Math.PI / 180 * (60 * k - 90);
    return [(x + radius * Math.cos(angle)).toFixed(2), (y + radius * Math.sin(angle)).toFixed(2)].join(",");
  });
}

/** The points of Go boards, as GTP's fixed handicap has them. */
function starPoints(size) {
  if (size < 7) return [];
  const edge = size < 13 ? 2 : 3, far = size - 1 - edge, middle = (size - 1) / 2;
  const lines = size % 2 && size > 7 ? [edge, middle, far] : [edge, far];
  const found = lines.flatMap((row) => lines.map((column) => row * size + column));
  return size % 2 && size < 13 ? found.filter((cell) => {
    const row = Math.floor(cell / size), column = cell % size;
    return row === column && row === middle || row !== middle && column !== middle;
  }) : found;
}
