"""Values that are points, too: the formula, who may use it, and what a player does with it."""

import math
from dataclasses import replace

import numpy as np
import pytest

from shusaku.actors.analysis.analysis import Analysis, Limits
from shusaku.actors.evaluators.score_share import ScoreShare, score_heads, share_score
from shusaku.common._core import Game, Position, SearchBatch
from shusaku.common.config.rules import check_self_play
from shusaku.common.config.schema import InferenceConfig
from shusaku.common.config.search import PuctConfig, make_search
from shusaku.common.errors import UsageError
from shusaku.common.messages import Evaluation, Leaves
from shusaku.common.search import search_options, search_positions
from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.commands.evaluate import run as evaluate
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
    with pytest.raises(UsageError, match=r"^search\.score_share=0\.2: this network does not say the score"):
        score_heads(weights, InferenceConfig(), PuctConfig(score_share=0.2), "search")
    for search in (PuctConfig(), make_search("policy_only")):
        assert score_heads(weights, InferenceConfig(), search, "search") == ()
        assert share_score([1, 2], Game("connect_four"), search) == [1, 2]
    for player in ("first", "second"):
        other = "second" if player == "first" else "first"
        with pytest.raises(UsageError, match=rf"^{player}\.search\.score_share=0\.2: this network does not say"):
            run(compose([f"{player}.checkpoint=shipped", f"{player}.search.score_share=0.2", f"{other}.engine=random",
                         "game=connect_four", "games=2"]), False)
    with pytest.raises(UsageError, match=r"^search\.score_share=0\.2: this network does not say the score"):
        open_network(compose(["checkpoint=shipped", "game=connect_four", "search.score_share=0.2"]), 4)


def test_on_a_gpu_it_is_refused() -> None:
    weights = find_weights(compose(["game=go", "game.size=9"]), "checkpoint", "shipped").weights
    with pytest.raises(UsageError, match=r"first\.search\.score_share=0\.2: on a GPU"):
        score_heads(weights, InferenceConfig(device="cuda", placement="server"), PuctConfig(score_share=0.2),
                    "first.search")


@pytest.mark.parametrize(("words", "said"), [
    (["first.checkpoint=shipped", "first.search.score_share=0.6"], r"first\.search\.score_share=0\.6: must be"),
    (["checkpoint=shipped", "game=connect_four", "search.score_share=-0.1"], r"search\.score_share=-0\.1: must be"),
    (["search=policy_only", "search.score_share=0.1"], "policy_only does not read it"),
    (["search=alphago", "search.score_share=0.1"], "alphago does not read it"),
])
def test_what_cannot_be_is_refused(words: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        open_network(compose(words), 4)


def test_training_and_exact_sets_know_who_wins_alone() -> None:
    with pytest.raises(UsageError, match=r"search\.score_share=0\.1: self-play learns who wins"):
        check_self_play(compose(["experiment=go_9x9", "search.score_share=0.1"]))
    with pytest.raises(UsageError, match=r"search\.score_share=0\.1: evaluate counts who wins"):
        evaluate(compose(["checkpoint=shipped", "game=connect_four", "search.score_share=0.1"]), False)


def ended(game: Game, *moves: str) -> Position:
    position = game.start()
    for move in moves:
        position.play(position.from_move(move))
    return position


@pytest.mark.parametrize("policy", ["puct", "gumbel"])
@pytest.mark.parametrize("proven_results", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_the_end_of_a_game_counts_its_points(policy: str, share: float, *, proven_results: bool) -> None:
    position = ended(GAME, "c3", "pass")  # a pass ends it: black has all 25 points, 24.5 with komi
    search = make_search(policy, simulations=60, noise=False, temperature=0.0, gumbel_scale=0.0, score_share=share,
                         proven_results=proven_results, considered_actions=26)
    [result] = search_positions(GAME, [position], search, ScoreShare(Points(GAME, 0), GAME, share))
    index = list(result.actions).index(position.from_move("pass"))
    expected = (1 - share) + share * 2 / math.pi * math.atan(24.5 / (2 * 5))
    assert result.q_values[index] == pytest.approx(expected, abs=1e-6)
    assert np.isnan(result.proven_values[index]) == (not proven_results or share > 0)
    analysis = Analysis(GAME, [ScoreShare(Points(GAME, 0), GAME, share)], search, leaves=1)
    analysis.set_position(position)
    analysis.start(Limits(60))
    analysis.wait()
    report = analysis.report()
    analysis.close()
    [of_pass] = [move for move in report.moves if move.action == position.from_move("pass")]
    assert of_pass.value == pytest.approx(expected, abs=1e-6)


class Lost:
    """White has as good as lost everywhere, and would lose the whole board if the game went on."""

    version, description = 1, "lost"

    def __call__(self, leaves: Leaves) -> Evaluation:
        planes = np.zeros((len(leaves), *GAME.observation_shape), np.float32)
        GAME.expand(leaves.packed, leaves.uniform, planes)
        sign = (2 * planes[:, -1, 0, 0] - 1).astype(np.float32)  # [B] 1: black is to move
        return Evaluation(np.zeros(int(leaves.offsets[-1]), np.float32), np.float32(0.98) * sign, 1,
                          {"score": 25 * sign})


@pytest.mark.parametrize("policy", ["puct", "gumbel"])
def test_who_has_lost_passes_rather_than_lose_its_stones(policy: str) -> None:
    position = ended(GAME, "c1", "d1", "c2", "d2", "c3", "d3", "c4", "d4", "c5", "d5", "pass")  # white is 5.5 behind
    action = {}
    for share in (0.0, 0.2):
        search = make_search(policy, simulations=200, noise=False, temperature=0.0, gumbel_scale=0.0, score_share=share,
                             considered_actions=26)
        [result] = search_positions(GAME, [position], search, ScoreShare(Lost(), GAME, share))
        action[share] = result.action
    assert action[0.0] != position.from_move("pass")
    assert action[0.2] == position.from_move("pass")


def test_engines_and_matches_play_with_it() -> None:
    opened = open_network(compose(["game=go", "game.size=9", "checkpoint=shipped", "search.score_share=0.2",
                                   "engine.threads=1"]), 4)
    assert opened.evaluator.endswith("0.2 of a value are points")
    result = run(compose(["game=go", "game.size=9", "games=2", "first.checkpoint=shipped", "second.engine=random",
                          "first.search.score_share=0.2", "first.search.simulations=2"]), False)
    assert result["first"]["score_share"] == 0.2
