"""Searches of large positions stand at their leaves in one place, one after the other: none may see another's."""


import pytest
from search_fixtures import played_games

from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.common._core import Game
from shusaku.common.config.schema import SelfPlayConfig
from shusaku.common.config.search import PuctConfig

GAMES = [("go", {"size": 5}), ("go", {"size": 5, "planes": "tutorial", "superko": "situational"}),
         ("go", {"size": 5, "planes": "liberties"}), ("go", {"size": 9}),
         ("minishogi", {}), ("chess", {"max_plies": 60}), ("connect_four", {})]


def games_of(game, size, count, **search):
    """The first games of `size` slots, as far as they can be compared."""
    config = PuctConfig(simulations=10, **search)
    evaluate = PseudoRandomEvaluator(game, size)
    found, counters = played_games(game, config, SelfPlayConfig(random_plies=6), evaluate, count, size=size)
    return [(tuple(g["actions"]), tuple(g["policy_shares"]), tuple(g["root_values"])) for g in found], counters


@pytest.mark.parametrize("search", [{"cache": 0}, {"cache": 64}, {"cache": 64, "symmetric_cache": True}], ids=str)
@pytest.mark.parametrize(("name", "params"), GAMES, ids=str)
def test_a_game_is_the_same_beside_others(name, params, search):
    """The evaluator is a hash of the planes: a row of another leaf, or another symmetry, would change the games."""
    game = Game(name, params)
    alone, _ = games_of(game, 1, 3, **search)
    beside, counters = games_of(game, 7, 60, **search)
    assert set(alone[:2]) <= set(beside)
    assert (counters["cache_hits"] > 0) == (search["cache"] > 0)


@pytest.mark.parametrize(("name", "params"), GAMES, ids=str)
def test_what_is_known_changes_no_game(name, params):
    """A walk that the cache sends on uses the place once more, before the others' leaves are rows."""
    game = Game(name, params)
    asked, _ = games_of(game, 7, 40, cache=0)
    known, counters = games_of(game, 7, 40, cache=4096)
    assert counters["cache_hits"] > 100
    assert len(set(asked) & set(known)) >= 30  # those that ended last are not the same ones
