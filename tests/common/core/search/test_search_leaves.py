"""search.leaves: several walks of one search wait for the network together, against the slow reference."""


import numpy as np
import pytest
from reference_graph import WaitingPuct, waiting_search
from scripted_evaluator import ScriptedEvaluator
from search_fixtures import (
    assert_proofs_are_true,
    late_positions,
    plain_game_batch,
    random_positions,
    scripted,
    search_all,
)

from shusaku.actors.arena.strength_sets import strength_set
from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.common._core import Game, SearchBatch
from shusaku.common.config.search import PuctConfig
from shusaku.common.messages import Leaves
from shusaku.common.search import search_options, search_positions


def config_of(simulations, leaves, **changes):
    return PuctConfig(**{"simulations": simulations, "leaves": leaves, "noise": False,
                           "temperature": 0, "cache": 0, "c_puct": 1.7, "fpu_reduction": 0.3, "root_fpu_reduction": 0.1,
                           **changes})


@pytest.mark.parametrize("fpu", ["zero", "loss"])
def test_unvisited_actions_have_the_value_that_is_asked_for_beside_waiting_ones(fpu):
    game = Game("connect_four")
    positions, rule = random_positions(game, 6, seed=9), WaitingPuct(1.7, 0.3, 0.1, fpu=fpu)
    found = search_all(game, positions, config_of(200, 5, fpu=fpu), range(len(positions)))
    for position, result in zip(positions, found, strict=True):
        root = waiting_search(position, lambda p: scripted(p.observation(), 7), 200, rule, 5)
        assert result.visits.tolist() == root.visits.tolist(), str(position)


@pytest.mark.parametrize("leaves", [1, 2, 5, 16])
@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four", "othello"])
@pytest.mark.parametrize("simulations", [1, 2, 17, 200])
def test_it_grows_the_golden_tree(name, simulations, leaves):
    """Mean values are the reference's to the last bit: nothing is left of the visits that waiting walks stood for."""
    game = Game(name)
    count = 1 if name == "othello" else 4
    positions = random_positions(game, count, seed=simulations) + late_positions(game, count, seed=simulations)
    rule, config = WaitingPuct(1.7, 0.3, 0.1), config_of(simulations, leaves)

    def evaluate(position):
        return scripted(position.observation(), game.num_actions)

    for position, result in zip(positions, search_all(game, positions, config, range(len(positions))), strict=True):
        root = waiting_search(position, evaluate, simulations, rule, leaves)
        assert result.visits.tolist() == root.visits.tolist(), str(position)
        assert result.visits.sum() == simulations
        visited = root.visits > 0
        q_values = (root.value_sum[visited] / root.visits[visited]).astype(np.float32)
        np.testing.assert_array_equal(result.q_values[visited], q_values)
        assert result.action == rule.conclude(root)[0]


def test_rows_of_a_call_are_as_many_as_are_asked_for_and_all_different():
    game = Game("connect_four")
    evaluate = PseudoRandomEvaluator(game, 64)
    config = config_of(200, 8, graph=True)  # in a tree, different leaves may be the same position
    batch = SearchBatch(game, search_options(config, symmetries=False), 3, 0)
    for slot in range(3):
        batch.begin(slot, game.start(), slot)
    sizes = []
    while not batch.is_done():
        leaves = Leaves(*batch.select(0))
        if len(leaves):
            sizes.append(len(leaves))
            assert len({leaves.packed[row].tobytes() for row in range(len(leaves))}) == len(leaves) // 3
            answer = evaluate(leaves)
            batch.expand_and_backup(answer.logits, answer.values, 0)
    assert sizes[0] == 3  # the roots
    assert max(sizes) == 24
    assert len(sizes) < 60


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("leaves", [3, 16])
def test_every_proven_result_is_true(leaves, graph):
    """Also where a node is proven while walks below it wait."""
    known = strength_set(Game("tic_tac_toe"))
    config = config_of(100, leaves, proven_results=True, graph=graph, cache=64)
    results = search_positions(known.game, known.positions, config, PseudoRandomEvaluator(known.game, 512))
    assert assert_proofs_are_true(known.positions, results, known.results) / len(results) > 0.4
    for result in results:
        assert not (np.abs(result.q_values) > 1).any()
        assert not np.isnan(result.proven_value) or result.visits.sum() == 100


@pytest.mark.parametrize("leaves", [1, 4, 32])
def test_a_win_in_one_is_played(leaves):
    game = Game("connect_four")
    position = game.start()
    for move in "112233":
        position.play(position.from_move(move))
    evaluate = ScriptedEvaluator(game, lambda planes: (np.zeros(7, np.float32), 0.0))
    result = search_positions(game, [position], config_of(300, leaves), evaluate)[0]
    assert position.to_move(result.action) == "4"


def test_self_play_and_other_policies_refuse_it():
    game = Game("tic_tac_toe")
    options = search_options(config_of(10, 2), symmetries=False)
    with pytest.raises(ValueError, match="self-play selects one leaf"):
        plain_game_batch(game, options, 1, 1)
    for policy in ("gumbel", "mcts", "policy_only"):
        options.policy = policy
        with pytest.raises(ValueError, match=f"policy {policy} selects one leaf"):
            SearchBatch(game, options, 1, 1)


def test_a_non_finite_answer_gives_up_its_search_alone():
    """The walks of the others are theirs: before, each took up that of the row before it, in another tree."""
    game = Game("connect_four")
    evaluate = PseudoRandomEvaluator(game, 64)
    batch = SearchBatch(game, search_options(config_of(400, 16), symmetries=False), 2, 0)
    batch.begin(0, game.start(), 0)
    for _ in range(20):  # a big tree beside a small one
        rows = Leaves(*batch.select(0))
        answer = evaluate(rows)
        batch.expand_and_backup(answer.logits, answer.values, 0)
    other = game.start()
    other.play(0)
    batch.begin(1, other, 1)
    broke = False
    while not batch.is_done():
        rows = Leaves(*batch.select(0))
        answer = evaluate(rows)
        logits = answer.logits.copy()
        if not broke and len(rows) > 16:
            logits[: rows.offsets[1]] = np.nan  # of the first search
            broke = True
            with pytest.raises(ValueError, match="not finite"):
                batch.expand_and_backup(logits, answer.values, 0)
        else:
            batch.expand_and_backup(logits, answer.values, 0)
    assert broke
    with pytest.raises(ValueError, match="search 0 has not finished"):
        batch.result(0)
    alone = search_positions(game, [other], config_of(400, 16), PseudoRandomEvaluator(game, 64))[0]
    assert batch.result(1).visits.tolist() == alone.visits.tolist()
