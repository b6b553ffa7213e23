"""search.average_symmetries: a leaf is worth the mean of what the network says of it through every symmetry."""


import numpy as np
import pytest
from scripted_evaluator import ScriptedEvaluator
from search_fixtures import plain_game_batch, random_positions, scripted

from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator, UniformEvaluator
from shusaku.common._core import Game, SearchBatch
from shusaku.common.config.search import make_search
from shusaku.common.messages import Leaves
from shusaku.common.search import search_options, search_positions, step

GAMES = {
    "tic_tac_toe": Game("tic_tac_toe"), "connect_four": Game("connect_four"), "othello": Game("othello", {"size": 6}),
    "go": Game("go", {"size": 5}),
}


def config_of(policy="policy_only", simulations=1, **changes):
    return make_search(policy, **{"simulations": simulations, "noise": False, "temperature": 0, "cache": 0,
                           "average_symmetries": True, **changes})


def mean_over_views(game, position):
    """Policy over the legal actions and value, from the definition."""
    policies, values = [], []
    for s in range(game.num_symmetries):
        logits, value = scripted(position.observation(s), game.num_actions)
        seen = logits[[game.permute_action(s, a) for a in position.legal_actions]].astype(np.float64)
        policies.append(np.exp(seen - seen.max()) / np.exp(seen - seen.max()).sum())
        values.append(value)
    return np.mean(policies, axis=0), np.mean(values)


def views_of_cells(game, symmetry):
    """Where each cell lies in the view: actions are cells, or in connect four columns."""
    rows, columns = game.observation_shape[1:]
    if game.name == "connect_four":
        seen = [game.permute_action(symmetry, column) for column in range(columns)]
        return [row * columns + column for row in range(rows) for column in seen]
    return [game.permute_action(symmetry, cell) for cell in range(rows * columns)]


def searched(game, positions, config, evaluate=None):
    evaluate = evaluate or ScriptedEvaluator(game, lambda planes: scripted(planes, game.num_actions))
    return search_positions(game, positions, config, evaluate)


@pytest.mark.parametrize("joins", [False, True])
@pytest.mark.parametrize("name", GAMES)
def test_it_is_the_mean_of_the_definition(name, joins):
    game = GAMES[name]
    positions = random_positions(game, 60, seed=3)
    config = config_of(symmetric_cache=joins, cache=4096 if joins else 0)
    for position, result in zip(positions, searched(game, positions, config), strict=True):
        policy, value = mean_over_views(game, position)
        np.testing.assert_allclose(result.prior, policy, atol=2e-3, err_msg=str(position))  # half floats in between
        assert result.raw_value == pytest.approx(value, abs=2e-3)


@pytest.mark.parametrize("leaves", [1, 4])
@pytest.mark.parametrize("name", GAMES)
def test_every_view_of_every_leaf_is_a_row(name, leaves):
    game = GAMES[name]
    evaluate = PseudoRandomEvaluator(game, 512)
    batch = SearchBatch(game, search_options(config_of("puct", 40, leaves=leaves), symmetries=False), 3, 0)
    for slot, position in enumerate(random_positions(game, 3, seed=5)):
        batch.begin(slot, position, slot)
    views, rounds = game.num_symmetries, 0
    while not batch.is_done():
        rows = Leaves(*batch.select(0))
        assert len(rows) % views == 0
        planes = np.zeros((len(rows), *game.observation_shape), np.float32)
        game.expand(rows.packed, rows.uniform, planes)
        for first in range(0, len(rows), views):
            own = rows.actions[rows.offsets[first]:rows.offsets[first + 1]]
            for s in range(views):
                row = first + s
                seen = rows.actions[rows.offsets[row]:rows.offsets[row + 1]]
                np.testing.assert_array_equal(seen, [game.permute_action(s, int(a)) for a in own])
                cells, first_cells = (planes[i].reshape(planes.shape[1], -1) for i in (row, first))
                np.testing.assert_array_equal(cells[:, views_of_cells(game, s)], first_cells)
        if len(rows):
            answer = evaluate(rows)
            batch.expand_and_backup(answer.logits, answer.values, 0)
        rounds += 1
    assert rounds > 5


@pytest.mark.parametrize("name", GAMES)
def test_a_network_that_sees_no_difference_grows_the_same_tree(name):
    game = GAMES[name]
    positions = random_positions(game, 10, seed=9)
    for policy in ("puct", "gumbel"):
        kept = config_of(policy, 100, gumbel_scale=0.0)
        alone = config_of(policy, 100, gumbel_scale=0.0, average_symmetries=False)
        pairs = zip(searched(game, positions, kept, UniformEvaluator(game, 512)),
                    searched(game, positions, alone, UniformEvaluator(game, 512)), strict=True)
        for mean, one in pairs:
            assert mean.visits.tolist() == one.visits.tolist()


def test_what_the_cache_knows_is_the_mean():
    game = GAMES["othello"]
    positions = random_positions(game, 8, seed=2)
    config = config_of("puct", 60, cache=1 << 16)
    evaluate = ScriptedEvaluator(game, lambda planes: scripted(planes, game.num_actions))
    batch = SearchBatch(game, search_options(config, symmetries=False), 8, 0)
    found = []
    for _ in range(2):
        for slot, position in enumerate(positions):
            batch.begin(slot, position, slot)
        while not batch.is_done():
            step(batch, evaluate)
        found.append([batch.result(slot).visits.tolist() for slot in range(8)])
    assert found[0] == found[1]
    assert batch.counters()["cache_hits"] > batch.counters()["evaluations"]


@pytest.mark.parametrize("view", [0, 1])
@pytest.mark.parametrize("poison", ["logit", "value"])
def test_one_view_that_is_not_finite_spoils_the_leaf(view, poison):
    game = GAMES["connect_four"]
    batch = SearchBatch(game, search_options(config_of("puct", 5), symmetries=False), 1, 0)
    batch.begin(0, game.start(), 0)
    batch.select(0)
    logits, values = np.zeros(14, np.float32), np.zeros(2, np.float32)
    if poison == "logit":
        logits[7 * view + 3] = np.nan
    else:
        values[view] = np.inf
    with pytest.raises(ValueError, match="not finite"):
        batch.expand_and_backup(logits, values, 0)


def test_self_play_refuses_it():
    with pytest.raises(ValueError, match=r"search.average_symmetries=true: self-play samples one symmetry"):
        plain_game_batch(GAMES["connect_four"], search_options(config_of("puct", 5), symmetries=True), 1, 0)
