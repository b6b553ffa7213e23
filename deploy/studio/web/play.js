// The page Play: a board, the two sides, what the search thinks, the value curve, files.

import {Board} from "./board.js";
import {Chart} from "./chart.js";
import {choice, count, element, percent, signed, slider, stepButtons} from "./dom.js";
import {showLetters, showsLetters} from "./pieces.js";
import {TemperaturePanel} from "./temperature.js";

const SHOWN_ROWS = 8;
const MIB = 1 << 20;

export class PlayPage {
  constructor(panel, link) {
    this.panel = panel;
    this.link = link;
    this.table = null;
    this.report = {moves: []};
    this.settings = {simulations: 64, threads: 1, temperature: 1, analyse: true};
    this.overlay = "visits";
    link.on("table", (table) => this.#takeTable(table));
    link.on("report", (report) => { this.report = report; this.#drawReport(); });
    link.on("file", (file) => download(file));
  }

  begin(hello) {
    if (!hello.has_weights) return;
    this.game = hello.game;
    this.table = null;
    this.maxFile = hello.max_file;
    const [first, second] = this.game.players;
    this.board ??= new Board({label: "Board", act: (action) => this.#play(action)});  // which stays as it was turned
    this.board.begin(this.game);
    this.status = element("p", {class: "status", "aria-live": "polite"});
    this.sides = choice({label: "Sides", id: "sides", value: "human-engine", options: [
      ["human-engine", `You are ${first}`], ["engine-human", `You are ${second}`], ["human-human", "Both sides by hand"],
      ["engine-engine", "The engine plays itself"]], change: (value) => this.link.send("sides", sidesOf(value))});
    this.simulations = slider({label: "Simulations", id: "simulations", min: 0, max: 17, step: 0.25, value: 6,
      show: (value) => count(2 ** value), change: (value, isDone) => isDone && this.#set({simulations: Math.round(2 ** value)})});
    this.threads = slider({label: "Threads", id: "threads", min: 1, max: hello.cores, step: 1, value: 1, show: String,
      change: (value, isDone) => isDone && this.#set({threads: value})});
    this.analyse = element("input", {type: "checkbox", id: "analyse", checked: true,
      onchange: () => this.#set({analyse: this.analyse.checked})});
    this.layer = choice({label: "On the board", id: "layer", value: this.overlay, options: [
      ["visits", "Visits"], ["prior", "Prior"], ["ownership", "Ownership"], ["none", "Nothing"]],
      change: (value) => { this.overlay = value; this.#drawReport(); }});
    this.letters = this.game.kind !== "shogi" ? null : choice({label: "Pieces", id: "letters", value: showsLetters() ? "letters" : "kanji",
      options: [["kanji", "Kanji"], ["letters", "Letters"]], change: (value) => { showLetters(value === "letters"); this.board.draw(this.table); }});
    this.temperature = new TemperaturePanel((value) => this.#set({temperature: value}));
    this.rows = element("tbody");
    this.numbers = element("p", {class: "numbers", "aria-live": "off"});
    this.curve = new Chart({label: "Value of the game, from the first player's view", height: 150, range: [-1, 1], xTitle: "ply", leastX: 10,
      pick: (ply) => this.link.send("go_to", {ply})});
    this.drops = element("ol", {class: "drops"});
    this.moves = element("ol", {class: "movelist", "aria-label": "Moves"});
    this.notation = choice({label: "Save as", id: "notation", value: "jsonl", options: notationsOf(this.game, hello.notations)
      .map((name) => [name, name.toUpperCase()]), change: () => {}});
    this.notation.select.selectedIndex = 0;
    this.file = element("input", {type: "file", id: "file", accept: ".sgf,.pgn,.kif,.kifu,.csa,.json,.jsonl", hidden: true,
      onchange: () => this.#open()});
    const button = (text, act, extra = {}) => element("button", {onclick: act, ...extra}, text);
    this.pass = button("Pass", (event) => event.detail > 1 || this.#pass());  // a double click is one pass
    this.resign = button("Resign", () => this.link.send("resign"));
    this.undo = button("Undo", () => this.link.send("undo"));
    const steps = stepButtons((name) => {
      const {cursor, moves} = this.table;
      this.#goTo({first: 0, back: cursor - 1, on: cursor + 1, last: moves.length}[name]);
    });
    this.panel.replaceChildren(element("div", {class: "columns"},
      element("div", {class: "main"}, this.status, this.board.node, steps,
        element("div", {class: "buttons"}, button("New game", () => this.link.send("new", {...sidesOf(this.sides.select.value), position: ""})),
          this.undo, this.pass, this.resign,
          button("Flip", () => this.board.flip(!this.board.isFlipped)))),
      element("div", {class: "side"},
        element("section", {class: "panel", "aria-labelledby": "search-title"}, element("h2", {id: "search-title"}, "Search"),
          this.sides, this.simulations, this.threads, this.layer, this.letters,
          element("div", {class: "choice"}, element("label", {for: "analyse"}, "Analyse"), this.analyse),
          this.numbers,
          element("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "Moves of the search"}, element("table", {class: "search"},
            element("caption", {class: "hidden"}, "What the search says of each move"),
            element("thead", {}, element("tr", {}, ...["Move", "Visits", "Prior", "Value", "Goes on"].map((name) => element("th", {scope: "col"}, name)))),
            this.rows)), ...hello.notes.map((note) => element("p", {class: "hint"}, `${note}.`))),
        this.temperature.node),
      element("div", {class: "side"},
        element("section", {class: "panel", "aria-labelledby": "value-title"}, element("h2", {id: "value-title"}, `Value for ${first}`),
          this.curve.node, element("div", {class: "buttons"}, button("Review the whole game", () => this.link.send("review"))), this.drops),
        element("section", {class: "panel", "aria-labelledby": "game-title"}, element("h2", {id: "game-title"}, "Game"), this.moves,
          element("div", {class: "buttons"}, button("Open a file …", () => this.file.click()), this.file,
            this.notation, button("Save", () => this.link.send("save", {notation: this.notation.select.value})))))));
  }

  #takeTable(table) {
    const before = this.table;
    this.table = table;
    this.settings = table.settings;
    this.board.draw(table);
    this.sides.select.value = table.sides.join("-");
    this.simulations.set(Math.log2(table.settings.simulations), count(table.settings.simulations));
    this.threads.set(table.settings.threads);
    this.analyse.checked = table.settings.analyse;
    this.temperature.set(table.settings.temperature);
    const isLive = table.cursor === table.moves.length;
    this.undo.disabled = !isLive || table.cursor === 0 && !table.result;  // a resignation is taken back, too
    this.pass.hidden = !["go", "discs"].includes(this.game.kind);
    this.pass.disabled = table.thinking === "move" || !table.legal.some((move) => move.move === "pass");
    this.resign.disabled = Boolean(table.result) || !isLive;
    if (before?.revision !== table.revision) this.#drawGame();
    this.#drawReport();
    this.#say();
  }

  /** One line for eyes and ears: the last move, then whose turn it is or how the game ended. */
  #say() {
    const {table} = this, {players} = this.game;
    const last = table.cursor ? `${players[1 - table.to_play]} ${table.moves[table.cursor - 1]}. ` : "";
    const isThinking = table.thinking === "move" ? " – the engine thinks" : table.thinking === "review" ? " – reviewing" : "";
    const text = table.result ? `${last}${table.result}` : `${last}${players[table.to_play]} to move${isThinking}`;
    if (this.status.textContent !== text) this.status.textContent = text;
  }

  #drawGame() {
    const {table} = this;
    this.curve.draw(table.values.map((_, ply) => ply), [{name: "value", values: table.values}], table.cursor);
    this.drops.replaceChildren(...table.drops.map((drop) => element("li", {}, element("button", {class: "plain", onclick: () => this.#goTo(drop.ply)},
      `${drop.ply + 1}. ${drop.move}: ${signed(-drop.drop)}`))));
    this.moves.replaceChildren(...table.moves.map((move, index) => element("li", {},
      element("button", {class: "plain", "aria-current": index + 1 === table.cursor ? "step" : null, onclick: () => this.#goTo(index + 1)}, move))));
    const current = this.moves.querySelector("[aria-current]");
    if (current) this.moves.scrollTop = current.offsetTop - this.moves.offsetTop - this.moves.clientHeight / 2;
  }

  #drawReport() {
    if (!this.table) return;
    const {report} = this, isHere = report.ply === this.table.cursor, moves = isHere ? report.moves : [];
    const total = moves.reduce((sum, move) => sum + move.visits, 0);
    this.board.show(this.#layer(moves, total, isHere ? report.ownership : null));
    this.temperature.show([...moves].sort((a, b) => b.visits - a.visits));
    const name = this.game.players[0];
    this.numbers.textContent = moves.length ? [`${count(report.simulations)} simulations`, `value ${signed(report.value)} for ${name}`,
      report.seconds > 0 ? `${count(report.simulations / report.seconds)} a second` : "",
      report.score === null || report.score === undefined ? "" : `score ${signed(report.score, 1)}`].filter(Boolean).join(" · ") : "";
    const shown = moves.filter((move) => move.visits).slice(0, SHOWN_ROWS);
    this.rows.replaceChildren(...shown.map((move) => element("tr", {},
      element("th", {scope: "row"}, move.move), element("td", {}, count(move.visits)), element("td", {}, percent(move.prior)),
      element("td", {}, signed(move.value)), element("td", {class: "variation"}, move.variation.slice(1, 9).join(" ")))));
  }

  #layer(moves, total, ownership) {
    if (this.overlay === "ownership") return {ownership};
    if (this.overlay === "none" || !moves.length) return {};
    const isPrior = this.overlay === "prior" || !total;
    const shares = moves.map((move) => ({action: move.action, share: isPrior ? move.prior : move.visits / total}));
    return {moves: shares.filter((move) => move.share > 0.002).sort((a, b) => b.share - a.share)};
  }

  #set(change) {
    this.settings = {...this.settings, ...change};
    const {simulations, threads, temperature, analyse} = this.settings;
    this.link.send("settings", {simulations, threads, temperature, analyse});
  }

  #goTo(ply) {
    if (ply >= 0 && ply <= this.table.moves.length) this.link.send("go_to", {ply});
  }

  /** Plays at the ply that is shown: the studio refuses the move if the game has gone on meanwhile. */
  #play(action) {
    if (this.table) this.link.send("play", {action, ply: this.table.cursor});
  }

  #pass() {
    const move = this.table.legal.find((one) => one.move === "pass");
    if (move) this.#play(move.action);
  }

  async #open() {
    const [file] = this.file.files;
    this.file.value = "";
    if (!file) return;
    if (file.size > this.maxFile) {
      const size = Math.ceil(file.size / MIB * 10) / 10;
      const most = this.maxFile / MIB;
      this.link.emit("error", {request: "open", text: `${file.name}: ${size} MiB; at most ${most} MiB are read: split it`});
      return;
    }
    const bytes = new Uint8Array(await file.arrayBuffer());
    let text = "";
    for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
    this.link.send("open", {name: file.name.slice(-255), data: btoa(text)});
  }

  /** A key that no element took: steps through the game, or takes a move back. */
  key(event) {
    if (!this.table || event.target.closest?.("input, select, textarea, dialog") || event.target.closest?.("[role=gridcell]") && event.key.startsWith("Arrow")) return;
    const act = {ArrowLeft: () => this.#goTo(this.table.cursor - 1), ArrowRight: () => this.#goTo(this.table.cursor + 1),
      Home: () => this.#goTo(0), End: () => this.#goTo(this.table.moves.length), u: () => this.link.send("undo")}[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    act();
    event.preventDefault();
  }
}

function sidesOf(value) {
  const [first, second] = value.split("-");
  return {first, second};
}

/** The notations that hold the game, the usual one first. */
function notationsOf(game, all) {
  const usual = {chess: ["pgn"], shogi: ["kifu", "csa"], minishogi: ["csa"], go: ["sgf"], othello: ["sgf"], hex: ["sgf"]}[game.name] ?? [];
  return [...usual, "jsonl"].filter((name) => all.includes(name));
}

function download({name, text}) {
  const link = element("a", {href: URL.createObjectURL(new Blob([text], {type: "text/plain"})), download: name});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
