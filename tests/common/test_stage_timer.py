"""Where the time of self-play goes: the parts add up, each is charged with its own, and waiting is told apart."""

import numpy as np
import pytest

from shusaku.actors.evaluators.network import NetworkEvaluator
from shusaku.actors.self_play import ActorIdentity, SelfPlay
from shusaku.common._core import Game
from shusaku.common.config.schema import SelfPlayConfig
from shusaku.common.config.search import PuctConfig
from shusaku.common.messages import Weights
from shusaku.common.metrics import TimeShares
from shusaku.common.stage_timer import STAGES, StageTimer, shares


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_every_second_is_charged_once() -> None:
    clock = Clock()
    timer = StageTimer(clock)
    for seconds, part in ((1.0, "select"), (0.25, "network"), (2.0, "select"), (0.5, "wait")):
        clock.now += seconds
        timer.charge(part)
    assert timer.seconds == {**dict.fromkeys(STAGES, 0.0), "select": 3.0, "network": 0.25, "wait": 0.5}
    assert timer.counters()["select_us"] == 3_000_000
    assert sum(timer.seconds.values()) == clock.now - 100.0


def test_shares_are_of_the_time_between_two_counters() -> None:
    before = {"select_us": 10, "network_us": 100, "games": 3}
    after = {"select_us": 40, "network_us": 170, "games": 900}
    got = shares(before, after)
    assert got["select"] == pytest.approx(0.3)
    assert got["network"] == pytest.approx(0.7)
    assert tuple(got) == STAGES
    assert shares(after, after) == {}


def test_shares_of_the_last_seconds() -> None:
    clock = Clock()
    recent = TimeShares(window=10.0, clock=clock)
    assert recent.update({"wait_us": 5}) == {}
    for _ in range(30):  # the first half of the time belongs to waiting and is forgotten
        clock.now += 1
        seconds = clock.now - 100.0
        got = recent.update({"wait_us": min(seconds, 15) * 1e6, "network_us": max(0.0, seconds - 15) * 1e6})
    assert got["network"] == pytest.approx(1.0)
    assert got["wait"] == 0


class TickingClock(Clock):
    """Every look at it takes a microsecond, so that no part is free."""

    def __call__(self) -> float:
        self.now += 1e-6
        return self.now


class SlowRuntime:
    """Takes 5 ms of the clock for every batch."""

    description = "slow"

    def __init__(self, game: Game, size: int, clock: Clock) -> None:
        c, h, w = game.observation_shape
        self.inputs = np.zeros((size, h, w, c), np.float32)
        self.policy = np.zeros((size, game.num_actions), np.float32)
        self.values = np.zeros(size, np.float32)
        self.heads: dict[str, np.ndarray] = {}
        self._clock = clock

    def load(self, weights: Weights) -> None:
        pass

    def run(self, rows: int) -> None:
        self._clock.now += 0.005


def test_a_slow_network_is_seen_in_self_play() -> None:
    game, clock = Game("tic_tac_toe"), TickingClock()
    timer = StageTimer(clock)
    begin = clock.now
    evaluate = NetworkEvaluator(game, SlowRuntime(game, 8, clock), timer)
    evaluate.load(Weights(1, 0, {}, {}, game.name, {}))
    play = SelfPlay(game, PuctConfig(simulations=16), SelfPlayConfig(), evaluate, games=8, seed=1,
                    identity=ActorIdentity(0), timer=timer)
    assert sum(len(play.step()) for _ in range(80)) > 0  # games that ended: without one there is nothing to record
    assert sum(timer.seconds.values()) == pytest.approx(clock.now - begin, abs=1e-9)
    assert timer.seconds["network"] == pytest.approx(80 * 0.005, rel=0.01)
    assert all(0 < timer.seconds[part] < 0.001 for part in ("select", "encode", "expand", "record"))
    assert timer.seconds["wait"] == 0
    clock.now += 0.03
    play.play(1)
    assert timer.seconds["wait"] == pytest.approx(0.03, abs=1e-4)
