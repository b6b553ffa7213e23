"""Endings that are solved: against the slow reference visit for visit, and against other people's exact results."""

import numpy as np
import pytest
import reference_search as reference
from search_fixtures import (
    assert_proofs_are_true,
    played_games,
    scripted,
    search_all,
    self_play_games,
)

from shusaku.actors.arena.solvers import ExactSolver
from shusaku.actors.arena.strength_sets import strength_set
from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.common._core import Game, SearchBatch
from shusaku.common.config.schema import SelfPlayConfig
from shusaku.common.config.search import MctsConfig, PuctConfig, make_search
from shusaku.common.errors import UsageError
from shusaku.common.search import search_options, search_positions
from shusaku.deploy.run.game_parameters import check_search

# Games whose boards fill up, and how many empty cells the slow solver here can see to the end of.
GAMES = [("tic_tac_toe", {}, 6), ("connect_four", {}, 6), ("othello", {"size": 6}, 5), ("hex", {"size": 4}, 6)]


def num_empty(position):
    return position.text.split()[0].count(".")


def near_positions(game, count, most, seed):
    """The first of random games with at most so many empty cells, one or two plies earlier or later."""
    random = np.random.default_rng(seed)
    positions = []
    while len(positions) < count:
        position, least = game.start(), most - int(random.integers(0, 4))
        while not position.is_terminal and num_empty(position) > least:
            position.play(int(random.choice(position.legal_actions)))
        if not position.is_terminal:
            positions.append(position)
    return positions


@pytest.mark.parametrize("proves", [True, False])
@pytest.mark.parametrize("policy", ["puct", "gumbel"])
@pytest.mark.parametrize(("name", "params", "empties"), GAMES)
def test_it_grows_the_golden_tree(name, params, empties, policy, proves):
    game = Game(name, params)
    positions = near_positions(game, 8, empties + 2, seed=3)
    rules = {
        "puct": ({"c_puct": 1.7}, lambda seed: reference.Puct(1.7, 0.2, 0.0, seed=seed)),
        "gumbel": ({"considered_actions": 5}, lambda seed: reference.Gumbel(seed, 30, 5, 1.0, 0.1, 50, True)),
    }
    options, rule_of = rules[policy]
    config = make_search(policy, simulations=30, noise=False, temperature=0, cache=0, proven_results=proves,
                         solved_empties=empties, **options)
    solver, solved = ExactSolver(), []

    def solve(position):
        if num_empty(position) <= empties:
            solved.append(position)
            return solver.value(position)
        return None

    for seed, (position, result) in enumerate(
        zip(positions, search_all(game, positions, config, range(len(positions))), strict=True)
    ):
        rule = rule_of(seed)
        root = reference.search(position, lambda p: scripted(p.observation(), game.num_actions), 30, rule,
                                proves=proves, solve=solve)
        action, learned = rule.conclude(root)
        proofs = [root.proof, *root.results()]
        if proves and num_empty(position) <= empties:
            results = list(solver.results(position).values())
            proofs = [max(results), *results]
            learned = np.where(np.equal(results, max(results)), result.prior, 0)
            learned /= learned.sum()
        assert result.visits.tolist() == root.visits.tolist(), str(position)
        assert result.action == action
        np.testing.assert_allclose(result.policy, learned, atol=1e-6)
        ours = [None if np.isnan(value) else int(value) for value in (result.proven_value, *result.proven_values)]
        assert ours == proofs
    assert solved


@pytest.mark.parametrize("simulations", [1, 40])
@pytest.mark.parametrize("policy", ["puct", "gumbel"])
def test_every_best_action_of_a_solved_position_is_learned(policy, simulations):
    """Also of those that the search did not reach: it ends with the first winning action."""
    known = strength_set(Game("othello", {"size": 6}))
    near = [row for row, position in enumerate(known.positions) if num_empty(position) <= 11]
    positions, truth = [known.positions[row] for row in near], known.results[near]
    config = make_search(policy, simulations=simulations, noise=False, temperature=0, proven_results=True,
                         solved_empties=11)
    results = search_positions(known.game, positions, config, PseudoRandomEvaluator(known.game, 64))
    assert any(result.visits.sum() < len(result.actions) for result in results)
    for result, row in zip(results, truth, strict=True):
        values = row[result.actions]
        assert result.proven_values.tolist() == values.tolist()
        assert result.proven_value == result.value == values.max()
        assert values[result.actions.tolist().index(result.action)] == values.max()
        best = np.where(values == values.max(), result.prior, 0)
        np.testing.assert_allclose(result.policy, best / best.sum(), atol=1e-5)


@pytest.mark.parametrize("policy", ["puct", "gumbel", "mcts"])
@pytest.mark.parametrize(("name", "params", "empties"), [("connect_four", {}, 22), ("othello", {"size": 6}, 11)])
def test_committed_results_are_found_again(name, params, empties, policy):
    """One visit an action proves what another solver said; those visits are so few that nothing else could."""
    known = strength_set(Game(name, params))
    near = [row for row, position in enumerate(known.positions) if num_empty(position) <= empties + 1]
    assert len(near) > 100
    positions, truth = [known.positions[row] for row in near], known.results[near]
    config = make_search(policy, simulations=40, noise=False, temperature=0, proven_results=True,
                         solved_empties=empties)
    results = search_positions(known.game, positions, config, PseudoRandomEvaluator(known.game, 64))
    assert assert_proofs_are_true(positions, results, truth) > 0.9 * len(positions)  # others: visits went to a draw
    for result, row in zip(results, truth, strict=True):
        assert np.isnan(result.proven_value) or row[result.action] == row[result.actions].max()


def test_a_solved_position_is_worth_its_result_where_nothing_is_proven():
    known = strength_set(Game("othello", {"size": 6}))
    near = [row for row, position in enumerate(known.positions) if num_empty(position) <= 11][:50]
    config = PuctConfig(simulations=30, noise=False, temperature=0, solved_empties=10)
    results = search_positions(known.game, [known.positions[row] for row in near], config,
                               PseudoRandomEvaluator(known.game, 64))
    for row, result in zip(near, results, strict=True):
        visited = result.visits > 0
        assert (result.q_values[visited] == known.results[row][result.actions[visited]]).all()
        assert np.isnan(result.proven_value)
        assert result.visits.sum() == 30


@pytest.mark.parametrize(("policy", "reuse"), [("puct", True), ("gumbel", False)])
def test_games_go_on_across_a_snapshot(policy, reuse):
    """The table of the solver does not travel, and is not missed."""
    game = Game("othello", {"size": 6})
    config = make_search(policy, simulations=20, noise=False, reuse=reuse, proven_results=True, cache=0,
                         solved_empties=9)
    options, evaluate = search_options(config, symmetries=False), PseudoRandomEvaluator(game, 6)
    whole = self_play_games(game, evaluate, options, 6, 20)
    assert self_play_games(game, evaluate, options, 6, 20, interrupt=3) == whole


def test_a_game_does_not_depend_on_those_beside_it():
    """They share the table of the solver."""
    game = Game("othello", {"size": 6})
    search = make_search("gumbel", simulations=20, proven_results=True, cache=0, solved_empties=9)
    evaluate = PseudoRandomEvaluator(game, 6)
    alone, beside = (
        [g for g in played_games(game, search, SelfPlayConfig(), evaluate, games, size=size)[0] if g["index"] == 0]
        for games, size in ((3, 1), (18, 6)))
    for one, other in zip(alone, beside, strict=False):
        assert one["actions"].tolist() == other["actions"].tolist()
        assert one["root_values"].tolist() == other["root_values"].tolist()
    assert len(beside) > 1


def test_self_play_evaluates_less_and_errs_no_more():
    """The last plies of every game keep the exact result."""
    game = Game("othello", {"size": 6})
    solver, seen = ExactSolver(), 0
    plain, solved = (
        played_games(game, make_search("gumbel", simulations=32, proven_results=True, solved_empties=empties),
                     SelfPlayConfig(random_plies=8), PseudoRandomEvaluator(game, 8), 24)
        for empties in (0, 10))
    assert solved[1]["evaluations"] < 0.85 * plain[1]["evaluations"]
    for record in solved[0]:
        position, sign = game.start(), 1
        for action in record["actions"]:
            if num_empty(position) <= 7:
                assert solver.value(position) * sign == record["outcome"], position.text
                seen += 1
            position.play(int(action))
            sign = -sign
    assert seen > 100


@pytest.mark.parametrize("weight", [0.25, 0.0])
def test_rows_of_solved_endings_weigh_less(weight):
    game = Game("othello", {"size": 6})
    search = make_search("gumbel", simulations=16, proven_results=True, solved_empties=9)
    records, counters = played_games(game, search, SelfPlayConfig(solved_weight=weight),
                                     PseudoRandomEvaluator(game, 8), 8)
    seen = set()
    for record in records:
        position = game.start()
        for ply, action in enumerate(record["actions"]):
            is_solved = num_empty(position) <= 9
            seen.add(is_solved)
            assert record["row_weight"][ply] == (weight if is_solved else 1)
            has_policy = record["policy_offsets"][ply] < record["policy_offsets"][ply + 1]
            assert has_policy == (record["row_weight"][ply] > 0)
            position.play(int(action))
    assert seen == {False, True}
    assert counters["rows"] < counters["plies"] or weight > 0


def test_half_of_a_game_of_connect_four_is_solved():
    """By looking ahead and by two arguments without a search; another solver said what every move is worth."""
    known = strength_set(Game("connect_four"))
    near = [row for row, position in enumerate(known.positions) if 22 < num_empty(position) <= 26]
    near += [row for row, position in enumerate(known.positions) if num_empty(position) <= 22][::10]
    positions, truth = [known.positions[row] for row in near], known.results[near]
    assert len(near) > 100
    config = make_search("gumbel", simulations=1, noise=False, temperature=0, proven_results=True, solved_empties=26)
    results = search_positions(known.game, positions, config, PseudoRandomEvaluator(known.game, 64))
    for result, row in zip(results, truth, strict=True):
        assert result.proven_values.tolist() == row[result.actions].tolist()


@pytest.mark.parametrize(("name", "params", "most"), [
    ("connect_four", {}, 28), ("othello", {"size": 6}, 20), ("tic_tac_toe", {}, 20)])
def test_a_game_solves_what_it_can(name, params, most):
    game = Game(name, params)
    check_search(game, PuctConfig(solved_empties=most))
    with pytest.raises(UsageError, match=rf"must be at least 0 and, in {name}, at most {most}$"):
        check_search(game, PuctConfig(solved_empties=most + 1))


@pytest.mark.parametrize(("name", "params"), [("go", {"size": 5}), ("chess", {}), ("minishogi", {})])
def test_a_board_that_does_not_fill_up_is_refused(name, params):
    game = Game(name, params)
    for config in (PuctConfig(solved_empties=8), make_search("gumbel", solved_empties=8), MctsConfig(solved_empties=8)):
        with pytest.raises(UsageError, match=rf"^search\.solved_empties=8: the board of {name} does not fill up"):
            check_search(game, config)
    SearchBatch(game, search_options(PuctConfig(), symmetries=False), 1, 0)
