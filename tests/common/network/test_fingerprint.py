"""Weights know with which planes they were trained, and are refused where the planes are others now."""

import numpy as np
import pytest

from shusaku.common._core import Game, game_names
from shusaku.common.errors import UsageError
from shusaku.common.network import fingerprint
from shusaku.common.network.fingerprint import check_planes, planes_fingerprint

# A change here refuses all weights of that game that users have; CHANGED says which, and why.
OF_NOW = {
    "chess": "56bdc5e52fe071cf", "connect_four": "11a7c5cb1eb27259", "go": "0e4d1e4dbbb51be8",
    "hex": "96fbea945b31e7c0", "minishogi": "b20119745757e11a", "othello": "a2037600ba302812",
    "shogi": "3affcec3e627ee62", "tic_tac_toe": "5ead64eecd2feccb",
}


def test_the_planes_of_every_game_are_those_of_published_weights() -> None:
    assert {name: planes_fingerprint(Game(name)) for name in game_names()} == OF_NOW


def test_planes_of_tic_tac_toe_are_those_of_the_notebook() -> None:
    """X's stones, O's stones, and 1 everywhere if it is X's turn."""
    position = Game("tic_tac_toe").start()
    for action in (4, 0, 8):
        before = position.observation()
        assert (before[2] == (position.to_play == 0)).all()
        position.play(action)
        stone = position.observation() - before
        assert np.argwhere(stone[:2]).tolist() == [[1 - position.to_play, action // 3, action % 3]]


@pytest.mark.parametrize("params", [
    {"size": 9}, {"planes": "komi"}, {"planes": "liberties"}, {"planes": "tutorial", "size": 9},
])
def test_parameters_that_change_the_planes_change_the_fingerprint(params: dict[str, int | str]) -> None:
    assert planes_fingerprint(Game("go", params)) != OF_NOW["go"]


def test_weights_of_before_are_refused_only_where_the_planes_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    check_planes(Game("connect_four"), "", "file")
    check_planes(Game("tic_tac_toe"), OF_NOW["tic_tac_toe"], "file")
    with pytest.raises(UsageError, match=r"^file: weights of tic_tac_toe .*the turn is 1 for X now.*; train"):
        check_planes(Game("tic_tac_toe"), "", "file")
    with pytest.raises(UsageError, match=r"^file: weights of connect_four .*0{16}, and now 11a7c5cb1eb27259"):
        check_planes(Game("connect_four"), "0" * 16, "file")
    monkeypatch.setattr(fingerprint, "CHANGED", {"hex": "another plane"})
    with pytest.raises(UsageError, match="another plane"):
        check_planes(Game("hex"), "", "file")
