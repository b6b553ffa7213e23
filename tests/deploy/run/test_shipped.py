"""The networks that come with the program: which one is meant, what they say of themselves, and that they play."""

import os
from pathlib import Path

import pytest

from shusaku.common._core import Game
from shusaku.common.config.schema import NetworkConfig
from shusaku.common.errors import UsageError
from shusaku.common.network.fingerprint import planes_fingerprint
from shusaku.common.network.weights import load_weights, random_weights, save_weights
from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.match.match import run as match
from shusaku.deploy.run.chosen_weights import SHIPPED, choose_weights, shipped_file

LARGEST = 1_000_000  # bytes


def chosen_game(*words: str, default: str = "") -> str:
    return choose_weights(compose(["checkpoint=shipped", *words]), default).game.name


@pytest.mark.parametrize("game", SHIPPED)
def test_each_file_is_small_and_says_what_it_is(game: str) -> None:
    path = shipped_file(compose([f"game={game}"]), "checkpoint")
    weights = load_weights(path)
    assert path.stat().st_size <= LARGEST
    chosen = choose_weights(compose([f"game={game}", "checkpoint=shipped"]))
    assert weights.planes == planes_fingerprint(chosen.game)
    assert set(weights.about) == {"training", "strength", "licence"}
    assert weights.about["licence"] == "Apache-2.0"
    assert chosen.search.policy == "gumbel", "as its run was searched"
    texts = [file.read_bytes() for file in path.parent.iterdir()]
    assert not any(os.fsencode(Path(__file__).resolve().parents[3]) in text for text in texts), "no place of a machine"


def test_the_game_decides_which_one_is_meant() -> None:
    assert chosen_game() == "connect_four"
    assert chosen_game("game=connect_four", default="go") == "connect_four"
    assert {chosen_game(f"game={game}") for game in SHIPPED} == set(SHIPPED)
    assert chosen_game(default="go") == "go"
    for game, words, default in (("hex", ["game=hex"], ""), ("chess", [], "chess")):
        with pytest.raises(UsageError, match=f"^checkpoint=shipped: there is no such network of {game}, only of conn"):
            chosen_game(*words, default=default)


@pytest.mark.parametrize("game", SHIPPED)
def test_it_beats_a_random_mover(game: str) -> None:
    result = match(compose([f"game={game}", "first.checkpoint=shipped", "second.engine=random", "games=4",
                            "match.opening_plies=0",  # a random opening may be lost for the player to move
                            "search.simulations=8", "actors.count=1"]), True)
    assert (result["wins"], result["game"]) == (4, game)


def test_in_a_match_it_is_meant_for_the_game_of_the_other_player(tmp_path: Path) -> None:
    other = tmp_path / "hex.safetensors"
    save_weights(other, random_weights(Game("hex", {"size": 4}), NetworkConfig(filters=4, blocks=0), seed=1, version=1))
    with pytest.raises(UsageError, match=r"^first\.checkpoint=shipped: there is no such network of hex"):
        match(compose([f"second.checkpoint={other}", "first.checkpoint=shipped", "games=2", "actors.count=1"]), True)
