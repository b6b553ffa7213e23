"""`analyse`: every position that is asked for gets one final answer, and every wrong line an error with its id."""

import json
import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import chess
import numpy as np
import pytest

from shusaku.actors.analysis.analysis import Analysis
from shusaku.actors.analysis.shared_evaluator import SharedEvaluator
from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.actors.inference.leaves import sample_leaves
from shusaku.common._core import Game
from shusaku.common.config.search import GumbelConfig, MctsConfig, PuctConfig, SearchConfig
from shusaku.common.messages import Evaluation, Leaves
from shusaku.deploy.protocols import analyse
from shusaku.deploy.protocols.analyse import AnalysisEngine

SEARCH = PuctConfig(cache=1 << 8)
MOVES = ["e2e4", "e7e5", "g1f3", "b8c6", "f1b5"]
MATE = ["f2f3", "e7e5", "g2g4", "d8h4"]


class HeadsEvaluator(PseudoRandomEvaluator):
    """On a board of Go all points are the player's, who leads by two."""

    def __init__(self, game: Game, max_batch: int) -> None:
        super().__init__(game, max_batch)
        self._shape = game.observation_shape[1:] if game.name == "go" else None

    def __call__(self, leaves: Leaves) -> Evaluation:
        found = super().__call__(leaves)
        if self._shape is None:
            return found
        ownership, score = np.ones((len(leaves), *self._shape), np.float32), np.full(len(leaves), 2, np.float32)
        return Evaluation(found.logits, found.values, found.version, {"ownership": ownership, "score": score})


class Client:
    """An engine over three positions at once, and its answers."""

    def __init__(self, name: str = "chess", search: SearchConfig = SEARCH, **params: int) -> None:
        self.game = Game(name, params)
        self.evaluate = SharedEvaluator([HeadsEvaluator(self.game, 64)], 64)
        self.lines: list[str] = []
        self.engine = AnalysisEngine(self.game, self.make, search, 16, 3, self.lines.append)

    def make(self, search: SearchConfig) -> Analysis:
        return Analysis(self.game, [self.evaluate], search, leaves=2)

    def send(self, **request: Any) -> None:
        self.engine.receive(json.dumps(request))

    def finish(self, seconds: float = 300.0) -> list[dict[str, Any]]:
        """All answers since the last call."""
        deadline = time.monotonic() + seconds
        while self.engine.is_busy and time.monotonic() < deadline:
            self.engine.advance()
            time.sleep(0.001)
        assert not self.engine.is_busy
        answers = [json.loads(line) for line in self.lines]
        self.lines.clear()
        return answers


@pytest.fixture(scope="module")
def shared() -> Iterator[Client]:
    client = Client()
    yield client
    client.engine.end()


@pytest.fixture
def client(shared: Client) -> Client:
    shared.finish()
    return shared


def test_a_position(client: Client) -> None:
    client.send(id="a", moves=MOVES, policy=True)
    (answer,) = client.finish()
    assert (answer["id"], answer["ply"], answer["final"], answer["to_play"]) == ("a", 5, True, 1)
    assert answer["simulations"] >= 16
    board = chess.Board()
    for move in MOVES:
        board.push_uci(move)
    assert set(answer["policy"]) == {move.uci() for move in board.legal_moves}
    assert sum(answer["policy"].values()) == pytest.approx(1, abs=0.01)
    for move in answer["moves"]:
        line = board.copy()
        for text in move["variation"]:
            line.push(line.parse_uci(text))
        assert move["variation"][0] == move["move"]
    assert answer["moves"][0]["visits"] == max(move["visits"] for move in answer["moves"])


def test_a_whole_game_is_answered_ply_by_ply(client: Client) -> None:
    client.send(id=7, moves=MATE, plies="all", most_moves=1)
    answers = client.finish()
    assert sorted(answer["ply"] for answer in answers) == [0, 1, 2, 3, 4]
    end = next(answer for answer in answers if answer["ply"] == 4)
    assert (end["result"], end["moves"], end["to_play"]) == (-1, [], 0)
    assert all(len(answer["moves"]) == 1 for answer in answers if answer["ply"] < 4)


def test_other_starts_and_root_moves(client: Client) -> None:
    fen = "6k1/5ppp/8/8/8/8/8/R3K3 w - - 0 1"
    client.send(id="allow", position=fen, allow=["a1a8", "e1e2"])
    client.send(id="avoid", position=fen, avoid=["a1a8"], simulations=64)
    client.send(id="doubled", position="6k1/5ppp/8/8/8/8/7r/7K w - - 0 1", allow=["h1h2", "Kxh2"])
    answers = {answer["id"]: {move["move"] for move in answer["moves"]} for answer in client.finish()}
    assert answers["allow"] <= {"a1a8", "e1e2"}
    assert "a1a8" not in answers["avoid"]
    assert answers["avoid"]
    assert answers["doubled"] == {"h1h2"}, "of two legal moves"


def test_reports_while_it_thinks(client: Client) -> None:
    client.send(id="slow", seconds=1.5, report_every=0.02)
    answers = client.finish()
    assert [answer["final"] for answer in answers] == [False] * (len(answers) - 1) + [True]
    assert len(answers) >= 3
    simulations = [answer["simulations"] for answer in answers]
    assert simulations == sorted(simulations)
    assert answers[-1]["ended"] == "time"


def test_settings_of_the_search(client: Client) -> None:
    client.send(id="wide", simulations=200, search={"c_puct": 100.0})
    client.send(id="narrow", simulations=200, search={"c_puct": 0.01})
    moves = {answer["id"]: len(answer["moves"]) for answer in client.finish()}
    assert moves["wide"] > moves["narrow"]


def test_a_network_that_was_searched_with_gumbel_tells_all_of_it() -> None:
    client = Client("go", GumbelConfig(cache=1 << 8), size=5)
    client.send(id="all", ownership=True, simulations=64)
    client.send(id="wide", simulations=64, search={"c_puct": 100.0, "c_puct_log": 0.5})
    client.send(id="narrow", simulations=64, search={"c_puct": 0.01})
    answers = {answer["id"]: answer for answer in client.finish()}
    client.engine.end()
    assert np.shape(answers["all"]["ownership"]) == (5, 5)
    assert answers["all"]["score"] is not None
    assert all(move["variation_visits"][0] == move["visits"] for move in answers["all"]["moves"])
    assert len(answers["wide"]["moves"]) > len(answers["narrow"]["moves"])


def test_a_setting_that_the_search_does_not_read_is_refused() -> None:
    client = Client("go", MctsConfig(), size=5)
    client.send(id=1, search={"c_puct": 2.0})
    (answer,) = client.finish()
    client.engine.end()
    assert (answer["field"], "does not read it" in answer["error"]) == ("search", True)


def test_a_finished_game_is_reviewed_without_some_moves() -> None:
    client = Client("go", size=5)
    moves = ["c3", "d4", "pass", "pass"]
    client.send(id="passes", moves=moves, plies="all", avoid=["pass"])
    client.send(id="taken", moves=moves, plies="all", avoid=["c3"])
    client.send(id="never", moves=moves, plies=[1, 2, 4], avoid=["c3"])
    client.send(id="allow", moves=moves, plies=[0, 1], allow=["c3"])
    answers = client.finish()
    client.engine.end()
    for name, avoided in (("passes", "pass"), ("taken", "c3")):
        of_name = {answer["ply"]: answer for answer in answers if answer["id"] == name}
        assert sorted(of_name) == [0, 1, 2, 3, 4]
        assert all(avoided not in [move["move"] for move in answer["moves"]] for answer in of_name.values())
        assert "result" in of_name[4]
    errors = {answer["id"]: answer["field"] for answer in answers if "error" in answer}
    assert errors == {"never": "avoid", "allow": "allow"}


def test_requests_can_be_ended(client: Client) -> None:
    for number in range(6):
        client.send(id=number, seconds=60)
    client.engine.advance()
    client.send(id="t", action="terminate", target=1)
    client.send(id="u", action="terminate", target="nothing")
    client.send(id="v", action="terminate_all")
    answers = client.finish()
    assert {answer["id"]: answer["ended"] for answer in answers} == {
        **dict.fromkeys(range(6), "stop"), "t": 1, "u": 0, "v": 5}
    client.send(id="w", action="version")
    client.send(id="x", action="clear_cache")
    assert [answer["action"] for answer in client.finish()] == ["version", "clear_cache"]


def test_the_first_in_priority_comes_first(client: Client) -> None:
    for number in range(8):
        client.send(id=number, priority=number // 4, seconds=0.02)
    ids = [answer["id"] for answer in client.finish()]
    assert set(ids[:3]) <= {4, 5, 6, 7}


@pytest.mark.parametrize(("line", "field", "what"), [
    ("{", "", "no JSON"), ("[]", "", "JSON object"), ("7", "", "JSON object"), ("[" * 100_000, "", "no JSON"),
    ('{"moves": []}', "id", "must be there"), ('{"id": true}', "id", "must be there"),
    ('{"id": 1, "move": []}', "move", "nearest: moves"), ('{"id": 1, "moves": "e2e4"}', "moves", "list of moves"),
    ('{"id": 1, "moves": ["e2e4", "e2e4"]}', "moves", "moves[1]: "),
    ('{"id": 1, "position": "8/8 w"}', "position", "FEN"),
    ('{"id": 1, "moves": ["\\ud800"]}', "", "no JSON"), ('{"id": 1, "position": 3}', "position", "as text"),
    ('{"id": 1, "plies": [3]}', "plies", "none of the plies 0 to 0"), ('{"id": 1, "plies": []}', "plies", "must be"),
    ('{"id": 1, "plies": [true]}', "plies", "must be"), ('{"id": 1, "simulations": 0}', "simulations", "from 1"),
    ('{"id": 1, "simulations": 1.5}', "simulations", "from 1"), ('{"id": 1, "seconds": NaN}', "seconds", "above 0"),
    ('{"id": 1, "seconds": 1e999}', "seconds", "above 0"),
    ('{"id": 1, "seconds": ' + "9" * 400 + "}", "seconds", "above 0"),
    ('{"id": 1, "report_every": 0.001}', "report_every", "from 0.02"),
    ('{"id": 1, "policy": 1}', "policy", "true or false"),
    ('{"id": 1, "allow": ["e2e5"]}', "allow", "allow: "),
    ('{"id": 1, "allow": ["e2e4"], "avoid": ["e2e4"]}', "avoid", "no legal"),
    ('{"id": 1, "search": {"noise": true}}', "search", "search.noise: cannot be changed"),
    ('{"id": 1, "search": {"c_puct": "2"}}', "search", "search.c_puct"),
    ('{"id": 1, "search": {"c_puct": -1}}', "search", "search.c_puct"),
    ('{"id": 1, "search": {"move_choice": "best"}}', "search", "visits, lcb"),
    ('{"id": 1, "action": "fly"}', "action", "terminate_all"),
    ('{"id": 1, "action": ["terminate"]}', "action", "one of"),
    ('{"id": 1, "action": "terminate"}', "target", "id of the request"),
], ids=range(31))
def test_what_is_wrong_is_told_with_the_id(client: Client, line: str, field: str, what: str) -> None:
    client.engine.receive(line)
    (answer,) = client.finish()
    assert answer["field"] == field
    assert what in answer["error"]
    assert answer["id"] == (1 if '"id": 1' in line and field else None)


def test_more_positions_than_can_wait_are_refused(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    shuffle = ["g1f3", "g8f6", "f3g1", "f6g8"]
    client.send(id="long", moves=shuffle, plies=[0, 0, 0])
    assert len(client.finish()) == 1  # a ply is answered once
    game = Game("go")
    others = AnalysisEngine(game, lambda search: Analysis(game, [PseudoRandomEvaluator(game, 4)], search), SEARCH, 4, 1,
                            client.lines.append)
    monkeypatch.setattr(analyse, "MOST_WAITING", 50)
    for _ in range(50):
        others.receive('{"id": 1}')
    assert not client.lines
    others.receive('{"id": 2}')
    (answer,) = client.finish()
    assert answer["id"] == 2
    assert "50 positions wait already" in answer["error"]
    others.end()


LINES = ('{"id": 1, "moves": ["e2e4"], "plies": "all"}', '{"id": "x", "action": "terminate", "target": 1}',
         '{"id": 2, "seconds": 0.01, "report_every": 0.02, "policy": true}', '{"id": 3, "search": {"c_puct": 2.0}}',
         '{"id": 4, "position": "4k3/8/8/8/8/8/8/4K2R w K - 0 1", "ownership": true, "simulations": 3}')


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=[pytest.mark.long, pytest.mark.timeout(1800)])])
def test_random_and_mutated_lines(client: Client, count: int) -> None:
    chance = random.Random(count)
    for _ in range(count):
        text = list(chance.choice(LINES))
        for _ in range(chance.randrange(4)):
            at = chance.randrange(len(text))
            other = chance.choice(('"', "{", "}", "0", "-", ",", "é", "\0", "null", "[1]", ""))
            text[at : at + chance.randrange(3)] = other
        client.engine.receive("".join(text))
        client.engine.advance()
    for answer in client.finish():
        assert "error" in answer or "action" in answer or isinstance(answer["final"], bool)
    client.send(id="alive")
    assert [answer["id"] for answer in client.finish()] == ["alive"]


# --- the shared evaluator --------------------------------------------------------------------------------------------


def test_threads_get_their_own_answers_in_shared_batches() -> None:
    game = Game("chess")
    single = PseudoRandomEvaluator(game, 64)

    class Slow(PseudoRandomEvaluator):
        def __call__(self, leaves: Leaves) -> Evaluation:
            time.sleep(0.002)
            return super().__call__(leaves)

    shared = SharedEvaluator([Slow(game, 64), Slow(game, 64)], 12)
    chance = np.random.default_rng(1)
    wrong: list[int] = []

    def ask(seed: int) -> None:
        for _ in range(20):
            leaves = sample_leaves(game, int(chance.integers(1, 6)))
            answer, expected = shared(leaves), PseudoRandomEvaluator(game, 64)(leaves)
            if not (np.array_equal(answer.logits, expected.logits) and np.array_equal(answer.values, expected.values)):
                wrong.append(seed)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong
    assert shared.version == single.version
    assert shared.batches < 160  # eight threads asked 20 times each


def test_an_error_of_the_network_reaches_every_thread_that_waits() -> None:
    game = Game("chess")

    class Broken(PseudoRandomEvaluator):
        def __call__(self, leaves: Leaves) -> Evaluation:
            raise RuntimeError("no memory")

    shared = SharedEvaluator([Broken(game, 8)], 8)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no memory"):
            shared(sample_leaves(game, 1))
