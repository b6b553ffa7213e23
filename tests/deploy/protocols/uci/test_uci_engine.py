"""The UCI engine: every `go` gets exactly one `bestmove`, every variation is legal, and no line breaks it."""

import random
import re
import time
from collections.abc import Iterator

import chess
import pytest
from engine_client import EngineClient, uci_engine, well_formed

from shusaku.actors.analysis.report import MoveReport, Report
from shusaku.common.config.schema import EngineConfig
from shusaku.common.errors import UsageError
from shusaku.common.messages import Evaluation, Leaves
from shusaku.common.search import Evaluate
from shusaku.deploy.protocols.opening import OpenedAnalysis
from shusaku.deploy.protocols.uci.engine import UciEngine, uci_dialect

WELL_FORMED = well_formed("uci")


@pytest.fixture(scope="module")
def shared() -> Iterator[EngineClient]:
    """One engine for all tests: to open it costs more than most of them."""
    client = EngineClient(uci_engine)
    client.ask("isready", "readyok")
    yield client
    client.close()


@pytest.fixture
def client(shared: EngineClient) -> Iterator[EngineClient]:
    client = shared
    client.heard.clear()
    yield client
    client.send("stop", "ucinewgame", "setoption name MultiPV value 1", "setoption name UCI_ShowWDL value false")
    assert [line for line in client.heard if not WELL_FORMED.fullmatch(line)] == []


def check_variations(lines: list[str], board: chess.Board) -> None:
    """Every variation of these lines is legal, and the best move begins one."""
    firsts = set()
    for line in lines:
        if " pv " in line:
            line_board = board.copy()
            for text in line.partition(" pv ")[2].split():
                line_board.push(line_board.parse_uci(text))
            firsts.add(line.partition(" pv ")[2].split()[0])
    words = lines[-1].split()
    assert words[1] in firsts
    board = board.copy()
    for text in words[1::2]:  # the best move, and the one to ponder on
        board.push(board.parse_uci(text))


class Breaking:
    """Evaluates so many batches, and then fails."""

    def __init__(self, evaluate: Evaluate, batches: int) -> None:
        self._evaluate, self.left, self.version = evaluate, batches, evaluate.version

    def __call__(self, leaves: Leaves) -> Evaluation:
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("out of memory")
        return self._evaluate(leaves)


@pytest.mark.parametrize("batches", [0, 20])
@pytest.mark.parametrize("go", [
    "go nodes 4000", "go movetime 60000", "go infinite", "go ponder wtime 60000 btime 60000"])
def test_a_fault_is_answered_with_a_move(go: str, batches: int, monkeypatch: pytest.MonkeyPatch) -> None:
    client = EngineClient(uci_engine)
    client.ask("isready", "readyok")
    assert client.engine._opened is not None
    analysis = client.engine._opened.analysis
    with monkeypatch.context() as broken:
        broken.setattr(analysis, "_evaluators", [Breaking(one, batches) for one in analysis._evaluators])
        begin = len(client.heard)
        client.send("position startpos", go)
        if "infinite" in go or "ponder" in go:
            client.run(0.2)
            assert client.count("bestmove", begin) == 0
            client.send("stop" if "infinite" in go else "ponderhit")
        answer = client.await_line("bestmove", begin, 20)
    chess.Board().push(chess.Move.from_uci(answer.split()[1]))
    assert client.count("bestmove", begin) == 1
    assert "info string internal error: RuntimeError: out of memory" in client.heard
    client.ask("go nodes 20", "bestmove")
    client.close()


def test_a_fault_between_two_looks_does_not_cost_the_ponder_hit(monkeypatch: pytest.MonkeyPatch) -> None:
    client = EngineClient(uci_engine)
    client.ask("isready", "readyok")
    assert client.engine._opened is not None
    analysis = client.engine._opened.analysis
    with monkeypatch.context() as broken:
        broken.setattr(analysis, "_evaluators", [Breaking(one, 0) for one in analysis._evaluators])
        begin = len(client.heard)
        client.engine.receive("position startpos")
        client.engine.receive("go ponder wtime 60000 btime 60000")
        time.sleep(0.2)  # the search has failed, and nobody has looked
        client.engine.receive("ponderhit")
        answer = client.await_line("bestmove", begin, 20)
    chess.Board().push(chess.Move.from_uci(answer.split()[1]))
    assert "info string internal error: RuntimeError: out of memory" in client.heard
    client.close()


def test_the_handshake(client: EngineClient) -> None:
    client.ask("uci", "uciok")
    assert client.heard[0].startswith("id name Shusaku ")
    assert "option name MultiPV type spin default 1 min 1 max 500" in client.heard
    client.ask("isready", "readyok")
    client.send("ucinewgame\t", "debug on", "")
    assert client.count("readyok") == 1


@pytest.mark.parametrize("go", [
    "go", "go nodes 40", "go depth 3", "go movetime 60", "go wtime 1000 btime 1000",
    "go wtime 300 btime 300 winc 20 binc 20", "go wtime 200 btime 200 movestogo 1", "go wtime 0 btime 0", "go mate 1",
    "go searchmoves e2e4 a2a3 nodes 20",
    "joho go nodes 10", "go nodes 3 depth 40 movetime 9000", "go wtime -20 btime 1000",
])
def test_every_form_of_go_is_answered_once(client: EngineClient, go: str) -> None:
    moves = [] if "searchmoves" in go else ["e2e4", "e7e5", "e1e2"]
    client.send(f"position startpos moves {' '.join(moves)}")
    begin = len(client.heard)
    client.ask(go, "bestmove")
    client.run(0.02)
    assert client.count("bestmove", begin) == 1
    assert moves or client.heard[-1].split()[1] in ("e2e4", "a2a3")
    board = chess.Board()
    for move in moves:
        board.push_uci(move)
    check_variations(client.heard[begin:], board)


@pytest.mark.parametrize("go", [
    "go infinite", "go ponder wtime 100 btime 100", "go infinite nodes 5", "go ponder nodes 5", "go ponder",
])
def test_an_answer_that_waits_for_stop(client: EngineClient, go: str) -> None:
    client.send("position startpos", go)
    client.run(0.15)
    assert client.count("bestmove") == 0
    client.ask("isready", "readyok")
    client.send("stop", "stop")
    assert client.count("bestmove") == 1


@pytest.mark.parametrize("go", [
    "go ponder wtime 100 btime 100", "go ponder nodes 5", "go ponder", "go ponder movetime 50",
    "go ponder wtime 0 btime 0", "go ponder depth 2",
])
def test_ponderhit_starts_the_clock(client: EngineClient, go: str) -> None:
    client.send("ponderhit", "position startpos", go)
    client.run(0.1)
    assert client.count("bestmove") == 0
    client.ask("ponderhit", "bestmove")
    client.send("ponderhit", "stop")
    assert client.count("bestmove") == 1


def test_time_runs_on_over_ponderhit_and_a_longer_plan(client: EngineClient) -> None:
    client.send("position startpos", "go ponder wtime 9000 btime 9000 winc 200 binc 200")
    client.run(0.5)
    client.ask("ponderhit", "bestmove")
    searched = [line for line in client.heard if line.startswith("info depth")]
    told = [re.search(r"nodes (\d+) nps (\d+) time (\d+)", line) for line in searched]
    nodes, speeds, times = zip(*(map(int, match.groups()) for match in told if match), strict=True)
    assert times == tuple(sorted(times))
    assert times[-1] >= 500
    for count, speed, milliseconds in zip(nodes, speeds, times, strict=True):
        assert speed <= 1000 * count / max(1, milliseconds - 1) + 1


def test_multipv_and_wdl(client: EngineClient) -> None:
    client.send("setoption name MultiPV value 3", "setoption name UCI_ShowWDL value true", "position startpos")
    client.ask("go nodes 200", "bestmove")
    last = [line for line in client.heard if line.startswith("info depth")][-3:]
    assert [re.search(r"multipv (\d)", line)[1] for line in last] == ["1", "2", "3"]  # type: ignore[index]
    assert len({line.partition(" pv ")[2].split()[0] for line in last}) == 3
    assert all(" wdl " in line for line in last)
    client.send("setoption name UCI_ShowWDL value false", "setoption name MultiPV value 500")
    begin = len(client.heard)
    client.ask("go nodes 400", "bestmove")
    assert not any(" wdl " in line for line in client.heard[begin:])


def test_a_position_during_a_search_is_for_the_next_one(client: EngineClient) -> None:
    client.send("position startpos", "go infinite", "position fen 8/8/8/8/8/4k3/4p3/4K3 w - - 0 1 moves")
    client.send("stop")
    check_variations(client.heard, chess.Board())
    begin = len(client.heard)
    client.send("go")
    assert client.heard[begin:] == ["info depth 0 score cp 0", "bestmove (none)"]


@pytest.mark.parametrize(("fen", "score"), [
    ("R5k1/5ppp/8/8/8/8/8/4K3 b - - 0 1", "mate 0"), ("8/8/8/8/8/4k3/4p3/4K3 w - - 0 1", "cp 0"),
])
def test_a_position_without_moves(client: EngineClient, fen: str, score: str) -> None:
    client.send(f"position fen {fen}", "go wtime 100 btime 100")
    assert client.heard[-2:] == [f"info depth 0 score {score}", "bestmove (none)"]


MATED = "position startpos moves f2f3 e7e5 g2g4 d8h4"


@pytest.mark.parametrize(("go", "end"), [
    ("go infinite", "stop"), ("go ponder wtime 100 btime 100", "stop"), ("go ponder wtime 100 btime 100", "ponderhit"),
    ("go ponder infinite", "stop"), ("go ponder", "ucinewgame"),
])
def test_the_answer_to_a_finished_game_waits_as_others_do(client: EngineClient, go: str, end: str) -> None:
    client.send(MATED, go)
    client.ask("isready", "readyok")
    if "infinite" in go:
        client.send("ponderhit")
    assert client.count("bestmove") == 0
    client.send(end, "ponderhit", "stop")
    assert client.heard[-2:] == ["info depth 0 score mate 0", "bestmove (none)"]
    assert client.count("bestmove") == 1


def test_the_next_go_answers_the_one_of_a_finished_game(client: EngineClient) -> None:
    client.send(MATED, "go ponder", "position startpos", "go infinite")
    assert [line for line in client.heard if line.startswith("bestmove")] == ["bestmove (none)"]


def test_the_end_answers_the_go_of_a_finished_game() -> None:
    client = EngineClient(uci_engine)
    client.send(MATED, "go infinite")
    client.close()
    assert client.heard[-1] == "bestmove (none)"


def test_there_is_nothing_to_ponder_on_behind_the_last_move(client: EngineClient) -> None:
    client.send("position startpos moves f2f3 e7e5")
    position = client.engine._position
    white = position.from_move("g2g4")
    mated = position.copy()
    mated.play(white)
    moves = {text: MoveReport(white, "g2g4", 1, 0.5, 0.0, -1.0, (white, mated.from_move(text)))
             for text in ("d8h4", "b8c6")}
    report = Report(1, 0.1, 0.0, tuple(moves.values()), None, None, "")
    best = {text: client.engine._best_move(report, position, move, True)
            for text, move in moves.items()}
    assert best == {"d8h4": "g2g4", "b8c6": "g2g4 ponder b8c6"}


def test_errors_are_told(client: EngineClient) -> None:
    client.send("setoption name Threads value 0", "position startpos moves e2e5", "fly", "setoption name Hash value 3",
                "go nodes many searchmoves e2e5")
    client.await_line("bestmove", 0)
    told = [line for line in client.heard if line.startswith("info string")]
    parts = ("Threads=0", "e2e5", "'fly'", "no option 'Hash'", "go nodes", "searchmoves: ")
    assert [part in line for part, line in zip(parts, told, strict=True)] == [True] * 6


def test_another_number_of_threads(client: EngineClient) -> None:
    for threads in (2, 1):
        client.send(f"setoption name Threads value {threads}")
        client.ask("isready", "readyok")
        client.ask("go nodes 50", "bestmove")


def test_a_checkpoint_that_cannot_be_opened_ends_the_engine() -> None:
    def fail(threads: int) -> OpenedAnalysis:
        raise UsageError("checkpoint=nothing: no such file")

    engine = UciEngine(uci_dialect(EngineConfig(), 1), fail, lambda line: None)
    with pytest.raises(UsageError, match="no such file"):
        engine.receive("isready")
    with pytest.raises(UsageError, match="no such file"):
        engine.end()


# --- the state machine -----------------------------------------------------------------------------------------------

GOES = ("go", "go nodes 20", "go infinite", "go ponder wtime 50 btime 50", "go wtime 40 btime 40 winc 5 binc 5",
        "go movetime 15", "go depth 2", "go searchmoves e2e4 d2d4", "go ponder", "go wtime 0 btime 0")
OTHERS = ("stop", "stop", "ponderhit", "isready", "isready", "position startpos", "position startpos moves e2e4 e7e5",
          "ucinewgame", "setoption name MultiPV value 2", "setoption name Clear Hash", "uci",
          "position startpos moves f2f3 e7e5 g2g4 d8h4")


def test_random_interleavings_answer_every_go_once() -> None:
    """Each `go` is answered after it and before the next one; nothing else is."""
    chance = random.Random(3)
    client = EngineClient(uci_engine)
    open_goes = answers = 0
    for _ in range(400):
        line = chance.choice(GOES if chance.random() < 0.35 else OTHERS)
        begin = len(client.heard)
        client.send(line)
        if chance.random() < 0.2:
            client.run(chance.choice((0.002, 0.03)))
        answers = client.count("bestmove", begin)
        open_goes += line.startswith("go") - answers
        assert open_goes in (0, 1), client.heard[begin:]
        if line in ("stop", "ucinewgame"):
            assert open_goes == 0
        if line == "isready":
            assert client.count("readyok", begin) == 1
    client.close()
    open_goes -= client.count("bestmove", begin) - answers
    assert open_goes == 0
    assert [line for line in client.heard if not WELL_FORMED.fullmatch(line)] == []


def mutated(chance: random.Random, lines: tuple[str, ...]) -> str:
    """A line of the protocol with letters and words changed, doubled, dropped or swapped; or noise."""
    if chance.random() < 0.1:
        length = chance.randrange(60)
        codes = [chance.choice((chance.randrange(32, 127), chance.randrange(0x2000))) for _ in range(length)]
        return "".join(map(chr, codes))
    words = chance.choice(lines).split()
    for _ in range(chance.randrange(3)):
        at = chance.randrange(len(words)) if words else 0
        match chance.randrange(5):
            case 0 if words:
                words.pop(at)
            case 1:
                words.insert(at, chance.choice(chance.choice(lines).split()))
            case 2 if words:
                word = list(words[at])
                word[chance.randrange(len(word))] = chr(chance.randrange(33, 127))
                words[at] = "".join(word)
            case 3:
                words.insert(at, str(chance.choice((-1, 0, 1, 10**9, 10**30, -(10**30)))))
            case _:
                chance.shuffle(words)
    return " ".join(words)


@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=[pytest.mark.long, pytest.mark.timeout(1800)])])
def test_random_and_mutated_lines(count: int) -> None:
    chance = random.Random(count)
    lines = (*GOES, *OTHERS, "position fen rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1 moves e2e4",
             "setoption name Move Overhead value 5", "setoption name Ponder value true", "quit")
    client = EngineClient(uci_engine)
    for _ in range(count):
        line = mutated(chance, lines)
        if line.split()[:1] != ["setoption"] or "Threads" not in line:
            client.engine.receive(line)
            client.engine.advance()
    client.send("stop")
    begin = len(client.heard)
    client.send("position startpos")
    client.ask("go nodes 10", "bestmove")
    client.ask("isready", "readyok")
    check_variations(client.heard[begin:-1], chess.Board())
    client.close()
    assert [line for line in client.heard if not WELL_FORMED.fullmatch(line)] == []
