// How a piece looks, and what a screen reader calls it.

import {svg} from "./dom.js";

const CHESS_SPRITE = "vendor/chess_pieces/standard.svg";
const CHESS_NAMES = {p: "pawn", n: "knight", b: "bishop", r: "rook", q: "queen", k: "king"};
const SHOGI = {  // kanji, name
  P: ["歩", "pawn"], L: ["香", "lance"], N: ["桂", "knight"], S: ["銀", "silver"], G: ["金", "gold"],
  B: ["角", "bishop"], R: ["飛", "rook"], K: ["玉", "king"],
  "+P": ["と", "promoted pawn"], "+L": ["杏", "promoted lance"], "+N": ["圭", "promoted knight"],
  "+S": ["全", "promoted silver"], "+B": ["馬", "horse"], "+R": ["龍", "dragon"],
};
const SHAPES = {marks: "mark", drops: "disc", discs: "disc", go: "stone", hex: "stone"};

let isLettered = !hasGlyph("歩");

/** Whether pieces of shogi show the letters of SFEN instead of kanji; at first, if no font of the system has these. */
export function showLetters(isSo) {
  isLettered = isSo;
}

export function showsLetters() {
  return isLettered;
}

/** Whether the sign looks different from one that no font has. */
function hasGlyph(sign) {
  const picture = (text) => {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = 24;
    const context = canvas.getContext("2d");
    context.font = "18px serif";
    context.fillText(text, 2, 20);
    return context.getImageData(0, 0, 24, 24).data.join();
  };
  return picture(sign) !== picture("\u{10fffe}");
}

/** 0 or 1: whose piece it is. */
export function ownerOf(game, piece) {
  if (game.kind === "chess" || game.kind === "shogi") return piece === piece.toLowerCase() ? 1 : 0;
  return piece === "X" ? 0 : 1;
}

export function pieceName(game, piece) {
  const player = game.players[ownerOf(game, piece)];
  if (game.kind === "chess") return `${player} ${CHESS_NAMES[piece.toLowerCase()]}`;
  if (game.kind === "shogi") return `${player} ${SHOGI[piece.toUpperCase()][1]}`;
  return game.kind === "marks" ? player : `${player} ${SHAPES[game.kind]}`;
}

/** The piece around the point (x, y) of a cell of this size. */
export function drawPiece(game, piece, x, y, size, isFlipped) {
  const owner = ownerOf(game, piece), classes = `piece player${owner}`;
  if (game.kind === "chess") {
    const id = (owner ? "b" : "w") + piece.toLowerCase();
    return svg("g", {class: classes}, svg("use", {href: `${CHESS_SPRITE}#${id}`, x: x - size / 2, y: y - size / 2, width: 40, height: 40}));
  }
  if (game.kind === "shogi") return drawShogi(piece, x, y, size, (owner === 1) !== Boolean(isFlipped), classes);
  if (game.kind === "marks") return drawMark(piece, x, y, size, classes);
  const radius = size * (game.kind === "go" ? 0.46 : game.kind === "hex" ? 0.36 : 0.4);
  const group = svg("g", {class: classes}, svg("circle", {cx: x, cy: y, r: radius}));
  group.append(svg("circle", {class: "shine", cx: x - radius * .25, cy: y - radius * .3, r: radius * .45}));
  return group;
}

function drawMark(piece, x, y, size, classes) {
  const r = size * 0.27;
  return svg("g", {class: `${classes} mark`}, piece === "X"
    ? svg("path", {d: `M${x - r} ${y - r}L${x + r} ${y + r}M${x + r} ${y - r}L${x - r} ${y + r}`})
    : svg("circle", {cx: x, cy: y, r: r * 1.1}));
}

function drawShogi(piece, x, y, size, isTurned, classes) {
  const h = size * 0.46, w = size * 0.38;
  const outline = [[0, -h], [w * .75, -h * .68], [w, h * .92], [-w, h * .92], [-w * .75, -h * .68]];
  const text = isLettered ? piece.toUpperCase() : piece === "k" ? "王" : SHOGI[piece.toUpperCase()][0];
  const group = svg("g", {transform: `translate(${x} ${y})${isTurned ? " rotate(180)" : ""}`},
    svg("polygon", {points: outline.map((point) => point.join(",")).join(" ")}),
    svg("text", {class: piece.startsWith("+") ? "kanji promoted" : "kanji", y: size * 0.18}, text));
  return svg("g", {class: classes}, group);
}
