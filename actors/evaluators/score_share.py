"""Values that are points, too: a player that keeps its lead where it wins, and fights where it loses."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from shusaku.common._core import Game
from shusaku.common.config.schema import InferenceConfig
from shusaku.common.config.search import ScoreConfig, SearchConfig
from shusaku.common.errors import UsageError
from shusaku.common.messages import Evaluation, Leaves, Weights
from shusaku.common.network.tower import has_head
from shusaku.common.search import Evaluate

SCORE = "score"
SCALE = 2.0  # roots of the board's cells that are worth half of all (KataGo, static score utility)


class DescribedEvaluate(Evaluate, Protocol):
    """An evaluator that says what it is."""

    @property
    def description(self) -> str:
        """Runtime and precision, as text for the user."""


class ScoreShare:
    """An evaluator whose value is (1 - share) v + share u(s), s the points that the network expects.

    u(s) = 2 / pi * atan(s / (2 sqrt(cells))): half of all at 2 sqrt(cells) points, so that a few points never weigh as
    much as the game (KataGo, cpp/neuralnet/nninputs.cpp, ScoreValue; its static score utility, with weights of 1 and
    0.1 instead of shares).  The search values the ends of games in the same way (common/core/search/end_value.h).
    """

    def __init__(self, evaluate: DescribedEvaluate, game: Game, share: float) -> None:
        """`evaluate` answers the head `score`."""
        self._evaluate, self._share = evaluate, np.float32(share)
        _, height, width = game.observation_shape
        self._scale = np.float32(SCALE * math.sqrt(height * width))

    @property
    def version(self) -> int:
        """The version of the weights."""
        return self._evaluate.version

    @property
    def description(self) -> str:
        """Runtime, precision and share."""
        return f"{self._evaluate.description}, {self._share:g} of a value are points"

    def __call__(self, leaves: Leaves) -> Evaluation:
        """As the evaluator that it asks, with other values."""
        evaluation = self._evaluate(leaves)
        points = np.float32(2 / math.pi) * np.arctan(evaluation.heads[SCORE] / self._scale)  # [B]
        return replace(evaluation, values=(1 - self._share) * evaluation.values + self._share * points)


def score_heads(
    weights: Weights, inference: InferenceConfig, search: SearchConfig, key: str
) -> tuple[str, ...]:
    """What evaluators must answer beside policy and value for the share of `search`.  `key`: search | first.search.

    UsageError if the network does not say the score, or is not asked about it.
    """
    share = score_share_of(search)
    if not share:
        return ()
    said = f"{key}.score_share={share:g}"
    if not has_head(weights.tensors, SCORE):
        raise UsageError(f"{said}: this network does not say the score; use one that has learned it "
                         "(learner.targets) and kept it: a run directory, or its weights with "
                         "learner.publish_heads=[score]")
    if inference.is_on_gpu:
        raise UsageError(f"{said}: on a GPU the network is not asked about the score; use inference.device=cpu")
    return (SCORE,)


def share_score(evaluators: Sequence[Any], game: Game, search: SearchConfig) -> list[Any]:
    """The evaluators, which answer `score_heads`, with the share of `search`; as they are if that is 0."""
    share = score_share_of(search)
    return [ScoreShare(evaluate, game, share) for evaluate in evaluators] if share else list(evaluators)


def score_share_of(search: SearchConfig) -> float:
    """The share of points in the values of this search; 0 for a policy that has none."""
    return search.score_share if isinstance(search, ScoreConfig) else 0.0
