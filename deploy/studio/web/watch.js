// The page Watch: the games of a run as they end, step by step, with what the search said of every move.

import {Board} from "./board.js";
import {Chart} from "./chart.js";
import {choice, count, element, gauge, percent, signed, stepButtons} from "./dom.js";
import {showRun} from "./run_line.js";

const LONGEST = 1 << 20;

export class WatchPage {
  constructor(panel, link) {
    this.panel = panel;
    this.link = link;
    this.filters = {winner: "", ended_by: "", least_plies: 0, most_plies: LONGEST, least_version: 0};
    this.number = 0;  // of the game that is shown
    this.ply = 0;
    link.on("games", (message) => this.#takeGames(message));
    link.on("game", (game) => this.#takeGame(game));
    link.on("ply", (ply) => this.#takePly(ply));
    link.on("run", (run) => this.run && showRun(this.run, run));
  }

  begin(hello) {
    if (!hello.has_run) return;
    this.number = 0;
    this.game = null;
    this.run = element("p", {class: "status run", "aria-live": "off"});
    const filter = (name) => (value) => { this.filters[name] = value; this.#ask(); };
    const {winner, ended_by: ended} = this.filters;
    const number = (label, name, any = 0) => {  // an empty field is `any`
      const show = () => { input.value = this.filters[name] === any ? "" : this.filters[name]; };
      const input = element("input", {type: "number", id: `filter-${name}`, min: 0, max: LONGEST, placeholder: "any",
        onchange: () => {
          filter(name)(input.value === "" ? any : Math.min(Math.max(Math.trunc(Number(input.value)) || 0, 0), LONGEST));
          show();
        }});
      show();
      return element("div", {class: "choice"}, element("label", {for: `filter-${name}`}, label), input);
    };
    const filters = element("div", {class: "filters", role: "group", "aria-label": "Filters"},
      choice({label: "Won by", id: "filter-winner", value: winner, options: [["", "any"], ["first", "first player"], ["second", "second player"], ["draw", "drawn"]],
        change: filter("winner")}),
      choice({label: "Ended by", id: "filter-ended", value: ended, options: [["", "any"], ["rules", "rules"], ["resignation", "resignation"], ["ply_limit", "ply limit"]],
        change: filter("ended_by")}),
      number("Plies from", "least_plies"), number("to", "most_plies", LONGEST), number("Version from", "least_version"));
    this.follow = element("input", {type: "checkbox", id: "follow", checked: Boolean(this.follow?.checked)});
    this.totals = element("p", {class: "numbers", "aria-live": "off"});
    this.rows = element("tbody");
    this.board = new Board({label: "Watched game"});
    this.status = element("p", {class: "status", "aria-live": "polite"}, "Choose a game");
    this.curve = new Chart({label: "Values of the watched game", height: 170, range: [-1, 1], xTitle: "ply", leastX: 10, pick: (ply) => this.#goTo(ply)});
    this.policy = element("div", {class: "bars"});
    this.facts = element("p", {class: "numbers"});
    const steps = stepButtons((name) => this.#goTo({first: 0, back: this.ply - 1, on: this.ply + 1, last: LONGEST}[name]));
    this.panel.replaceChildren(this.run, element("div", {class: "columns"},
      element("div", {class: "main"}, this.status, this.board.node, steps),
      element("div", {class: "side"}, element("section", {class: "panel", "aria-labelledby": "move-title"},
        element("h2", {id: "move-title"}, "The search at this move"), this.facts, this.policy),
        element("section", {class: "panel", "aria-labelledby": "watch-value"}, element("h2", {id: "watch-value"}, "Value, first player's view"), this.curve.node)),
      element("section", {class: "panel side", "aria-labelledby": "games-title"}, element("h2", {id: "games-title"}, "Games as they end"), filters,
        element("div", {class: "choice"}, element("label", {for: "follow"}, "Show each new game"), this.follow), this.totals,
        element("div", {class: "scroll tall", tabindex: "0", role: "region", "aria-label": "Games"}, element("table", {class: "games"},
          element("thead", {}, element("tr", {}, ...["Game", "Result", "Plies", "Version"].map((name) => element("th", {scope: "col"}, name)))), this.rows)))));
  }

  /** A key that no element took: steps through the game. */
  key(event) {
    const step = {ArrowLeft: -1, ArrowRight: 1, Home: -LONGEST, End: LONGEST}[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, select, [role=gridcell]")) return;
    this.#goTo(this.ply + step);
    event.preventDefault();
  }

  show() {
    this.#ask();
  }

  hide() {
    this.link.send("leave");
  }

  #ask() {
    this.link.send("watch", this.filters);
  }

  #takeGames({games, total, trouble}) {
    this.totals.textContent = trouble ? `No games come: ${trouble}` : `${count(total)} games seen, ${games.length} listed`;
    this.rows.replaceChildren(...games.map((game) => element("tr", {class: game.number === this.number ? "current" : null},
      element("th", {scope: "row"}, element("button", {class: "plain", onclick: () => this.#open(game.number),
        "aria-label": `Game ${game.number}: ${game.result}, ${game.plies} plies`}, `${game.number}`)),
      element("td", {}, game.result + (game.ended_by === "resignation" ? " (resigned)" : "")), element("td", {}, count(game.plies)), element("td", {}, String(game.version)))));
    const newest = games[0]?.number;
    if (newest && newest !== this.number && (this.follow.checked || !this.number)) this.#open(newest);
  }

  #open(number) {
    this.number = number;
    this.link.send("game", {number});
  }

  #takeGame(game) {
    this.game = game;
    this.number = game.number;
    for (const row of this.rows.children) row.classList.toggle("current", row.querySelector("button").textContent === String(game.number));
    this.board.begin(game.game);
    this.#goTo(this.follow.checked ? LONGEST : 0);
  }

  #goTo(ply) {
    if (!this.game) return;
    this.ply = Math.min(Math.max(ply, 0), this.game.moves.length);
    this.link.send("ply", {number: this.number, ply: this.ply});
  }

  #takePly({number, ply, board, policy, played}) {
    if (number !== this.number || ply !== this.ply || !this.game) return;
    const {game} = this, {players} = game.game;
    this.board.draw({...board, legal: board.legal});
    const names = new Map(board.legal.map((move) => [move.action, move.move]));
    const shares = policy.map((one) => ({...one, move: names.get(one.action)})).sort((a, b) => b.share - a.share);
    this.board.show({moves: shares.filter((one) => one.share >= 0.005), hasDots: false});
    this.policy.replaceChildren(...shares.slice(0, 10).map((one) => element("div", {class: `bar${one.action === played ? " played" : ""}`},
      element("span", {class: "name"}, one.move + (one.action === played ? " ✓" : "")), gauge(one.share, `Share of ${one.move}`),
      element("span", {class: "number"}, percent(one.share)))));
    const last = ply ? `Ply ${ply}: ${players[1 - board.to_play]} ${game.moves[ply - 1]}. ` : "";
    this.status.textContent = ply === game.moves.length ? `${last}${game.result}${game.ended_by === "resignation" ? " by resignation" : ""}` : `${last}${players[board.to_play]} to move`;
    this.facts.textContent = ply === game.moves.length ? `Game ${number} is over.`
      : game.kinds[ply] === "opening" ? `Plays ${game.moves[ply]} · drawn without a search · version ${game.versions[ply]}`
        : `Plays ${game.moves[ply]} · ${game.kinds[ply]} search ${signed(game.values[ply])} · network ${signed(game.raw_values[ply])} · version ${game.versions[ply]}`;
    this.curve.draw(game.values.map((_, index) => index), [{name: "search", values: game.values}, {name: "network alone", values: game.raw_values, dash: true}], ply);
  }
}
