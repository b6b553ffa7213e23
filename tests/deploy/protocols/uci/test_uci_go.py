"""`go` in all its forms."""

import pytest

from shusaku.deploy.protocols.clock import Clock
from shusaku.deploy.protocols.uci.go import MOST, GoRequest, read_go


@pytest.mark.parametrize(("words", "request_"), [
    ("", GoRequest()),
    ("infinite", GoRequest(is_infinite=True)),
    ("nodes 100", GoRequest(nodes=100)),
    ("nodes 0", GoRequest(nodes=1)),
    ("depth 5 nodes 9", GoRequest(depth=5, nodes=9)),
    ("mate 3", GoRequest(depth=6)),
    ("mate 3 depth 2", GoRequest(depth=2)),
    ("movetime 1500", GoRequest(move_seconds=1.5)),
    ("movetime -5", GoRequest(move_seconds=0)),
    ("wtime 60000 btime 30000 winc 1000 binc 500", GoRequest(clock=Clock.fischer(60, 1))),
    ("wtime 60000 btime 30000 movestogo 12", GoRequest(clock=Clock.fischer(60, 0, 12))),
    ("wtime -80 btime 30000", GoRequest(clock=Clock.absolute(0))),
    ("ponder wtime 9000 btime 8000", GoRequest(clock=Clock.absolute(9), is_ponder=True)),
    ("btime 9000", GoRequest(clock=Clock.absolute(9))),
    ("searchmoves e2e4 d2d4 nodes 7", GoRequest(nodes=7, moves=("e2e4", "d2d4"))),
    ("infinite searchmoves e2e4 d2d4", GoRequest(is_infinite=True, moves=("e2e4", "d2d4"))),
    ("btime 0 wtime 0 byoyomi 5000", GoRequest(clock=Clock.byo_yomi(0, 5))),
    ("byoyomi 5000", GoRequest(clock=Clock.byo_yomi(0, 5))),
    ("btime 10000 wtime 20000 byoyomi 0 binc 100 winc 200", GoRequest(clock=Clock.fischer(20, 0.2))),
    (f"wtime {10**30} btime 1", GoRequest(clock=Clock.absolute(MOST / 1000))),
])
def test_forms(words: str, request_: GoRequest) -> None:
    assert read_go(words.split(), "w", "b") == (request_, [])


def test_the_clock_is_of_the_player_to_move() -> None:
    words = ["wtime", "60000", "btime", "30000", "winc", "1000", "binc", "500"]
    assert read_go(words, "b", "w")[0].clock == Clock.fischer(30, 0.5)


@pytest.mark.parametrize(("words", "request_", "problem"), [
    ("wtime soon btime 5000", GoRequest(clock=Clock.absolute(5)), "go wtime soon: a whole number has to follow"),
    ("depth", GoRequest(), "go depth: a whole number has to follow"),
    ("nodes depth 4", GoRequest(depth=4), "go nodes"),
    ("fast nodes 4", GoRequest(nodes=4), "unknown word 'fast'"),
    ("nodes ٣", GoRequest(), "go nodes"),
])
def test_what_is_wrong_is_told_and_left_out(words: str, request_: GoRequest, problem: str) -> None:
    request, problems = read_go(words.split(), "w", "b")
    assert request == request_
    assert len(problems) == 1
    assert problem in problems[0]


def test_bare_requests_are_known() -> None:
    assert read_go(["searchmoves", "e2e4"], "w", "b")[0].is_bare
    assert not any(read_go(words.split(), "w", "b")[0].is_bare for words in ("infinite", "depth 1", "byoyomi 5"))
