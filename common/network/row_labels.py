"""Which labels the replay computes for its rows, for `learner.targets`; without torch, so that a driver can use it."""

import math
import random
from dataclasses import dataclass

from shusaku.common._core import Game
from shusaku.common.config.schema import LearnerConfig
from shusaku.common.errors import UsageError

# Plies per cell of the board by which a horizon is longer than one ply: 64, 21 and 7 plies on 19x19, 8, 3 and 2 in
# connect four (KataGo: cpp/dataio/trainingwrite.cpp, calls of fillValueTDTargets).
PLIES_A_CELL = (0.176, 0.056, 0.016)


@dataclass(frozen=True, slots=True)
class RowLabels:
    """Options of `common._core.RowRing`; without any the rows have policy and outcome alone."""

    horizons: tuple[float, ...] = ()  # of the short-term values, in plies, at least 1 each
    blunder_gap: float = 0.0  # the outcome is corrected after a move that loses more than this; 0: never
    blunder_width: float = 0.0  # of the transition around the gap
    ownership: bool = False
    score: bool = False
    reply: bool = False
    value_lambda: float = 0.0  # root values become lambda-returns; 0: they stay as searched
    is_cut_searched: bool = False  # a game that the ply limit cut off ends with what its last search said
    solved_empties: int = 0  # values of plies with at most so many empty cells are exact, and z of all before
    solved_policies: bool = False  # and the policies there keep only the actions that hold the result


def row_labels(game: Game, config: LearnerConfig) -> RowLabels:
    """The labels that the targets need; UsageError with the reason if the game cannot give them."""
    targets = config.targets
    if "ownership" in targets:
        _check_ownership(game)
    if "score" in targets:
        _check_score(game)
    return RowLabels(
        horizons=horizons(game) if "short_term" in targets else (), blunder_gap=config.blunder_gap,
        blunder_width=config.blunder_width if config.blunder_gap else 0.0,
        ownership="ownership" in targets, score="score" in targets, reply="reply" in targets,
        value_lambda=config.value_lambda if config.root_value_share else 0.0,
        is_cut_searched=config.cut_off_value == "search",
        solved_empties=config.solved_empties,
        solved_policies=config.solved_policies if config.solved_empties else False,
    )


def horizons(game: Game) -> tuple[float, ...]:
    """The horizons [K] of the short-term values, in plies."""
    _, height, width = game.observation_shape
    return tuple(1 + factor * height * width for factor in PLIES_A_CELL)


def _check_ownership(game: Game) -> None:
    try:
        game.start().ownership  # noqa: B018 - raises if the game has none
    except ValueError as error:
        raise _unavailable("ownership", f"{error}, so no player owns any at the end") from None


def _check_score(game: Game) -> None:
    """Plays one random game, because only a final position has a score."""
    position, generator = game.start(), random.Random(1)
    while not position.is_terminal:
        position.play(generator.choice(position.legal_actions))
    if math.isnan(position.score):
        raise _unavailable("score", f"{game.name} counts no points, so a game has none at its end")


def _unavailable(target: str, reason: str) -> UsageError:
    return UsageError(f"learner.targets names {target}: {reason}; leave {target} out")
