"""search.symmetric_cache: a position and its mirror images are evaluated as one of them, and only once."""


import numpy as np
import pytest
from external_fixtures import Takeaway, TicTacToe, python_game
from search_fixtures import plain_game_batch, self_play_games

from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.common._core import Game, SearchBatch
from shusaku.common.config.search import make_search
from shusaku.common.messages import Leaves
from shusaku.common.search import search_options

GAMES = {
    "tic_tac_toe": lambda: Game("tic_tac_toe"),
    "connect_four": lambda: Game("connect_four"),
    "othello": lambda: Game("othello"),
    "hex": lambda: Game("hex", {"size": 5}),
    "go": lambda: Game("go", {"size": 5}),
    "go, agz": lambda: Game("go", {"size": 7}),
    "python": lambda: python_game(TicTacToe),
}
VERSION = 3


def pairs(game, count, seed):
    """Positions, each with the one that a random symmetry makes of it: the same game through a mirror."""
    random, start = np.random.default_rng(seed), game.start()
    mirrors = [s for s in range(1, game.num_symmetries) if np.array_equal(start.observation(s), start.observation())]
    while count:
        symmetry = int(random.choice(mirrors))
        position, image = game.start(), game.start()
        for _ in range(int(random.integers(0, min(30, game.max_plies - 2)))):
            action = int(random.choice(position.legal_actions))
            position.play(action)
            image.play(game.permute_action(symmetry, action))
            if position.is_terminal:
                break
        if not position.is_terminal:
            count -= 1
            yield position, image


def options_for(policy="policy_only", symmetries=True, cache=1024, joins=True, simulations=1):
    config = make_search(policy, simulations=simulations, noise=False, cache=cache, symmetric_cache=joins)
    return search_options(config, symmetries=symmetries)


def ask(game, position, options, version=VERSION):
    """The one row that a fresh batch sends for `position`."""
    batch = SearchBatch(game, options, 1, 5)
    batch.begin(0, position, 1)
    leaves = Leaves(*batch.select(version))
    assert len(leaves) == 1
    return leaves.packed.tobytes(), leaves.uniform.tobytes(), leaves.actions.tolist()


def maps_between(game, position, image):
    """Every symmetry through which `position` looks like `image`; more than one where a position is its own image."""
    seen = image.observation()
    return [s for s in range(game.num_symmetries) if np.array_equal(position.observation(s), seen)]


@pytest.mark.parametrize("symmetries", [False, True])
@pytest.mark.parametrize("name", GAMES)
def test_symmetric_positions_show_the_network_the_same_view(name, symmetries):
    game, options = GAMES[name](), options_for(symmetries=symmetries)
    views = set()
    for position, image in pairs(game, 40, seed=len(name)):
        packed, uniform, actions = ask(game, position, options)
        assert (packed, uniform) == ask(game, image, options)[:2]
        there = dict(zip(image.legal_actions, ask(game, image, options)[2], strict=True))
        here = dict(zip(position.legal_actions, actions, strict=True))
        maps = maps_between(game, position, image)
        assert any(all(there[game.permute_action(s, a)] == here[a] for a in here) for s in maps), str(position)
        # The view is one of the position's own, and its actions lie where that view has them.
        assert any(
            np.array_equal(expanded(game, packed, uniform), position.observation(s))
            and actions == [game.permute_action(s, a) for a in position.legal_actions]
            for s in range(game.num_symmetries)
        )
        views.add(ask(game, position, options, VERSION + 1)[0] == packed)
    assert views == ({True, False} if symmetries else {True})  # drawn again for other weights, or always the smallest


def expanded(game, packed, uniform):
    planes = np.zeros((1, *game.observation_shape), np.float32)
    game.expand(np.frombuffer(packed, np.uint8)[None], np.frombuffer(uniform, np.float32)[None], planes)
    return planes[0]


@pytest.mark.parametrize("symmetries", [False, True])
@pytest.mark.parametrize("name", GAMES)
def test_symmetric_positions_cost_one_row_and_get_one_evaluation(name, symmetries):
    game = GAMES[name]()
    evaluate = PseudoRandomEvaluator(game, 1)
    for position, image in pairs(game, 40, seed=1):
        batch = SearchBatch(game, options_for(symmetries=symmetries), 1, 5)
        fresh = SearchBatch(game, options_for(symmetries=symmetries, cache=0), 1, 5)
        results = []
        for searches, root in ((batch, position), (batch, image), (fresh, image)):
            searches.begin(0, root, 1)
            while not searches.is_done():
                leaves = Leaves(*searches.select(VERSION))
                if len(leaves):
                    answer = evaluate(leaves)
                    searches.expand_and_backup(answer.logits, answer.values, VERSION)
            results.append(searches.result(0))
        assert (batch.counters()["evaluations"], batch.counters()["cache_hits"]) == (1, 1)
        first, second, fresh_second = results
        assert first.raw_value == second.raw_value == fresh_second.raw_value
        np.testing.assert_array_equal(second.prior, fresh_second.prior)  # remembered: the very numbers of a fresh one
        there = dict(zip(second.actions.tolist(), second.prior, strict=True))
        assert any(
            # Sums over other orders of the actions may round one step of a half float elsewhere.
            np.allclose([there[game.permute_action(s, a)] for a in first.actions.tolist()], first.prior, rtol=2e-3)
            for s in maps_between(game, position, image)
        )


@pytest.mark.parametrize("policy", ["puct", "gumbel"])
@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four", "go"])
def test_remembering_changes_no_game(name, policy):
    game = GAMES[name]()
    evaluate = PseudoRandomEvaluator(game, 6)
    plain, cached = (options_for(policy, cache=cache, simulations=20) for cache in (0, 4096))
    one = self_play_games(game, evaluate, plain, 6, 40, random_plies=3)
    # Games whose leaves are all remembered run ahead of the others, so more of them are needed to hold the same ones.
    assert set(one) <= set(self_play_games(game, evaluate, cached, 6, 400, random_plies=3))


def test_it_answers_more_leaves_from_memory_in_connect_four():
    shares = {}
    for joins in (False, True):
        options = options_for("puct", cache=1 << 16, joins=joins, simulations=50)
        batch = plain_game_batch(Game("connect_four"), options, 16, 1)
        batch.play_pseudo_random(60_000)
        counters = batch.counters()
        shares[joins] = counters["cache_hits"] / (counters["cache_hits"] + counters["evaluations"])
    assert shares[True] > 1.02 * shares[False]


def test_a_game_without_symmetries_is_as_it_was():
    game = python_game(Takeaway)
    assert game.num_symmetries == 1
    evaluate = PseudoRandomEvaluator(game, 4)
    played = [self_play_games(game, evaluate, options_for("puct", joins=joins, simulations=20), 4, 20)
              for joins in (False, True)]
    assert played[0] == played[1]
