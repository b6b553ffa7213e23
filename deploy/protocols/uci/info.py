"""`info …`: what UCI and USI tell of a search."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from shusaku.actors.analysis.report import MoveReport, Report
from shusaku.common._core import Position
from shusaku.deploy.protocols.variation import play_variation

MOST_CENTIPAWNS = 2000  # beyond it the logarithm says nothing
SURE = 0.999  # value from which a variation that ends the game counts as forced


@dataclass(frozen=True, slots=True)
class InfoStyle:
    """What a client asked to be told, and how its protocol counts."""

    multipv: int = 1
    shows_wdl: bool = False
    mate_in_plies: bool = False  # USI; UCI counts moves


def info_lines(
    report: Report, position: Position, moves: Sequence[MoveReport], style: InfoStyle, kept: int
) -> list[str]:
    """A line for each of the best `moves`.  `kept`: simulations that were there before this search."""
    nps = round((report.simulations - kept) / report.seconds) if report.seconds > 0 else 0
    deepest = max((len(move.variation) for move in report.moves), default=1)
    counts = f"nodes {report.simulations} nps {max(0, nps)} time {round(1000 * report.seconds)}"
    lines = []
    for number, move in enumerate(moves[: style.multipv], 1):
        texts, end = play_variation(position, move.variation)
        score = f"score {_score(move.value, len(texts), end, style.mate_in_plies)}"
        wdl = f" wdl {' '.join(map(str, win_draw_loss(move.value)))}" if style.shows_wdl else ""
        lines.append(f"info depth {len(texts)} seldepth {deepest} multipv {number} {score}{wdl} {counts} "
                     f"pv {' '.join(texts)}")
    return lines


def centipawns(value: float) -> int:
    """A value in [-1, 1] as hundredths of a pawn: four pawns are odds of ten to one.

    After S. Tesche and others, "Pawn Advantage, Win Percentage, and Elo", chessprogramming.org.
    """
    bound = 1 - 1e-6
    value = max(-bound, min(bound, value))
    return max(-MOST_CENTIPAWNS, min(MOST_CENTIPAWNS, round(400 * math.log10((1 + value) / (1 - value)))))


def win_draw_loss(value: float) -> tuple[int, int, int]:
    """Per mille.  A value says wins less losses only; draws are as many as if two even games were played for each.

    With the score s = (1 + value) / 2 these are s^2, 2 s (1 - s) and (1 - s)^2.
    """
    score = (1 + max(-1.0, min(1.0, value))) / 2
    win, loss = round(1000 * score * score), round(1000 * (1 - score) * (1 - score))
    return win, 1000 - win - loss, loss


def _score(value: float, plies: int, end: Position, in_plies: bool) -> str:
    """`cp X`, or `mate N` if the variation ends the game and the value says that it is forced; -N: gets mated."""
    if abs(value) >= SURE and end.is_terminal and end.outcome != 0:
        distance = plies if in_plies else (plies + 1) // 2
        return f"mate {distance if value > 0 else -distance}"
    return f"cp {centipawns(value)}"
