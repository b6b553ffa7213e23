"""What GUIs read while we think: lz-analyze, kata-analyze, their genmove, kata-raw-nn, GoGui's boards of numbers."""

import re
from itertools import pairwise

import numpy as np
import pytest
from gtp_client import GtpClient

from shusaku.actors.analysis.analysis import Analysis, Limits
from shusaku.actors.analysis.fixed_search import FixedSearch
from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.common._core import Game
from shusaku.common.config.search import GumbelConfig, PuctConfig
from shusaku.common.messages import Evaluation, Leaves
from shusaku.common.search import search_positions
from shusaku.deploy.protocols.gtp import status
from shusaku.deploy.protocols.gtp.engine import Settings
from shusaku.deploy.protocols.gtp.raw_network import evaluate_positions


@pytest.fixture
def go() -> GtpClient:
    return GtpClient(settings=Settings(simulations=40))


def watch(client: GtpClient, command: str, seconds_of_reports: int = 3) -> list[str]:
    """The lines of an analysis that the next line ends."""
    before = len(client.said)
    client.send(command)
    while client.said[before:].count("\n") < 1 + seconds_of_reports:
        client.shell.advance()
    client.send("")
    answer = client.said[before:]
    assert answer.endswith("\n\n")
    first, *lines = answer.removesuffix("\n\n").split("\n")
    assert first == "="
    assert all(lines)
    return lines


def moves_of(line: str) -> list[dict[str, str]]:
    """The fields of each `info`, `pv` and `pvVisits` as the text behind them."""
    parsed = []
    for part in line.split("info ")[1:]:
        words, fields = part.split(), {}
        while words and words[0] not in ("rootInfo", "ownership"):
            key = words.pop(0)
            if key in ("pv", "pvVisits"):
                ends = (i for i, word in enumerate(words) if word in ("pvVisits", "rootInfo", "ownership"))
                end = next(ends, len(words))
                fields[key] = " ".join(words[:end])
                words = words[end:]
            else:
                fields[key] = words.pop(0)
        parsed.append(fields)
    return parsed


def test_lz_analyze(go: GtpClient) -> None:
    go.ask("play b D4")
    for line in watch(go, "lz-analyze w 1"):
        moves = moves_of(line)
        assert [int(move["order"]) for move in moves] == list(range(len(moves)))
        for move in moves:
            assert set(move) == {"move", "visits", "winrate", "prior", "lcb", "order", "pv"}
            assert all(0 <= int(move[key]) <= 10_000 for key in ("winrate", "prior", "lcb"))
            assert move["pv"].split()[0] == move["move"]
    assert sum(int(move["prior"]) for move in moves) <= 10_100


def test_kata_analyze_with_everything(go: GtpClient) -> None:
    lines = watch(go, "kata-analyze b interval 1 rootInfo true pvVisits true minmoves 82 movesOwnership false")
    for line in lines:
        moves = moves_of(line)
        assert len(moves) == 82
        assert all("." in move[key] for move in moves for key in ("winrate", "prior", "lcb"))  # Sabaki tells by it
        assert float(moves[0]["winrate"]) == pytest.approx((float(moves[0]["utility"]) + 1) / 2, abs=1e-5)
        assert sum(float(move["prior"]) for move in moves) == pytest.approx(1, abs=1e-3)
        assert int(moves[0]["pvVisits"].split()[0]) == int(moves[0]["visits"])
        root = re.search(r"rootInfo visits (\d+) utility (\S+) winrate (\S+)$", line)
        assert root
        assert int(root[1]) >= sum(int(move["visits"]) for move in moves)
    assert all(int(a.split("rootInfo visits ")[1].split()[0]) <= int(b.split("rootInfo visits ")[1].split()[0])
               for a, b in pairwise(lines))


def test_a_missing_head_is_left_out_and_logged_once(go: GtpClient) -> None:
    for line in watch(go, "kata-analyze 1 ownership true"):
        assert "ownership" not in line
    watch(go, "kata-analyze 1 ownership true", 1)
    assert len([line for line in go.logged if "ownership" in line]) == 1


def test_how_many_moves(go: GtpClient) -> None:
    assert all(len(moves_of(line)) <= 3 for line in watch(go, "kata-analyze b 1 maxmoves 3"))
    assert all(len(moves_of(line)) >= 30 for line in watch(go, "lz-analyze b 1 minmoves 30"))


def test_avoid_and_allow(go: GtpClient) -> None:
    for line in watch(go, "kata-analyze b 1 allow b d4,E5,pass 1 minmoves 3"):
        assert {move["move"] for move in moves_of(line) if int(move["visits"])} <= {"D4", "E5", "pass"}
    for line in watch(go, "lz-analyze b 1 avoid b D4,E5 50 avoid w A1 1"):
        assert not {move["move"] for move in moves_of(line)} & {"D4", "E5"}
    everything = ",".join(go.ask("all_legal b").split()) + ",pass"
    assert go.refuse(f"kata-analyze b 1 avoid b {everything} 1") == "no legal move is left to analyse"


def test_the_next_command_ends_an_analysis_and_is_answered(go: GtpClient) -> None:
    go.send("7 kata-analyze b 1")
    assert go.said == "=7\n"
    go.send("8 play b E5")
    assert go.said.startswith("=7\n")
    assert go.said.endswith("\n\n=8\n\n")
    assert go.ask("move_history") == "black E5"


def test_analysis_changes_nothing(go: GtpClient) -> None:
    before = go.ask("showboard")
    watch(go, "kata-analyze w 1", 1)  # not the player to move
    assert go.ask("showboard") == before
    assert go.ask("gogui-rules_side_to_move") == "black"


@pytest.mark.parametrize("command", ["lz-genmove_analyze", "kata-genmove_analyze"])
def test_a_finished_game_of_othello_is_passed_as_by_genmove(command: str) -> None:
    client = GtpClient("othello", settings=Settings(simulations=2))
    position, colour = client.engine.state.position, "bw"
    while not position.is_terminal:
        client.ask(f"genmove {colour[position.to_play]}")
        position = client.engine.state.position
    assert client.ask("genmove b") == "pass"
    assert client.raw(f"3 {command} b 1") == "=3\nplay pass\n\n"


@pytest.mark.parametrize("command", ["lz-genmove_analyze", "kata-genmove_analyze"])
def test_genmove_analyze(go: GtpClient, command: str) -> None:
    answer = go.raw(f"3 {command} b 1 maxmoves 2")
    first, *lines, last = answer.removesuffix("\n\n").split("\n")
    assert first == "=3"
    assert lines
    move = re.fullmatch(r"play ([A-J][1-9]|pass)", last)
    assert move
    assert go.ask("move_history") == f"black {move[1]}"
    assert moves_of(lines[-1])[0]["move"] == move[1]


class HeadsEvaluator(PseudoRandomEvaluator):
    """All points are the player's, who leads by two, on a board of 5x5."""

    def __call__(self, leaves: Leaves) -> Evaluation:
        found = super().__call__(leaves)
        heads = {"ownership": np.ones((len(leaves), 5, 5), np.float32), "score": np.full(len(leaves), 2, np.float32)}
        return Evaluation(found.logits, found.values, found.version, heads)


def test_gumbel_tells_owners_and_score_and_plays_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    client = GtpClient(settings=Settings(simulations=40), size=5)
    engine = client.engine
    engine._make_analysis = lambda game: Analysis(game, [HeadsEvaluator(game, 16)], GumbelConfig(simulations=40))
    engine._analysis = engine._make_analysis(client.game)
    fixed: list[bool] = []
    made = Analysis._make_fixed

    def record(analysis: Analysis, limits: Limits) -> FixedSearch | None:
        fixed.append((search := made(analysis, limits)) is not None)
        return search

    monkeypatch.setattr(Analysis, "_make_fixed", record)
    monkeypatch.setattr(status, "play_out", lambda *_: pytest.fail("the ownership head was not asked"))
    answer = client.raw("kata-genmove_analyze b 1 ownership true rootInfo true pvVisits true")
    assert "ownership" in answer
    assert "scoreLead" in answer
    for move in moves_of(answer.split("\n")[-3]):
        assert len(move["pv"].split()) == len(move["pvVisits"].split())
    assert len(client.ask("final_status_list alive").split()) + len(client.ask("final_status_list dead").split()) == 1
    client.ask("genmove w")
    assert fixed == [False, False, True]
    assert not [line for line in client.logged if "ownership" in line]
    client.engine.close()


def test_stop_ends_the_search_for_a_move() -> None:
    client = GtpClient(settings=Settings(simulations=1 << 20))
    for number, line in enumerate(("stop", "# interrupt", "9 stop")):
        client.send(f"{number} genmove {'bw'[number % 2]}")
        for _ in range(20):
            client.shell.advance()
        assert client.shell.is_busy
        before = len(client.said)
        client.send(line)
        assert re.match(rf"={number} ([A-J][1-9]|pass)\n\n", client.said[before:])
    assert client.said.endswith("=9\n\n")
    client.ask("gogui-interrupt")


def test_other_lines_wait_for_the_move(go: GtpClient) -> None:
    go.send("1 genmove b")
    go.send("2 name")
    assert re.fullmatch(r"=1 \S+\n\n=2 Shusaku\n\n", go.said)


def test_clear_cache_forgets(go: GtpClient) -> None:
    first = go.ask("reg_genmove b")
    go.ask("clear_cache")
    assert go.ask("reg_genmove b") == first


# --- the network alone ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "params"), [("go", {"size": 5}), ("othello", {"size": 6}), ("hex", {"size": 4}),
                                               ("go", {"size": 5, "planes": "komi"})])
def test_the_network_sees_what_a_search_sees(name: str, params: dict[str, object]) -> None:
    game = Game(name, params)
    evaluator, position = PseudoRandomEvaluator(game, 16), game.start()
    position.play(position.legal_actions[1])
    position.play(position.legal_actions[0])
    [result] = search_positions(game, [position], PuctConfig(simulations=1), evaluator)
    values, policies = evaluate_positions(game, [position, position], evaluator)
    assert values == pytest.approx(result.raw_value, abs=1e-3)  # the search keeps 16 bits of them
    assert policies[1][result.actions] == pytest.approx(result.prior, abs=1e-3)
    assert policies.sum(axis=1) == pytest.approx(1, abs=1e-5)
    for symmetry in range(game.num_symmetries):
        _, turned = evaluate_positions(game, [position], evaluator, symmetry)
        assert set(np.flatnonzero(turned[0])) <= set(position.legal_actions)


def test_raw_network(go: GtpClient) -> None:
    go.ask("play b D4")
    lines = go.ask("kata-raw-nn 0").split("\n")
    assert lines[0] == "symmetry 0"
    numbers = dict(line.split() for line in lines if line.count(" ") == 1)
    assert float(numbers["whiteWin"]) + float(numbers["whiteLoss"]) == pytest.approx(1, abs=1e-5)
    rows = [line.split() for line in lines[lines.index("policy") + 1 :][:9]]
    assert [len(row) for row in rows] == [9] * 9
    assert rows[5][3] == "NAN"  # D4, the sixth row from the top
    policy = [float(word) for row in rows for word in row if word != "NAN"]
    assert sum(policy) + float(numbers["policyPass"]) == pytest.approx(1, abs=1e-3)
    assert go.ask("kata-raw-nn all").count("symmetry") == 8
    assert go.refuse("kata-raw-nn 8") == "syntax error"


@pytest.mark.parametrize("name", ["go", "othello", "hex"])
def test_every_command_that_gogui_offers_works(name: str) -> None:
    client = GtpClient(name, settings=Settings(simulations=16), size={"go": 5, "othello": 6, "hex": 5}[name])
    client.ask("genmove b")
    listed = client.ask("list_commands").split()
    for line in client.ask("gogui-analyze_commands").split("\n"):
        kind, _, command = line.split("/")
        assert command.split()[0] in listed
        answer = client.ask(command)
        if kind == "dboard":
            rows = [row.split() for row in answer.split("\n")]
            assert [len(row) for row in rows] == [client.engine.state.size] * client.engine.state.size
            assert all(-1 <= float(word) <= 1 for row in rows for word in row)
