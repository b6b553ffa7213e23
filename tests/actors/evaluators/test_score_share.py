"""Values that are points, too: the formula, who may use it, and what a player does with it."""

import math
from dataclasses import replace

import numpy as np
import pytest

from shusaku.actors.evaluators.score_share import ScoreShare, share_score
from shusaku.common._core import Game, Position, SearchBatch
from shusaku.common.config.schema import InferenceConfig
from shusaku.common.config.search import make_search
from shusaku.common.errors import UsageError
from shusaku.common.messages import Evaluation, Leaves
from shusaku.common.search import search_options, search_positions
from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.match.match import run
from shusaku.deploy.protocols.opening import open_network
from shusaku.deploy.run.chosen_weights import find_weights

GAME = Game("go", {"size": 5, "komi": 0.5})


class Points:
    """Has the same value everywhere; the score is that of the stones on the board."""

    version, description = 1, "points"

    def __init__(self, game: Game, value: float = 0.9) -> None:
        self._game, self._value = game, np.float32(value)

    def __call__(self, leaves: Leaves) -> Evaluation:
        count = len(leaves)
        planes = np.zeros((count, *self._game.observation_shape), np.float32)
        self._game.expand(leaves.packed, leaves.uniform, planes)
        score = planes[:, 0].sum((1, 2)) - planes[:, 8].sum((1, 2))  # [B] own stones less the opponent's
        return Evaluation(np.zeros(int(leaves.offsets[-1]), np.float32), np.full(count, self._value), 1,
                          {"score": score.astype(np.float32)})


def leaves_after(position: Position) -> Leaves:
    batch = SearchBatch(GAME, search_options(make_search("puct", simulations=1, noise=False), symmetries=False), 1, 1)
    batch.begin(0, position, 1)
    return Leaves(*batch.select(1))


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_the_value_is_the_published_formula(share: float) -> None:
    position = GAME.start()
    for move in ("c3", "pass", "b2"):  # two stones for black, white to move
        position.play(position.from_move(move))
    plain = Points(GAME)(leaves_after(position))
    assert plain.heads["score"].tolist() == [-2.0]
    shared = ScoreShare(Points(GAME), GAME, share)
    found = shared(leaves_after(position))
    expected = (1 - share) * 0.9 + share * 2 / math.pi * math.atan(-2 / (2 * 5))
    assert found.values.tolist() == pytest.approx([expected])
    assert found.heads["score"].tolist() == [-2.0]
    assert shared.version == 1
    assert shared.description == f"points, {share:g} of a value are points"


def test_a_player_who_sees_no_difference_takes_what_points_there_are() -> None:
    position = GAME.start()
    for move in ("b1", "a1", "e5", "c5"):  # a2 takes a1
        position.play(position.from_move(move))
    search = replace(make_search("puct", simulations=200, c_puct=0.1), noise=False, temperature=0.0)
    taking = position.from_move("a2")
    chosen = {share: search_positions(GAME, [position], search, ScoreShare(Points(GAME, 0), GAME, share))[0]
              for share in (0.0, 0.5)}
    assert chosen[0.5].action == taking
    index = list(chosen[0.5].actions).index(taking)
    assert chosen[0.5].visits[index] > 1.5 * chosen[0.0].visits[index]


def test_a_network_without_a_score_is_refused() -> None:
    config = compose(["game=connect_four"])
    weights = find_weights(config, "checkpoint", "shipped").weights
    with pytest.raises(UsageError, match=r"^engine\.score_share=0\.2: this network does not say the score"):
        share_score([], Game("connect_four"), weights, InferenceConfig(), 0.2, "engine.score_share")
    assert share_score([1, 2], Game("connect_four"), weights, InferenceConfig(), 0.0, "engine.score_share") == [1, 2]


def test_on_a_gpu_it_is_refused() -> None:
    weights = find_weights(compose(["game=go", "game.size=9"]), "checkpoint", "shipped").weights
    with pytest.raises(UsageError, match=r"first\.score_share=0\.2: on a GPU"):
        share_score([], Game("go", {"size": 9}), weights, InferenceConfig(device="cuda", placement="server"), 0.2,
                    "first.score_share")


@pytest.mark.parametrize(("words", "said"), [
    (["first.engine=random", "first.score_share=0.1"], r"first\.score_share=0\.1: is of a network"),
    (["first.checkpoint=shipped", "first.score_share=0.6"], r"first\.score_share=0\.6: must be"),
    (["checkpoint=shipped", "engine.score_share=-0.1"], r"engine\.score_share=-0\.1: must be"),
])
def test_what_cannot_be_is_refused(words: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        compose(words)


def test_engines_and_matches_play_with_it() -> None:
    opened = open_network(compose(["game=go", "game.size=9", "checkpoint=shipped", "engine.score_share=0.2",
                                   "engine.threads=1"]), 4)
    assert opened.evaluator.endswith("0.2 of a value are points")
    result = run(compose(["game=go", "game.size=9", "games=2", "first.checkpoint=shipped", "first.score_share=0.2",
                          "first.search.simulations=2", "second.engine=random"]), False)
    assert result["first"]["score_share"] == 0.2
