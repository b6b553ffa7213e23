"""Self-play that writes into a network's own arrays plays the very games of self-play that hands arrays over."""

import numpy as np
import pytest
from numpy.typing import NDArray
from search_fixtures import plain_game_batch

from shusaku.actors.evaluators.channels_last import Inputs
from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.actors.evaluators.network import NetworkEvaluator
from shusaku.actors.self_play import ActorIdentity, SelfPlay
from shusaku.common._core import Game
from shusaku.common.config.schema import SelfPlayConfig
from shusaku.common.config.search import PuctConfig
from shusaku.common.messages import GameRecord, Weights
from shusaku.common.search import search_options
from shusaku.common.stage_timer import StageTimer

GAMES = 6


class Projection:
    """A `Runtime` without a network: fixed random sums of the planes, and now and then a number that is none."""

    precision = description = "random sums"

    def __init__(self, game: Game, size: int, is_bf16: bool, broken_share: float = 0.0) -> None:
        c, h, w = game.observation_shape
        random = np.random.default_rng(5)
        # Two thin matrices: a whole one of minishogi takes ten times as long as all the rest of the test.
        self._in = random.standard_normal((c * h * w, 8)).astype(np.float32) / 4
        self._out = random.standard_normal((8, game.num_actions + 1)).astype(np.float32) / 2
        self._random, self._broken_share = random, broken_share
        self.inputs: Inputs = np.zeros((size, h, w, c), np.uint16 if is_bf16 else np.float32)
        self.policy: NDArray[np.float32] = np.zeros((size, game.num_actions), np.float32)
        self.values: NDArray[np.float32] = np.zeros(size, np.float32)
        self.heads: dict[str, NDArray[np.float32]] = {}
        self.rows: list[int] = []

    def load(self, weights: Weights) -> None:
        pass

    def run(self, rows: int) -> None:
        self.rows.append(rows)
        is_bf16 = self.inputs.dtype == np.uint16
        planes = (self.inputs.astype(np.uint32) << 16).view(np.float32) if is_bf16 else self.inputs
        for row in range(rows):  # one by one: sums of a batch may be rounded in another order than those of a row
            said = planes[row].reshape(-1) @ self._in @ self._out
            self.policy[row], self.values[row] = said[:-1], np.tanh(said[-1])
        self.policy[rows:], self.values[rows:] = np.nan, np.nan  # nobody may read these
        self.policy[:rows][self._random.random(rows) < self._broken_share] = np.inf


class HandedOver(NetworkEvaluator):
    """A type of its own, into whose arrays self-play does not reach."""


def player(
    game: Game, kind: type[NetworkEvaluator], *, size: int = GAMES, is_bf16: bool = False, broken_share: float = 0.0,
    cache: int = 512,
) -> tuple[SelfPlay, Projection]:
    runtime, timer = Projection(game, size, is_bf16, broken_share), StageTimer()
    evaluator = kind(game, runtime, timer)
    evaluator.load(Weights(3, 0, {}, {}, game.name, {}))
    search = PuctConfig(simulations=6, cache=cache)
    return SelfPlay(game, search, SelfPlayConfig(random_plies=4), evaluator, games=GAMES, seed=2,
                    identity=ActorIdentity(1), timer=timer), runtime


def columns(records: list[GameRecord]) -> list[tuple[object, ...]]:
    return [(r.game_id, r.outcome, r.ended_by, r.actions.tolist(), r.policy_actions.tolist(), r.policy_shares.tolist(),
             r.root_values.tolist(), r.raw_values.tolist(), r.versions.tolist()) for r in records]


@pytest.mark.parametrize("is_bf16", [False, True])
@pytest.mark.parametrize(("name", "params", "broken_share"), [
    ("tic_tac_toe", {}, 0.0), ("connect_four", {}, 0.0), ("connect_four", {}, 0.02), ("go", {"size": 5}, 0.0),
    ("minishogi", {}, 0.0),
])
def test_the_same_games_come_out(name: str, params: dict[str, int], broken_share: float, is_bf16: bool) -> None:
    game = Game(name, params)
    attached, runtime = player(game, NetworkEvaluator, size=GAMES + 3, is_bf16=is_bf16, broken_share=broken_share)
    handed, other = player(game, HandedOver, size=GAMES + 3, is_bf16=is_bf16, broken_share=broken_share)
    games = 0
    for _ in range(500):
        ours, theirs = attached.step(), handed.step()
        assert columns(ours) == columns(theirs)
        games += len(ours)
    assert games > 2
    assert attached.counters() == handed.counters()
    assert attached.counters()["cache_hits"] > 0
    assert (attached.counters()["non_finite"] > 0) == (broken_share > 0)
    assert attached.snapshot() == handed.snapshot()
    assert runtime.rows == other.rows
    spent = attached.timer.counters()
    assert all(spent[f"{part}_us"] > 0 for part in ("select", "encode", "network", "expand", "record"))


def test_it_goes_on_from_a_snapshot() -> None:
    game = Game("connect_four")
    stopped, _ = player(game, NetworkEvaluator, cache=0)  # what is cached decides in which step a game ends
    for _ in range(40):
        stopped.step()
    resumed, _ = player(game, NetworkEvaluator, cache=0)
    resumed.restore(stopped.snapshot())
    resumed.begin_anew(resumed.sequence)
    resumed.step()
    resumed.restore(stopped.snapshot())
    for _ in range(100):
        assert columns(stopped.step()) == columns(resumed.step())


def test_a_batch_smaller_than_the_games_is_handed_over_in_parts() -> None:
    game = Game("connect_four")
    small, runtime = player(game, NetworkEvaluator, size=GAMES - 1, cache=0)
    whole, _ = player(game, NetworkEvaluator, cache=0)
    for _ in range(200):
        assert columns(small.step()) == columns(whole.step())
    assert set(runtime.rows) == {GAMES - 1, 1}


def test_without_weights_nothing_is_played() -> None:
    game = Game("connect_four")
    evaluator = NetworkEvaluator(game, Projection(game, GAMES, False))
    play = SelfPlay(game, PuctConfig(), SelfPlayConfig(), evaluator, games=GAMES, seed=1, identity=ActorIdentity(0))
    with pytest.raises(RuntimeError, match="before it had weights"):
        play.step()


def test_other_evaluators_are_handed_over_to() -> None:
    game = Game("connect_four")
    evaluate = PseudoRandomEvaluator(game, 4)
    play = SelfPlay(game, PuctConfig(simulations=2), SelfPlayConfig(), evaluate, games=4, seed=1,
                    identity=ActorIdentity(0))
    for _ in range(10):
        play.step()
    assert play.counters()["evaluations"] > 0


def test_arrays_that_do_not_fit_are_refused() -> None:
    game = Game("go", {"size": 5})
    batch = plain_game_batch(game, search_options(PuctConfig(), symmetries=True), 4, 1)
    c, h, w = game.observation_shape
    inputs, policy = np.zeros((4, h, w, c), np.float32), np.zeros((4, game.num_actions), np.float32)
    values = np.zeros(4, np.float32)
    for call in (batch.encode_attached, lambda: batch.select_attached(1), lambda: batch.expand_attached(1)):
        with pytest.raises(ValueError, match=r"call attach\(\) first"):
            call()
    for other, why in [
        ((inputs[:3].copy(), policy, values), "3 positions, fewer than the 4 leaves"),
        ((np.zeros((4, c, h, w), np.float32), policy, values), r"inputs must be \[S, H, W, C\]"),
        ((inputs, policy[:, :-1].copy(), values), r"policy must be \[S, A\]"),
        ((inputs, policy[:3].copy(), values), r"policy must be \[S, A\]"),
        ((inputs, policy, values[:3].copy()), r"values must be \[S\]"),
    ]:
        with pytest.raises(ValueError, match=why):
            batch.attach(*other)
    with pytest.raises(TypeError):  # a copy of another type would be written to, and read by nobody
        batch.attach(inputs.astype(np.float64), policy, values)
    with pytest.raises(TypeError):
        batch.attach(inputs, policy, values.astype(np.float64))  # type: ignore[arg-type]
    batch.attach(inputs, policy, values)
    assert batch.select_attached(1) > 0
