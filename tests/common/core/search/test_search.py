"""The search against a slow reference, against exact play, and against itself under the options that change nothing."""


import numpy as np
import pytest
import reference_search as reference
from search_fixtures import plain_game_batch, random_positions, scripted, search_all, self_play_games

from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator, UniformEvaluator
from shusaku.common._core import Game, SearchBatch
from shusaku.common.config.search import GumbelConfig, PolicyOnlyConfig, PuctConfig, make_search
from shusaku.common.messages import Leaves
from shusaku.common.search import search_options, search_positions, step

# Othello: more than eight actions, passes; its reference is slow, so it has fewer positions.
GAMES = ("tic_tac_toe", "connect_four", "othello")


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize("simulations", [1, 2, 17, 200])
@pytest.mark.parametrize("cache", [0, 1024])
def test_puct_grows_the_golden_tree(name, simulations, cache):
    game = Game(name)
    positions = random_positions(game, 3 if name == "othello" else 8, seed=simulations)
    config = PuctConfig(simulations=simulations, noise=False, temperature=0, cache=cache,
                          c_puct=1.7, fpu_reduction=0.3, root_fpu_reduction=0.1)
    rule = reference.Puct(1.7, 0.3, 0.1)
    for position, result in zip(positions, search_all(game, positions, config, range(len(positions))), strict=True):
        root = reference.search(position, lambda p: scripted(p.observation(), game.num_actions), simulations, rule)
        action, policy = rule.conclude(root)
        assert result.visits.tolist() == root.visits.tolist(), str(position)
        assert result.action == action
        np.testing.assert_allclose(result.policy, policy, atol=1e-6)
        np.testing.assert_array_equal(result.prior, root.prior)
        assert result.value == pytest.approx(root.total_value / root.total_visits, abs=1e-6)
        visited = root.visits > 0
        q_values = (root.value_sum[visited] / root.visits[visited]).astype(np.float32)
        np.testing.assert_array_equal(result.q_values[visited], q_values)
        assert np.isnan(result.q_values[~visited]).all()


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize("simulations", [1, 2, 16, 50, 200])
@pytest.mark.parametrize("considered", [1, 2, 5, 16])
@pytest.mark.parametrize("rescale", [True, False])
def test_gumbel_grows_the_golden_tree(name, simulations, considered, rescale):
    game = Game(name)
    positions = random_positions(game, 1 if name == "othello" else 4, seed=simulations)
    scale = 0.1 if rescale else 1.0
    config = GumbelConfig(simulations=simulations, considered_actions=considered, cache=0,
                          gumbel_scale=1.0, value_scale=scale, maxvisit_init=50, rescale_values=rescale)
    for seed, (position, result) in enumerate(
        zip(positions, search_all(game, positions, config, range(len(positions))), strict=True)
    ):
        rule = reference.Gumbel(seed, simulations, considered, 1.0, scale, 50, rescale)
        root = reference.search(position, lambda p: scripted(p.observation(), game.num_actions), simulations, rule)
        action, policy = rule.conclude(root)
        assert result.visits.tolist() == root.visits.tolist(), str(position)
        assert result.action == action
        np.testing.assert_allclose(result.policy, policy, atol=1e-6)
        assert result.value == pytest.approx(rule.value, abs=1e-6)


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize("simulations", [16, 200])
@pytest.mark.parametrize("c_puct", [0.7, 2.5])
def test_gumbel_with_alphazeros_rule_below_the_root_grows_the_golden_tree(name, simulations, c_puct):
    game = Game(name)
    positions = random_positions(game, 1 if name == "othello" else 4, seed=simulations)
    config = GumbelConfig(simulations=simulations, considered_actions=5, cache=0, gumbel_interior="puct", c_puct=c_puct)
    for seed, (position, result) in enumerate(
        zip(positions, search_all(game, positions, config, range(len(positions))), strict=True)
    ):
        rule = reference.Gumbel(seed, simulations, 5, 1.0, 0.1, 50, True, interior_c_puct=c_puct)
        root = reference.search(position, lambda p: scripted(p.observation(), game.num_actions), simulations, rule)
        action, policy = rule.conclude(root)
        assert result.visits.tolist() == root.visits.tolist(), str(position)
        assert result.action == action
        np.testing.assert_allclose(result.policy, policy, atol=1e-6)


def test_visits_sum_to_the_simulations_and_policies_to_one():
    game = Game("connect_four")
    positions = random_positions(game, 20, seed=3)
    for policy in ("puct", "gumbel", "mcts"):
        config = make_search(policy, simulations=33, noise=policy == "puct")
        for position, result in zip(positions, search_all(game, positions, config, range(20)), strict=True):
            assert result.visits.sum() == 33
            assert result.policy.sum() == pytest.approx(1, abs=1e-5)
            assert result.actions.tolist() == position.legal_actions
            assert result.surprise >= 0


@pytest.mark.parametrize("policy", ["puct", "gumbel", "mcts"])
def test_a_win_in_one_is_played_and_a_threat_is_answered(policy):
    game = Game("connect_four")
    win, threat = game.start(), game.start()
    for move in "112233":  # the first player completes the row in column 4
        win.play(win.from_move(move))
    for move in "11223":  # the second player must block there
        threat.play(threat.from_move(move))
    config = make_search(policy, simulations=400, noise=False, temperature=0, gumbel_scale=0)
    results = search_positions(game, [win, threat], config, UniformEvaluator(game, 8))
    assert [win.to_move(results[0].action), threat.to_move(results[1].action)] == ["4", "4"]
    # Sequential halving visits every considered column, so Gumbel's mean stays further below the win's 1.
    assert results[0].value > (0.2 if policy == "gumbel" else 0.5)


def test_rows_of_a_batch_do_not_leak_into_each_other():
    game = Game("connect_four")
    positions = random_positions(game, 9, seed=5)
    config = PuctConfig(simulations=60, noise=True)
    together = search_all(game, positions, config, range(9))
    for slot, position in enumerate(positions):
        alone = search_all(game, [position], config, [slot])[0]
        assert alone.visits.tolist() == together[slot].visits.tolist()


@pytest.mark.parametrize("policy", ["puct", "gumbel"])
@pytest.mark.parametrize("name", GAMES)
def test_cache_and_interruptions_change_no_game(name, policy):
    """A cached evaluation is the number that a fresh one would be, symmetry draw included."""
    game = Game(name)
    config = make_search(policy, simulations=20, noise=policy == "puct", cache=0)
    plain, cached = search_options(config, symmetries=True), search_options(config, symmetries=True)
    cached.cache = 4096
    evaluate = PseudoRandomEvaluator(game, 6)
    one = self_play_games(game, evaluate, plain, 6, 90, random_plies=3)
    other = self_play_games(game, evaluate, cached, 6, 90, random_plies=3)
    assert set(one[:60]) <= set(other)
    assert set(other[:60]) <= set(one)
    assert set(self_play_games(game, evaluate, plain, 6, 90, interrupt=5, random_plies=3)[:60]) <= set(one)


@pytest.mark.parametrize("name", GAMES)
def test_tree_reuse_survives_an_interruption(name):
    game = Game(name)
    config = PuctConfig(simulations=20, noise=False, reuse=True, cache=0)
    options = search_options(config, symmetries=False)
    evaluate = PseudoRandomEvaluator(game, 6)
    whole = self_play_games(game, evaluate, options, 6, 50)
    assert self_play_games(game, evaluate, options, 6, 50, interrupt=3) == whole


def test_tree_reuse_saves_evaluations():
    game = Game("connect_four")
    evaluations = {}
    for reuse in (False, True):
        config = PuctConfig(simulations=64, noise=False, reuse=reuse, cache=0)
        options = search_options(config, symmetries=False)
        batch = plain_game_batch(game, options, 8, 1)
        batch.play_pseudo_random(50_000)
        counters = batch.counters()
        evaluations[reuse] = counters["evaluations"] / counters["searches"]
    assert evaluations[True] < evaluations[False]


def test_dirichlet_noise_mixes_into_the_root_prior_and_moves_the_visits():
    game = Game("connect_four")
    start = [game.start()] * 64
    config = PuctConfig(simulations=50, noise=True, dirichlet_alpha=0.5, dirichlet_fraction=0.5)
    results = search_all(game, start, config, range(64))
    quiet = search_all(game, start[:1], PuctConfig(simulations=50, noise=False), [0])[0]
    assert all(np.array_equal(r.prior, quiet.prior) for r in results)  # reported without the noise
    assert len({tuple(r.visits) for r in results}) > 32


def test_temperature_draws_by_visits_and_zero_plays_the_most_visited():
    game = Game("connect_four")
    start = [game.start()] * 2000
    for temperature in (1.0, 0.5):
        config = PuctConfig(simulations=30, noise=False, temperature=temperature)
        results = search_all(game, start, config, range(2000))
        weights = results[0].visits.astype(float) ** (1 / temperature)
        share = np.bincount([r.action for r in results], minlength=7) / 2000
        np.testing.assert_allclose(share, weights / weights.sum(), atol=0.05)
    cold = PuctConfig(simulations=30, noise=False, temperature=1.0, temperature_plies=0)
    assert {r.action for r in search_all(game, start[:20], cold, range(20))} == {int(np.argmax(results[0].visits))}


def test_a_non_finite_answer_drops_the_game_and_is_counted():
    game = Game("tic_tac_toe")
    options = search_options(PuctConfig(simulations=8, noise=False), symmetries=False)
    batch = plain_game_batch(game, options, 4, 1)
    leaves = Leaves(*batch.select(0))
    logits, values = np.zeros(len(leaves.actions), np.float32), np.zeros(4, np.float32)
    values[1], logits[int(leaves.offsets[2])] = np.nan, np.inf
    batch.expand_and_backup(logits, values, 0)
    assert batch.counters()["non_finite"] == 2
    search = SearchBatch(game, options, 1, 1)
    search.begin(0, game.start(), 1)
    search.select(0)
    with pytest.raises(ValueError, match="not finite"):
        search.expand_and_backup(np.full(9, np.nan, np.float32), np.zeros(1, np.float32), 0)


def test_cached_searches_without_a_tree_do_not_keep_a_call_for_ever():
    """policy_only takes no simulation, and tic-tac-toe is soon known by heart: whole games without the network."""
    game = Game("tic_tac_toe")
    config = PolicyOnlyConfig(simulations=1, temperature=0, cache=1 << 10)
    batch = plain_game_batch(game, search_options(config, symmetries=False), 1, 1)
    evaluate = UniformEvaluator(game, 1)
    for _ in range(30):
        step(batch, evaluate)
    assert 9 < batch.counters()["plies"] <= 30 * 1024


def test_wrong_calls_are_refused_with_the_way_out():
    game, other = Game("tic_tac_toe"), Game("connect_four")
    options = search_options(PuctConfig(simulations=8), symmetries=False)
    search = SearchBatch(game, options, 1, 1)
    with pytest.raises(ValueError, match="another game"):
        search.begin(0, other.start(), 1)
    with pytest.raises(ValueError, match="index 1"):
        search.begin(1, game.start(), 1)
    with pytest.raises(ValueError, match="has not finished"):
        search.result(0)
    search.begin(0, game.start(), 1)
    search.select(0)
    with pytest.raises(ValueError, match="9 legal actions"):
        search.expand_and_backup(np.zeros(3, np.float32), np.zeros(1, np.float32), 0)
    batch = plain_game_batch(game, options, 2, 1)
    snapshot = batch.snapshot()
    flipped = [snapshot[:k] + bytes([snapshot[k] ^ 1]) + snapshot[k + 1 :] for k in range(0, len(snapshot), 97)]
    for damaged in (b"", snapshot[:-1], snapshot + b"x", *flipped):
        with pytest.raises(ValueError, match=r"snapshot|saved under|open games"):
            plain_game_batch(game, options, 2, 1).restore(damaged)
    with pytest.raises(ValueError, match="saved under"):
        plain_game_batch(game, options, 3, 1).restore(snapshot)
    options.policy = "minimax"
    with pytest.raises(ValueError, match="unknown search policy"):
        SearchBatch(game, options, 1, 1)
