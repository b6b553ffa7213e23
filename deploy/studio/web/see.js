// The page See: set up any position by clicks, and see what the network sees of it and what it answers.

import {Board} from "./board.js";
import {element, gauge, percent, signed, svg} from "./dom.js";
import {drawPiece, pieceName} from "./pieces.js";

const SHORT_VECTOR = 64;  // numbers that are shown without being asked for
const SHOWN_MOVES = 10;
const PIECES = {chess: ["K", "Q", "R", "B", "N", "P"], shogi: ["K", "R", "B", "G", "S", "N", "L", "P", "+R", "+B", "+S", "+N", "+L", "+P"],
  minishogi: ["K", "R", "B", "G", "S", "P", "+R", "+B", "+S", "+P"]};

export class SeePage {
  constructor(panel, link) {
    this.panel = panel;
    this.link = link;
    this.draft = null;  // {cells, hands, to_play}: what is set up, also while the game refuses it
    this.playText = "";
    link.on("seen", (seen) => this.#take(seen));
    link.on("error", (error) => error.request === "see" && this.#refuse(error.text));
    link.on("table", (table) => { this.playText = table.text; });
  }

  begin(hello) {
    if (!hello.has_weights) return;
    this.game = hello.game;
    this.draft = null;
    const {players, kind, name} = this.game;
    this.board = new Board({label: "Board to set up", edit: (cell, held) => this.#click(cell, held)});
    this.board.begin(this.game);
    this.status = element("p", {class: "status", "aria-live": "polite"});
    this.reason = element("p", {class: "wrong", "aria-live": "polite"});
    this.turn = element("button", {onclick: () => this.#turn()}, "");
    this.text = element("input", {id: "position", autocomplete: "off", spellcheck: "false",
      onkeydown: (event) => event.key === "Enter" && this.#ask(this.text.value)});
    this.value = element("p", {class: "value"});
    this.policy = element("div", {class: "bars"});
    this.legal = element("p", {class: "hint legal", tabindex: "0"});
    this.planes = element("div", {class: "planes", tabindex: "0", role: "region", "aria-label": "Input planes"});
    this.planesPanel = element("section", {class: "panel side", "aria-labelledby": "planes-title"},
      element("h2", {id: "planes-title"}, "What the network sees"), this.planes);
    this.vector = element("details", {class: "vector"}, element("summary", {}, ""), element("pre", {tabindex: "0"}));
    const button = (text, act) => element("button", {onclick: act}, text);
    const isSetUp = kind !== "text";
    this.panel.replaceChildren(element("div", {class: "columns"},
      element("div", {class: "main"}, this.status, this.board.node, this.reason,
        PIECES[name] ? this.#palette(PIECES[name]) : null,
        element("div", {class: "buttons"}, isSetUp ? button("Clear", () => this.#clear()) : null, button("Start", () => this.#ask("")),
          isSetUp ? this.turn : null, button("From Play", () => this.#ask(this.playText)),
          button("Play from here", () => this.#playFromHere())),
        element("div", {class: "choice wide"}, element("label", {for: "position"}, "Position"), this.text,
          button("Set", () => this.#ask(this.text.value))),
        element("p", {class: "hint"}, PIECES[name]
          ? "Pick a piece, then click a cell: an occupied one is cleared, an empty one takes the piece."
          : `Click a cell: an occupied one is cleared, an empty one takes the mark of the player to move (${players.join(" or ")}), and turns change.`)),
      element("div", {class: "side"}, element("section", {class: "panel", "aria-labelledby": "answer-title"},
        element("h2", {id: "answer-title"}, "What the network answers"), this.value, this.policy, this.legal),
        element("section", {class: "panel", "aria-labelledby": "vector-title"}, element("h2", {id: "vector-title"}, "State vector"), this.vector)),
      this.planesPanel));
  }

  show() {
    if (!this.draft) this.#ask("");
  }

  // --- set up ----------------------------------------------------------------------------------------------------------

  #palette(pieces) {
    const {players} = this.game;
    this.picked = pieces[0];
    this.pickedButtons = [];
    const group = (player) => element("div", {class: "palette", role: "group", "aria-label": `${players[player]}'s pieces`},
      ...pieces.map((piece) => {
        const letter = player ? piece.toLowerCase() : piece;
        const name = pieceName(this.game, letter);
        const mark = element("button", {"aria-pressed": String(letter === this.picked), "aria-label": name, title: name, "data-piece": letter,
          onclick: () => this.#pick(letter)}, svg("svg", {viewBox: "0 0 40 40", "aria-hidden": "true"}, drawPiece(this.game, letter, 20, 20, 40, false)));
        this.pickedButtons.push(mark);
        return mark;
      }));
    const toHand = this.game.kind === "shogi" ? element("button", {class: "tohand", onclick: () => this.#addToHand()}, "Add the picked piece to its hand") : null;
    return element("div", {class: `palettes ${this.game.kind}`}, element("span", {}, players[0]), group(0), element("span", {}, players[1]), group(1), toHand);
  }

  #pick(piece) {
    this.picked = piece;
    for (const mark of this.pickedButtons) mark.setAttribute("aria-pressed", mark.dataset.piece === piece);
  }

  #addToHand() {
    const player = this.picked === this.picked.toLowerCase() ? 1 : 0, piece = this.picked.replace("+", "").toUpperCase();
    if (piece === "K") return;
    this.draft.hands[player][piece] = (this.draft.hands[player][piece] ?? 0) + 1;
    this.#askDraft();
  }

  #click(cell, held) {
    const {draft} = this, {kind, columns} = this.game;
    if (cell === null) {  // a piece in hand goes
      if (!--draft.hands[held.player][held.piece]) delete draft.hands[held.player][held.piece];
      return this.#askDraft();
    }
    if (draft.cells[cell]) {
      draft.cells[cell] = "";
      if (kind === "drops") for (let above = cell - columns; above >= 0; above -= columns)
        [draft.cells[above], draft.cells[above + columns]] = ["", draft.cells[above]];
    } else if (this.picked) draft.cells[cell] = this.picked;
    else {
      let to = cell;
      if (kind === "drops") while (to + columns < draft.cells.length && !draft.cells[to + columns]) to += columns;
      draft.cells[to] = "XO"[draft.to_play];
      draft.to_play = 1 - draft.to_play;
    }
    this.#askDraft();
  }

  #turn() {
    this.draft.to_play = 1 - this.draft.to_play;
    this.#askDraft();
  }

  #clear() {
    const {kind} = this.game, empty = this.draft.cells.map(() => "");
    if (kind === "chess" || kind === "shogi") {  // a game without kings is none
      const last = empty.length - 1, middle = Math.floor(this.game.columns / 2);
      empty[middle] = "k";
      empty[last - (this.game.columns - 1 - middle)] = "K";
    }
    this.draft = {cells: empty, hands: [{}, {}], to_play: 0};
    this.#askDraft();
  }

  #playFromHere() {
    this.link.send("new", {first: "human", second: "human", position: this.text.value});
    location.hash = "play";
  }

  #askDraft() {
    this.board.draw({...this.draft, legal: [], previous: [], ply: 0, text: "", result: ""});
    this.#ask(writePosition(this.game, this.draft));
  }

  #ask(position) {
    this.asked = position;
    this.text.value = position;
    this.link.send("see", {position});
  }

  // --- the answer ------------------------------------------------------------------------------------------------------

  #refuse(reason) {
    this.reason.textContent = `No position of this game: ${reason}`;
    this.panel.classList.add("refused");
  }

  #take(seen) {
    if (seen.asked !== this.asked) return;  // a later click waits for its answer
    this.reason.textContent = "";
    this.panel.classList.remove("refused");
    const {board} = seen, {players, kind} = this.game;
    this.draft = {cells: [...board.cells], hands: board.hands.map((hand) => ({...hand})), to_play: board.to_play};
    if (document.activeElement !== this.text && kind !== "text") this.text.value = board.text;
    this.board.draw(board);
    const shares = board.legal.map((move, index) => ({action: move.action, share: seen.policy[index], move: move.move}))
      .sort((a, b) => b.share - a.share);
    this.board.show({moves: shares.filter((move) => move.share >= 0.005)});
    this.status.textContent = board.result || `${players[board.to_play]} to move`;
    this.turn.textContent = `Give the turn to ${players[1 - board.to_play]}`;
    this.value.textContent = seen.value === null ? "The game is over: the network is not asked."
      : `Value ${signed(seen.value, 3)} for ${players[board.to_play]}`;
    this.policy.replaceChildren(...shares.slice(0, SHOWN_MOVES).map((move) => element("div", {class: "bar", "data-share": move.share},
      element("span", {class: "name"}, move.move), gauge(move.share, `Policy of ${move.move}`),
      element("span", {class: "number"}, percent(move.share)))));
    this.legal.textContent = board.legal.length ? `${board.legal.length} legal moves: ${board.legal.map((move) => move.move).join(" ")}` : "No legal move.";
    this.#drawPlanes(seen);
  }

  #drawPlanes(seen) {
    const [number, rows, columns] = seen.shape;
    const vector = seen.planes.flatMap((plane) => plane.values ?? Array(rows * columns).fill(plane.value));
    this.vector.open ||= vector.length <= SHORT_VECTOR;
    this.vector.firstChild.textContent = `${vector.length} numbers: ${number} planes of ${rows} × ${columns}, one after the other`;
    this.vector.lastChild.textContent = vector.map(show).join(" ");
    const whole = vector.length <= 512;
    this.planesPanel.classList.toggle("wide", !whole || columns > 9);
    this.planes.replaceChildren(...seen.planes.map((plane, index) => {
      const caption = element("caption", {}, `${index}: ${plane.name}`);
      if (plane.values === undefined && !whole)
        return element("table", {class: "plane uniform"}, caption, element("tbody", {}, element("tr", {}, element("td", {}, `${show(plane.value)} everywhere`))));
      const values = plane.values ?? Array(rows * columns).fill(plane.value);
      return element("table", {class: "plane"}, caption, element("tbody", {}, ...Array.from({length: rows}, (_, row) =>
        element("tr", {}, ...values.slice(row * columns, (row + 1) * columns).map((value) =>
          element("td", {class: value === 0 ? null : value === 1 ? "one" : "some"}, show(value)))))));
    }));
  }
}

function show(value) {
  return Number.isInteger(value) ? String(value) : value.toFixed(3);
}

/** The text that the game reads: a grid, FEN or SFEN. */
export function writePosition(game, {cells, hands, to_play: turn}) {
  const rows = Array.from({length: game.rows}, (_, row) => cells.slice(row * game.columns, (row + 1) * game.columns));
  if (game.kind !== "chess" && game.kind !== "shogi")
    return `${rows.map((row) => row.map((mark) => mark || ".").join("")).join("/")} ${"XO"[turn]}`;
  const board = rows.map((row) => row.map((piece) => piece || "1").join("").replace(/1+/g, (gap) => gap.length)).join("/");
  if (game.kind === "shogi") {
    const held = hands.map((hand, player) => Object.entries(hand).map(([piece, number]) =>
      (number > 1 ? number : "") + (player ? piece.toLowerCase() : piece)).join("")).join("");
    return `${board} ${turn ? "w" : "b"} ${held || "-"} 1`;
  }
  const at = (cell, piece) => cells[cell] === piece;
  const rights = [at(60, "K") && at(63, "R") && "K", at(60, "K") && at(56, "R") && "Q", at(4, "k") && at(7, "r") && "k",
    at(4, "k") && at(0, "r") && "q"].filter(Boolean).join("");
  return `${board} ${turn ? "b" : "w"} ${rights || "-"} - 0 1`;
}
