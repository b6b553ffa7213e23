"""Leaves with actions go to the policy network, leaves without to the value network, each with its own planes."""

import numpy as np
import pytest

from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.actors.evaluators.two_networks import TwoNetworks, answer_both, has_policy
from shusaku.common._core import Game, SearchBatch
from shusaku.common.config.search import PuctConfig
from shusaku.common.messages import Evaluation, Leaves
from shusaku.common.search import search_options


def leaves_of(game: Game, with_actions: list[bool]) -> Leaves:
    """Positions after 0, 1, 2, ... first moves."""
    batch = SearchBatch(game, search_options(PuctConfig(cache=0), symmetries=False), len(with_actions), 0)
    position = game.start()
    for index in range(len(with_actions)):
        batch.begin(index, position, 0)
        position.play(position.legal_actions[0])
    full = Leaves(*batch.select(0))
    parts = np.split(full.actions, full.offsets[1:-1])
    kept = [part if has else part[:0] for part, has in zip(parts, with_actions, strict=True)]
    offsets = np.cumsum([0, *map(len, kept)]).astype(np.int32)
    return Leaves(full.packed.copy(), full.uniform.copy(), offsets, np.concatenate(kept))


class Recorder:
    """Remembers the leaves that it was asked about; answers row by row in numbers of its own."""

    version = 7

    def __init__(self, base: float) -> None:
        self.base = base
        self.asked: list[Leaves] = []

    def __call__(self, leaves: Leaves) -> Evaluation:
        self.asked.append(leaves)
        return Evaluation(self.base + leaves.actions.astype(np.float32),
                          (self.base + np.arange(len(leaves))).astype(np.float32), self.version)


def test_each_network_sees_its_leaves() -> None:
    game = Game("connect_four")
    leaves = leaves_of(game, [True, False, False, True, False])
    policy, value = Recorder(100), Recorder(200)
    evaluation = TwoNetworks(policy, value)(leaves)
    np.testing.assert_array_equal(evaluation.logits, 100 + leaves.actions)
    np.testing.assert_array_equal(evaluation.values, [0, 200, 201, 0, 202])
    np.testing.assert_array_equal(policy.asked[0].packed, leaves.packed[[0, 3]])
    np.testing.assert_array_equal(value.asked[0].packed, leaves.packed[[1, 2, 4]])
    assert policy.asked[0].offsets.tolist() == [0, *np.diff(leaves.offsets)[[0, 3]].cumsum()]
    assert (len(value.asked[0].actions), value.asked[0].offsets.tolist()) == (0, [0, 0, 0, 0])


def test_a_network_with_both_heads_answers_both_and_alone_the_same() -> None:
    game = Game("connect_four")
    leaves = leaves_of(game, [False, True, True, False, True])
    network = PseudoRandomEvaluator(game, 8)
    alone = network(leaves)
    logits, values = alone.logits.copy(), alone.values.copy()
    both = TwoNetworks(network, network)(leaves)
    np.testing.assert_array_equal(both.logits, logits)
    np.testing.assert_array_equal(both.values[[0, 3]], values[[0, 3]])


def test_a_policy_network_may_see_48_planes_and_a_value_network_49() -> None:
    games = {planes: Game("go", {"size": 5, "planes": planes}) for planes in ("alphago", "alphago_value")}
    leaves = leaves_of(games["alphago_value"], [True, False, True])
    policy, value = Recorder(0), Recorder(0)
    TwoNetworks(policy, value, policy_game=games["alphago"])(leaves)
    expected = leaves_of(games["alphago"], [True, True, True])
    np.testing.assert_array_equal(policy.asked[0].packed, expected.packed[[0, 2]])
    np.testing.assert_array_equal(policy.asked[0].uniform, expected.uniform[[0, 2]])
    np.testing.assert_array_equal(value.asked[0].packed, leaves.packed[1:2])
    np.testing.assert_array_equal(value.asked[0].uniform, leaves.uniform[1:2])
    assert value.asked[0].uniform.shape[1] == policy.asked[0].uniform.shape[1] + 1


def test_a_missing_network_is_an_error_only_if_it_is_asked() -> None:
    game = Game("connect_four")
    networks = TwoNetworks(None, Recorder(0))
    assert not has_policy(networks)
    assert len(networks(leaves_of(game, [False, False])).values) == 2
    with pytest.raises(ValueError, match="a network that it was not given"):
        networks(leaves_of(game, [True]))
    assert has_policy(Recorder(0))


def test_both_are_asked_about_every_position_by_those_who_do_not_search() -> None:
    game = Game("connect_four")
    leaves = leaves_of(game, [True, True, True])
    both = answer_both(TwoNetworks(Recorder(100), Recorder(200)), leaves)
    np.testing.assert_array_equal(both.logits, 100 + leaves.actions)
    np.testing.assert_array_equal(both.values, [200, 201, 202])
    policy = answer_both(TwoNetworks(Recorder(100), None), leaves)
    np.testing.assert_array_equal(policy.logits, 100 + leaves.actions)
    assert not policy.values.any()
    value = answer_both(TwoNetworks(None, Recorder(200)), leaves)
    assert not value.logits.any()
    np.testing.assert_array_equal(value.values, [200, 201, 202])
    alone = Recorder(5)
    assert answer_both(alone, leaves).values.tolist() == [5, 6, 7]
    assert alone.asked == [leaves]
