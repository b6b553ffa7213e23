"""A step in two halves is the step, and the second half may be late."""

from dataclasses import replace

import msgpack
import numpy as np
import pytest

from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.actors.evaluators.evaluator import NO_VERSION
from shusaku.actors.self_play import ActorIdentity, SelfPlay
from shusaku.common._core import Game
from shusaku.common.config.schema import SelfPlayConfig
from shusaku.common.config.search import PuctConfig
from shusaku.common.messages import Evaluation, Leaves

GAME = Game("connect_four")


def player(evaluate: PseudoRandomEvaluator, cache: int = 4096) -> SelfPlay:
    return SelfPlay(GAME, PuctConfig(simulations=12, cache=cache), SelfPlayConfig(random_plies=3), evaluate, games=8,
                    seed=4, identity=ActorIdentity(0))


def test_two_halves_are_a_step() -> None:
    evaluate = PseudoRandomEvaluator(GAME, 8)
    whole, halves = player(evaluate), player(evaluate)
    games = 0
    for _ in range(400):
        records = whole.step()
        leaves = halves.begin_step()
        others = halves.end_step(None if leaves is None else evaluate(leaves))
        games += len(records)
        assert [r.game_id for r in records] == [r.game_id for r in others]
        assert [r.actions.tolist() for r in records] == [r.actions.tolist() for r in others]
    assert games > 10
    assert whole.counters() == halves.counters()
    assert whole.snapshot() == halves.snapshot()


def test_before_the_first_weights_the_version_is_taken_as_zero() -> None:
    """A client of a server does not know yet who will answer; the answer says it."""
    evaluate = PseudoRandomEvaluator(GAME, 8, version=NO_VERSION)
    play = player(evaluate)
    leaves = play.begin_step()
    assert leaves is not None
    answer = PseudoRandomEvaluator(GAME, 8, version=3)(Leaves(*(np.array(c) for c in (
        leaves.packed, leaves.uniform, leaves.offsets, leaves.actions))))
    assert play.end_step(Evaluation(answer.logits, answer.values, 3)) == []
    assert play.counters()["evaluations"] == len(leaves)


@pytest.mark.parametrize(("of_games", "solved"), [(-1, 20), (16, 16), (0, 0)])
def test_games_may_solve_other_endings_than_play(of_games: int, solved: int) -> None:
    """Rows whose ending is solved say so by their weight."""
    search = PuctConfig(simulations=12, proven_results=True, solved_empties=20)
    play = SelfPlay(GAME, search, SelfPlayConfig(random_plies=20, solved_empties=of_games, solved_weight=0.25),
                    PseudoRandomEvaluator(GAME, 8), games=8, seed=4, identity=ActorIdentity(0))
    weights: dict[bool, set[float]] = {True: set(), False: set()}
    for record in (record for _ in range(600) for record in play.step()):
        for ply, weight in enumerate(record.row_weight.tolist()):
            if weight > 0:  # not of a random ply
                weights[42 - ply <= solved].add(weight)
    assert weights == {False: {1.0}, True: {0.25} if solved else set()}


def test_open_games_of_other_rules_are_not_gone_on_with() -> None:
    """Komi changes no size and no bit of a position, only who has won."""
    def go(komi: float) -> SelfPlay:
        game = Game("go", {"size": 5, "komi": komi})
        return SelfPlay(game, PuctConfig(simulations=4), SelfPlayConfig(), PseudoRandomEvaluator(game, 2), games=2,
                        seed=1, identity=ActorIdentity(0))

    player = go(7.5)
    player.step()
    snapshot = player.snapshot()
    go(7.5).restore(snapshot)
    with pytest.raises(ValueError, match=r"other rules: .*7\.5"):
        go(0.5).restore(snapshot)


def test_open_games_of_other_settings_are_not_gone_on_with() -> None:
    """Half of a game would have targets of one kind, half of another, under one hash."""
    def connect_four(settings: str) -> SelfPlay:
        return SelfPlay(GAME, PuctConfig(simulations=4), SelfPlayConfig(), PseudoRandomEvaluator(GAME, 2), games=2,
                        seed=1, identity=ActorIdentity(0), config_hash=settings)

    player = connect_four("one")
    player.step()
    connect_four("one").restore(player.snapshot())
    with pytest.raises(ValueError, match="other settings"):
        connect_four("another").restore(player.snapshot())


def test_open_games_of_a_game_that_had_no_choice_of_planes_are_gone_on_with() -> None:
    def connect_four(planes: str) -> SelfPlay:
        game = Game("connect_four", {"planes": planes})
        return SelfPlay(game, PuctConfig(simulations=4), SelfPlayConfig(), PseudoRandomEvaluator(game, 2), games=2,
                        seed=1, identity=ActorIdentity(0))

    player = connect_four("stones")
    for _ in range(9):
        player.step()
    state = msgpack.unpackb(player.snapshot())
    before = msgpack.packb({**state, "rules": ["connect_four", {}]})
    again = connect_four("stones")
    again.restore(before)
    assert again.snapshot() == player.snapshot()
    (first, *_) = player.open_games()
    fresh = connect_four("stones")
    fresh.resume(0, replace(first, record=replace(first.record, params={})))
    assert fresh.open_games()[0].record.actions.tolist() == first.record.actions.tolist()
    with pytest.raises(ValueError, match="other rules"):
        connect_four("threats").restore(player.snapshot())
