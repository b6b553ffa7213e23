"""What the page See shows is what the network sees."""

import random

import numpy as np
import pytest

from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.common._core import Game
from shusaku.deploy.studio.planes import describe_input, plane_names

VARIANTS = [
    ("tic_tac_toe", {}), ("connect_four", {}), ("connect_four", {"planes": "threats"}), ("othello", {}),
    ("hex", {"size": 4}), ("go", {"size": 5}), ("go", {"size": 5, "planes": "komi"}),
    ("go", {"size": 5, "planes": "liberties"}),
    ("go", {"size": 5, "planes": "tutorial"}),
    ("go", {"size": 5, "planes": "alphago"}), ("go", {"size": 5, "planes": "alphago_value"}), ("chess", {}),
    ("chess", {"planes": "small"}), ("shogi", {}), ("shogi", {"planes": "small"}), ("minishogi", {}),
    ("minishogi", {"planes": "small"}),
]


def planes_of(seen, shape):
    rows, columns = shape[1:]
    planes = [plane.get("values", [plane.get("value")] * (rows * columns)) for plane in seen["planes"]]
    return np.array(planes).reshape(shape)


@pytest.mark.parametrize(("name", "params"), VARIANTS)
def test_every_plane_has_a_name_and_its_numbers(name, params):
    game, drawn = Game(name, params), random.Random(3)
    names = plane_names(game)
    assert len(set(names)) == len(names) == game.observation_shape[0]
    assert not any(text.startswith("plane ") for text in names)
    position = game.start()
    for _ in range(7):
        position.play(drawn.choice(position.legal_actions))
    again = game.position(position.text)
    seen = describe_input(game, position.text, PseudoRandomEvaluator(game, 1))
    assert planes_of(seen, game.observation_shape) == pytest.approx(again.observation(), abs=1e-4)
    assert sum(seen["policy"]) == pytest.approx(1, abs=1e-3)
    assert len(seen["policy"]) == len(again.legal_actions) == len(seen["board"]["legal"])
    assert -1 <= seen["value"] <= 1


def test_the_names_say_what_the_planes_of_chess_and_shogi_hold():
    chess = Game("chess")
    names, planes = plane_names(chess), chess.start().observation()
    count = {name: int(plane.sum()) for name, plane in zip(names, planes, strict=True)}
    assert (count["own pawns, now"], count["opponent's queens, now"], count["own king, now"]) == (8, 1, 1)
    assert count["own short castling"] == 64
    shogi = Game("shogi")
    held = dict(zip(plane_names(shogi), shogi.position("4k4/9/9/9/9/9/9/9/4K4 b 2Pr 1").observation(), strict=True))
    assert held["own pawns in hand, now"].flat[0] > 0
    assert held["opponent's rooks in hand, now"].flat[0] == pytest.approx(0.5)
    assert held["own rooks in hand, now"].flat[0] == 0


def text_of(cells, turn):
    return "/".join("".join(cells[row:row + 3]) for row in (0, 3, 6)) + " " + "XO"[turn]


def test_every_click_of_the_set_up_widget_in_tic_tac_toe():
    """An occupied cell is cleared, an empty one takes the mark of the player to move, and turns change."""
    game, drawn = Game("tic_tac_toe"), random.Random(5)
    evaluate = PseudoRandomEvaluator(game, 1)
    cells, turn = ["."] * 9, 0
    impossible, ended = 0, 0
    for _ in range(400):
        cell = drawn.randrange(9)
        is_over = game.arrange(text_of(cells, turn)).is_terminal
        if cells[cell] != ".":
            cells[cell] = "."
        elif is_over:  # no player is to move
            ended += 1
            continue
        else:
            cells[cell], turn = "XO"[turn], 1 - turn
        text = text_of(cells, turn)
        seen = describe_input(game, text, evaluate)
        planes = planes_of(seen, (3, 3, 3))
        for index, mark in enumerate("XO"):
            assert planes[index].ravel().tolist() == [float(c == mark) for c in cells]
        assert planes[2].ravel().tolist() == [float(turn == 0)] * 9
        assert seen["board"]["text"] == text
        counts = cells.count("X"), cells.count("O")
        impossible += counts[0] - counts[1] not in (0, 1) or turn != counts[0] - counts[1]
        if not seen["board"]["result"]:
            assert [move["to"] for move in seen["board"]["legal"]] == [i for i, c in enumerate(cells) if c == "."]
    assert impossible > 50, "positions that no game comes to are set up, too"
    assert ended > 5


@pytest.mark.parametrize(("name", "params", "text"), [
    ("hex", {"size": 3}, ".../.O./... X"), ("hex", {"size": 3}, "XX./.../... X"),
    ("connect_four", {}, "......./......./......./......./......./OO.X... O"), ("tic_tac_toe", {}, ".../.../... O"),
])
def test_positions_that_no_game_comes_to_are_searched_to_the_end(name, params, text):
    game = Game(name, params)
    with pytest.raises(ValueError, match="X"):
        game.position(text)
    position = game.arrange(text)
    assert position.text == text
    drawn = random.Random(2)
    for _ in range(20):
        line = position.copy()
        while not line.is_terminal:
            assert line.to_play == (position.to_play + line.ply - position.ply) % 2
            line.play(drawn.choice(line.legal_actions))
    assert position.evaluation_key != game.start().evaluation_key


def test_a_text_that_is_no_position_is_refused_with_the_reason():
    game = Game("go", {"size": 5})
    with pytest.raises(ValueError, match="no liberty"):
        describe_input(game, "OX.../X..../...../...../..... X", PseudoRandomEvaluator(game, 1))
