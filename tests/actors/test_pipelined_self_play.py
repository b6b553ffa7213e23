"""Two groups of games of one actor: the same games as alone, in another order, and always one group under way."""

from collections import deque
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inference_fixtures import GAME, ThreadTransport, weights

from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.actors.inference.client import EvaluationStoppedError, RemoteEvaluator
from shusaku.actors.inference.server import InferenceServer
from shusaku.actors.pipelined_self_play import PipelinedSelfPlay, group_games, group_seed
from shusaku.actors.self_play import ActorIdentity, SelfPlay
from shusaku.common._core import Game
from shusaku.common.config.schema import SelfPlayConfig
from shusaku.common.config.search import PuctConfig
from shusaku.common.messages import Evaluation, GameRecord, Leaves

SEARCH = PuctConfig(simulations=12, cache=512)
SELF_PLAY = SelfPlayConfig(random_plies=3)
WHO = ActorIdentity(actor=7, epoch=2, incarnation=3)


class Split:
    """An evaluator in two steps that answers at once, and keeps a diary: how many were under way at each finish()."""

    def __init__(self, game: Game = GAME) -> None:
        self._evaluate = PseudoRandomEvaluator(game, 64)
        self._answers: deque[Evaluation] = deque()
        self.version = 0
        self.under_way: list[int] = []
        self.fail_next = False

    def __call__(self, leaves: Leaves) -> Evaluation:
        self.begin(leaves)
        return self.finish()

    def begin(self, leaves: Leaves) -> None:
        answer = self._evaluate(leaves)
        self._answers.append(Evaluation(answer.logits.copy(), answer.values.copy(), answer.version))

    def finish(self) -> Evaluation:
        if self.fail_next:
            self.fail_next = False
            raise EvaluationStoppedError("told to stop")
        self.under_way.append(len(self._answers))
        return self._answers.popleft()


def content(record: GameRecord) -> bytes:
    """All of a game but its number and its place."""
    return b"|".join(
        value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode()
        for field in fields(GameRecord)
        if field.name not in ("game_id", "open_id") and (value := getattr(record, field.name)) is not None
    )


def alone(game: Game, games: int, seed: int, steps: int) -> list[GameRecord]:
    player = SelfPlay(game, SEARCH, SELF_PLAY, PseudoRandomEvaluator(game, 64), games=games, seed=seed, identity=WHO)
    return [record for _ in range(steps) for record in player.step()]


@given(st.sampled_from(("tic_tac_toe", "connect_four")), st.integers(1, 13), st.integers(0, 2**64 - 1))
@settings(deadline=None, max_examples=25)
def test_overlapping_changes_nothing_but_the_order(name: str, games: int, seed: int) -> None:
    game = Game(name)
    steps = 150
    sizes = group_games(games)
    player = PipelinedSelfPlay(game, SEARCH, SELF_PLAY, Split(game), games=games, seed=seed, identity=WHO)
    turns = [player.step() for _ in range(steps * len(sizes))]
    for group, size in enumerate(sizes):
        mine = [record for turn in turns[group :: len(sizes)] for record in turn]
        theirs = alone(game, size, group_seed(seed, group), steps)
        assert [content(record) for record in mine] == [content(record) for record in theirs]
    records = [record for turn in turns for record in turn]
    assert [record.game_id for record in records] == [(2, 7, 3, number) for number in range(len(records))]
    assert player.sequence == len(records)
    # Games that ended while the group under way was searched come with its next turn.
    assert len(records) <= player.counters()["games"] <= len(records) + games


def test_through_a_server_the_games_are_the_same() -> None:
    server = InferenceServer(GAME, lambda size: PseudoRandomEvaluator(GAME, size), sizes=[8, 32], deadline_ms=1)
    server.load(weights(0))
    transport = ThreadTransport(7, server)
    transport.max_bytes = 200  # several requests a group
    remote = RemoteEvaluator(transport, 7, GAME)
    player = PipelinedSelfPlay(GAME, SEARCH, SELF_PLAY, remote, games=20, seed=5, identity=WHO)
    turns = [player.step() for _ in range(600)]
    server.close()
    transport.close()
    for group in (0, 1):
        mine = [content(record) for turn in turns[group::2] for record in turn]
        assert mine == [content(record) for record in alone(GAME, 10, group_seed(5, group), 300)]
        assert len(mine) > 10


def test_while_one_group_is_awaited_the_other_is_under_way() -> None:
    evaluate = Split()
    player = PipelinedSelfPlay(GAME, SEARCH, SELF_PLAY, evaluate, games=16, seed=1, identity=WHO)
    for _ in range(200):
        player.step()
    assert evaluate.under_way.count(2) > 190  # fewer only where the cache knew all leaves of a group
    assert max(evaluate.under_way) == 2


def test_a_stopped_step_leaves_everything_where_it_stands() -> None:
    evaluate = Split()
    stopped = PipelinedSelfPlay(GAME, SEARCH, SELF_PLAY, evaluate, games=9, seed=3, identity=WHO)
    through = PipelinedSelfPlay(GAME, SEARCH, SELF_PLAY, Split(), games=9, seed=3, identity=WHO)
    records, expected = [], []
    for turn in range(600):
        if turn % 7 == 0:
            evaluate.fail_next = True
            try:
                records += stopped.step()  # not asked where the cache knew everything
            except EvaluationStoppedError:
                records += stopped.step()
            evaluate.fail_next = False
        else:
            records += stopped.step()
        expected += through.step()
    assert len(records) > 5
    assert [content(record) for record in records] == [content(record) for record in expected]
    assert [record.game_id for record in records] == [record.game_id for record in expected]
    assert stopped.counters() == through.counters()


def test_counters_are_of_both_groups() -> None:
    player = PipelinedSelfPlay(GAME, SEARCH, SELF_PLAY, Split(), games=8, seed=3, identity=WHO)
    for _ in range(100):
        player.step()
    counters = player.counters()
    assert counters.keys() == player._groups[0].counters().keys()
    assert counters["simulations"] == sum(group.counters()["simulations"] for group in player._groups) > 0
    assert counters["evaluations"] + counters["cache_hits"] + counters["terminals"] == counters["simulations"]


@pytest.mark.parametrize(("games", "sizes"), [(1, [1]), (2, [1, 1]), (5, [3, 2]), (64, [32, 32]),
                                              (1025, [205] * 5), (3072, [256] * 12)])
def test_games_are_split_evenly(games: int, sizes: list[int]) -> None:
    assert group_games(games) == sizes


@given(st.integers(0, 2**64 - 1), st.integers(-1000, 1000))
def test_groups_of_neighbouring_seeds_are_disjoint(seed: int, distance: int) -> None:
    """begin_anew() and careless callers make neighbouring seeds."""
    other = (seed + distance) % 2**64
    seeds = {group_seed(seed, 0), group_seed(seed, 1), group_seed(other, 0), group_seed(other, 1)}
    assert len(seeds) == (2 if distance == 0 else 4)
    assert not {seed, other} & seeds


def stream(seed: int, index: int) -> int:
    """Of the games at this place of a batch: `combine` of common/core/games/game.h."""
    mixed = (seed + 0x9E3779B97F4A7C15 * (index + 1)) % 2**64
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB % 2**64
    return mixed ^ (mixed >> 31)


@pytest.mark.parametrize("games", [8, 64, 1025, 3072])
def test_no_two_games_have_the_same_random_numbers(games: int) -> None:
    sizes = group_games(games)
    streams = {stream(group_seed(5, group), index) for group, size in enumerate(sizes) for index in range(size)}
    assert len(streams) == games


def test_no_game_is_played_twice() -> None:
    search = PuctConfig(simulations=12, cache=512, symmetries=False)
    player = PipelinedSelfPlay(Game("connect_four"), search, SELF_PLAY, Split(Game("connect_four")), games=16, seed=5,
                               identity=WHO)
    played = [tuple(record.actions.tolist()) for _ in range(2000) for record in player.step()]
    assert len(played) > 40
    assert len(set(played)) == len(played)
