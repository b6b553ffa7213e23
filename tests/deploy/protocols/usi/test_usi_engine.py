"""The USI engine against cshogi's rules: variations, resignation, the declaration, and no line that breaks it."""

import random
from collections.abc import Iterator

import cshogi
import pytest
from engine_client import EngineClient, usi_engine, well_formed

WELL_FORMED = well_formed("usi")
# Black's king and ten others are in the zone of promotion, with 28 points: the win may be declared.
ENTERED = "+R+R+BK5/+BGGGG4/PPPP5/9/9/9/9/9/8k b - 1"
MINISHOGI = "rbsgk/4p/5/P4/KGSBR b - 1"


@pytest.fixture(scope="module")
def shared() -> Iterator[EngineClient]:
    """One engine for all tests: to open it costs more than most of them."""
    client = EngineClient(usi_engine)
    client.ask("isready", "readyok")
    yield client
    client.close()


@pytest.fixture
def client(shared: EngineClient) -> Iterator[EngineClient]:
    shared.heard.clear()
    yield shared
    shared.send("stop", "usinewgame")
    assert [line for line in shared.heard if not WELL_FORMED.fullmatch(line)] == []


def check_variations(lines: list[str], board: cshogi.Board) -> None:
    """Every variation of these lines, and the best move with the one to ponder on, is legal."""
    moves = [line.partition(" pv ")[2].split() for line in lines if " pv " in line]
    assert moves
    moves.append(lines[-1].split()[1::2])
    for variation in moves:
        for text in variation:
            move = board.move_from_usi(text)
            assert board.is_legal(move), (text, variation)
            board.push(move)
        for _ in variation:
            board.pop()


def test_the_handshake(client: EngineClient) -> None:
    client.ask("usi", "usiok")
    assert client.heard[0].startswith("id name Shusaku ")
    client.send("setoption name USI_Hash value 256", "setoption name USI_Ponder value true")
    client.ask("isready", "readyok")
    client.send("usinewgame")
    assert not [line for line in client.heard if line.startswith("info string")]


@pytest.mark.parametrize("go", [
    "go btime 0 wtime 0 byoyomi 60", "go btime 300 wtime 300 byoyomi 20", "go btime 400 wtime 400 binc 10 winc 10",
    "go nodes 40", "go depth 2", "go movetime 30", "go btime 0 wtime 0", "go",
])
def test_every_form_of_go_is_answered_once(client: EngineClient, go: str) -> None:
    client.send("position startpos moves 7g7f 3c3d 8h2b+")
    client.ask(go, "bestmove")
    client.run(0.02)
    assert client.count("bestmove") == 1
    board = cshogi.Board()
    for move in ("7g7f", "3c3d", "8h2b+"):
        board.push_usi(move)
    check_variations(client.heard, board)


def test_ponder(client: EngineClient) -> None:
    client.send("position startpos", "go ponder btime 1000 wtime 1000 byoyomi 10")
    client.run(0.05)
    assert client.count("bestmove") == 0
    client.ask("ponderhit", "bestmove")
    client.send("go ponder btime 1000 wtime 1000", "stop", "go ponder", "gameover win")
    assert client.count("bestmove") == 3


def test_a_mate_search_is_declined(client: EngineClient) -> None:
    client.send("position startpos", "go mate infinite")
    assert client.heard == ["checkmate notimplemented"]


def test_the_win_of_a_declaration_is_claimed(client: EngineClient) -> None:
    board = cshogi.Board(ENTERED)
    assert board.is_nyugyoku()
    client.send(f"position sfen {ENTERED}", "go btime 1000 wtime 1000")
    assert client.heard == ["bestmove win"]


def test_without_a_legal_move_it_resigns(client: EngineClient) -> None:
    client.send("position sfen 4k4/4G4/4P4/9/9/9/9/9/4K4 w - 1", "go btime 1000 wtime 1000")
    assert client.heard == ["bestmove resign"]


@pytest.mark.parametrize(("sfen", "answer"), [
    (ENTERED, "bestmove win"), ("4k4/4G4/4P4/9/9/9/9/9/4K4 w - 1", "bestmove resign"),
])
def test_nothing_is_claimed_in_the_time_of_the_opponent(client: EngineClient, sfen: str, answer: str) -> None:
    client.send(f"position sfen {sfen}", "go ponder btime 1000 wtime 1000")
    assert client.heard == []
    client.send("ponderhit", "ponderhit", "stop")
    assert client.heard == [answer]


def test_a_perpetual_check_is_no_declaration(client: EngineClient) -> None:
    """White may not give check a fourth time: our rules end the game there, but black has nothing to declare."""
    client.send("position sfen 4k4/9/9/9/9/9/9/r8/4K4 b - 1 moves 5i6i 9h9i 6i5h 9i9h 5h6i 9h9i 6i5h 9i9h 5h6i 9h9i "
                "6i5h 9i9h 5h6i 9h9i")
    client.ask("go nodes 8", "bestmove")
    assert "bestmove win" not in client.heard


def test_it_resigns_when_three_searches_see_less_than_the_value() -> None:
    client = EngineClient(lambda say: usi_engine(say, resign_value=1.0))  # all of them do
    client.send("position startpos", "go infinite", "stop")
    answers = [client.heard[-1]]  # an analysis counts for nothing, and gives nothing up
    for _ in range(3):
        begin = len(client.heard)
        client.send("go nodes 8")
        answers.append(client.await_line("bestmove", begin))
    begin = len(client.heard)
    client.send("usinewgame", "go nodes 8")
    answers.append(client.await_line("bestmove", begin))
    client.close()
    assert [answer == "bestmove resign" for answer in answers] == [False, False, False, True, False]


def test_minishogi() -> None:
    client = EngineClient(lambda say: usi_engine(say, "minishogi"))
    for position in ("startpos", f"sfen {MINISHOGI}"):
        client.send(f"position {position} moves 5e5d")
        begin = len(client.heard)
        client.ask("go btime 0 wtime 0 byoyomi 40", "bestmove")
        assert client.count("bestmove", begin) == 1
    client.close()
    assert [line for line in client.heard if not WELL_FORMED.fullmatch(line)] == []


LINES = (
    "usi", "isready", "usinewgame", "gameover win", "position startpos", "position startpos moves 7g7f 3c3d",
    f"position sfen {ENTERED}", "position sfen 4k4/9/9/9/9/9/9/r8/4K4 b P 1 moves P*5e", "go mate infinite",
    "setoption name USI_Hash value 16", "stop", "stop", "ponderhit", "quit", "setoption name MultiPV value 3",
)
GOES = ("go", "go infinite", "go ponder btime 50 wtime 50", "go btime 30 wtime 30 byoyomi 5", "go nodes 20",
        "go depth 2", "go btime 0 wtime 0")


@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=[pytest.mark.long, pytest.mark.timeout(1800)])])
def test_random_and_mutated_lines(count: int) -> None:
    chance = random.Random(count)
    client = EngineClient(usi_engine)
    for _ in range(count):
        words = chance.choice(GOES if chance.random() < 0.3 else LINES).split()
        if chance.random() < 0.5:
            extra = chance.choice((*chance.choice(LINES).split(), "-1", str(10**30), "é\0"))
            words.insert(chance.randrange(len(words)), extra)
        if chance.random() < 0.3:
            words.pop(chance.randrange(len(words)))
        if "Threads" not in words:
            client.engine.receive(" ".join(words))
            client.engine.advance()
    client.send("stop", "position startpos")
    begin = len(client.heard)
    client.ask("go nodes 10", "bestmove")
    check_variations(client.heard[begin:], cshogi.Board())
    client.close()
    assert [line for line in client.heard if not WELL_FORMED.fullmatch(line)] == []
