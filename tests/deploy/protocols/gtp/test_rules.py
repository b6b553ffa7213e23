"""The rules of Go that a client may choose, and what the end of a game is by them."""

import json

import numpy as np
import pytest
from gtp_client import GtpClient

from shusaku.common._core import Game
from shusaku.common.messages import Evaluation, Leaves


@pytest.fixture
def go() -> GtpClient:
    return GtpClient()


def test_the_rules_of_the_checkpoint(go: GtpClient) -> None:
    rules = json.loads(go.ask("kata-get-rules"))
    assert rules == {"friendlyPassOk": True, "hasButton": False, "ko": "POSITIONAL", "scoring": "AREA",
                     "suicide": False, "tax": "NONE", "whiteHandicapBonus": "0"}
    own = GtpClient(rules="tromp_taylor", superko="situational")
    assert json.loads(own.ask("kata-get-rules"))["suicide"]
    assert json.loads(own.ask("kata-get-rules"))["ko"] == "SITUATIONAL"


@pytest.mark.parametrize(("name", "superko", "rules"), [
    ("tromp-taylor", "positional", "tromp_taylor"), ("chinese", "simple", "chinese"),
    ("aga", "situational", "chinese"), ("new-zealand", "situational", "tromp_taylor"),
])
def test_rules_reach_the_core_and_keep_the_moves(go: GtpClient, name: str, superko: str, rules: str) -> None:
    go.ask("play b D4")
    go.ask("play w E5")
    go.ask(f"kata-set-rules {name}")
    assert go.engine.state.game.params["superko"] == superko
    assert go.engine.state.game.params["rules"] == rules
    assert go.ask("move_history").splitlines() == ["white E5", "black D4"]
    assert go.engine.analysis.game.params == go.engine.state.game.params
    go.ask("genmove b")


def test_rules_as_json_and_one_by_one(go: GtpClient) -> None:
    go.ask('kata-set-rules {"ko":"SIMPLE","suicide":true,"scoring":"AREA","tax":"NONE","hasButton":false}')
    go.ask("kata-set-rule whiteHandicapBonus N-1")
    go.ask("kata-set-rule friendlyPassOk false")
    rules = json.loads(go.ask("kata-get-rules"))
    assert (rules["ko"], rules["suicide"], rules["whiteHandicapBonus"], rules["friendlyPassOk"]) == (
        "SIMPLE", True, "N-1", False)
    go.ask("kgs-rules chinese")
    assert json.loads(go.ask("kata-get-rules"))["ko"] == "POSITIONAL"


@pytest.mark.parametrize("line", [
    "kata-set-rules japanese", "kata-set-rules {", "kata-set-rules {}x", 'kata-set-rules {"ko":"EIGHT"}',
    'kata-set-rules {"scoring":"TERRITORY"}', 'kata-set-rules {"suicide":"yes"}', 'kata-set-rules {"suicide":1}',
    'kata-set-rules {"ko":["SIMPLE"]}', 'kata-set-rules {"weather":true}', "kata-set-rule tax SEKI",
    "kata-set-rule suicide maybe", "kgs-rules japanese",
])
def test_rules_that_are_not_played(go: GtpClient, line: str) -> None:
    before = go.ask("kata-get-rules")
    assert "internal" not in go.refuse(line)
    assert go.ask("kata-get-rules") == before


def test_suicide_by_the_rules(go: GtpClient) -> None:
    for line in ("b A2", "b B2", "b C1", "w B1", "b E5"):  # E5: else superko forbids it
        go.ask(f"play {line}")
    assert go.refuse("play w A1") == "illegal move"
    go.ask("kata-set-rules tromp-taylor")
    go.ask("play w A1")
    assert go.ask("gogui-rules_board").splitlines()[-1].split()[:3] == [".", ".", "X"]


def test_a_handicap_gives_white_points(go: GtpClient) -> None:
    go.ask("kata-set-rules chinese-ogs")
    go.ask("komi 0.5")
    go.ask("fixed_handicap 4")
    assert go.engine.state.game.params["komi"] == 4.5
    go.ask("kata-set-rules aga")
    assert go.engine.state.game.params["komi"] == 3.5
    go.ask("clear_board")
    assert go.engine.state.game.params["komi"] == 0.5


def test_the_board_counts_as_it_stands_by_tromp_taylor(go: GtpClient) -> None:
    go.ask("kata-set-rules tromp-taylor")
    go.ask("komi 7")
    for row in range(1, 10):  # two walls; a white stone inside black's area
        go.ask(f"play b D{row}")
        go.ask(f"play w F{row}")
    go.ask("play w B5")
    go.ask("play b pass")
    go.ask("play w pass")
    assert go.ask("final_score") == f"W+{36 + 1 - 9 + 7}"  # the areas beside a stone of each colour count for neither
    assert "B5" in go.ask("final_status_list alive")
    assert go.ask("final_status_list dead") == ""


class FillsNoEyes:
    """The policy of classical playouts: every move alike, except into an own eye; a pass if nothing else is left."""

    version = 1

    def __init__(self, game: Game) -> None:
        self.size = game.observation_shape[1]

    def __call__(self, leaves: Leaves) -> Evaluation:
        """Logits of the legal actions, and values of 0."""
        cells = self.size**2
        own = np.unpackbits(leaves.packed, axis=1, bitorder="little")[:, :cells].reshape(-1, self.size, self.size)
        padded = np.pad(own, ((0, 0), (1, 1), (1, 1)), constant_values=1).astype(bool)
        eyes = padded[:, :-2, 1:-1] & padded[:, 2:, 1:-1] & padded[:, 1:-1, :-2] & padded[:, 1:-1, 2:]
        scores = np.concatenate([np.where(eyes.reshape(-1, cells), -30, 0), np.full((len(leaves), 1), -10)], axis=1)
        rows = np.repeat(np.arange(len(leaves)), np.diff(leaves.offsets))
        return Evaluation(scores[rows, leaves.actions].astype(np.float32), np.zeros(len(leaves), np.float32), 1)


def test_playouts_find_the_dead() -> None:
    """A white stone on the edge, where there is no room for eyes, beside a black group with two of them."""
    client = GtpClient(make_evaluator=FillsNoEyes, size=5, komi=0.5)
    for column in "ABCDE":
        for row in (2, 3, 4):
            client.ask(f"play b {column}{row}")
    for line in ("b B1", "b D1", "w C5"):
        client.ask(f"play {line}")
    assert client.ask("final_status_list dead") == "C5"
    assert client.ask("final_status_list seki") == ""
    assert len(client.ask("final_status_list alive").split()) == 17
    assert client.ask("final_score") == "B+24.5"
    assert client.ask("kgs-genmove_cleanup b") != "pass"
    client.ask("undo")
    client.ask("play b pass")
    client.ask("play w pass")
    assert client.ask("final_score") == "B+24.5"  # after two passes, too
    client.ask("kata-set-rules tromp-taylor")
    assert client.ask("final_status_list dead") == ""


def test_chains_in_seki() -> None:
    """Chains that touch no point of their own: two of them share their last two liberties."""
    client = GtpClient(size=5)
    for line in ("b A2", "b B2", "b C2", "w C1", "w D1", "w D2", "w D3", "w C3", "w B3", "w A3"):
        client.ask(f"play {line}")  # A1 and B1 are of neither
    position = client.engine.state.position
    owners = np.array([-1] * 10 + [-1, -1, -1, -1, -1] + [1, 1, 1, -1, -1] + [0, 0, -1, -1, -1], np.int8)
    client.engine.owners = (position.transposition_key, True), owners
    assert client.ask("final_status_list seki") == "A2 B2 C2"
    assert client.ask("final_status_list dead") == ""
    assert client.ask("final_status_list alive").split() == ["A3", "B3", "C3", "D3", "D2", "C1", "D1"]
    client.engine.owners = (position.transposition_key, True), np.full(25, -1, np.int8)
    assert client.ask("final_status_list dead") == "A2 B2 C2"
