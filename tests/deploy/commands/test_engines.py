"""The engines as processes, driven by the clients of python-chess and cshogi; only the protocol is on their stdout."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import chess
import chess.engine
import cshogi
import cshogi.usi
import pytest

PROGRAM = (sys.executable, "-m", "shusaku")
SMALL = ("checkpoint=random", "network.filters=2", "network.blocks=1", "inference.runtime=pseudo_random",
         "engine.threads=1", "engine.leaves=1", "engine.simulations=32")


def test_python_chess_plays_and_analyses() -> None:
    with chess.engine.SimpleEngine.popen_uci([*PROGRAM, "uci", "game=chess", *SMALL], timeout=120) as engine:
        assert engine.id["name"].startswith("Shusaku")
        board = chess.Board()
        for limit in (chess.engine.Limit(nodes=40), chess.engine.Limit(time=0.1),
                      chess.engine.Limit(white_clock=2, black_clock=2, white_inc=0.02, black_inc=0.02)):
            for ponder in (False, True):
                played = engine.play(board, limit, ponder=ponder, info=chess.engine.INFO_ALL)
                assert played.move in board.legal_moves
                board.push(played.move)
        infos = engine.analyse(board, chess.engine.Limit(nodes=200), multipv=3)
        assert len(infos) == 3
        for info in infos:
            line = board.copy()
            for move in info["pv"]:
                assert move in line.legal_moves
                line.push(move)
            assert {"depth", "seldepth", "score", "nodes", "nps", "time"} <= info.keys()
        engine.configure({"UCI_ShowWDL": True})
        assert "wdl" in engine.analyse(board, chess.engine.Limit(nodes=50))
        only = list(board.legal_moves)[:2]
        assert engine.play(board, chess.engine.Limit(nodes=50), root_moves=only).move in only


def test_cshogi_plays(tmp_path: Path) -> None:
    script = tmp_path / "engine.sh"
    script.write_text(f"#!/bin/sh\nexec {shlex.join([*PROGRAM, 'usi', 'game=shogi', *SMALL])}\n")
    script.chmod(0o700)
    engine = cshogi.usi.Engine(str(script))
    engine.setoption("USI_Hash", 64)
    engine.isready()
    engine.usinewgame()
    board, moves = cshogi.Board(), []
    listener = cshogi.usi.InfoListener()
    for _ in range(4):
        engine.position(moves)
        move, _ = engine.go(btime=500, wtime=500, byoyomi=50, listener=listener.listen())
        assert board.is_legal(board.move_from_usi(move))
        assert listener.pv[0] == move
        board.push_usi(move)
        moves.append(move)
    engine.gameover("draw")
    engine.quit()


def test_analyse_answers_everything_before_it_ends() -> None:
    requests = [{"id": number, "moves": ["e2e4", "e7e5"], "plies": "all"} for number in range(3)]
    done = subprocess.run([*PROGRAM, "analyse", "game=chess", *SMALL, "engine.positions=4"], text=True, check=True,
                          input="".join(json.dumps(request) + "\n" for request in requests), capture_output=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    expected = [(number, ply) for number in range(3) for ply in range(3)]
    assert sorted((answer["id"], answer["ply"]) for answer in answers) == expected


@pytest.mark.parametrize(("words", "text"), [
    (["uci", "game=othello", *SMALL], "plays othello, and uci is for chess; use `shusaku gtp`"),
    (["usi", "game=chess", *SMALL], "use `shusaku uci`"),
    (["uci"], "checkpoint= is missing"),
    (["uci", "checkpoint=random", "game=chess", "engine.lag_ms=-1"], "engine.lag_ms=-1: must be"),
], ids=["gtp", "uci", "no checkpoint", "setting"])
def test_what_cannot_be_opened_is_one_line(words: list[str], text: str) -> None:
    done = subprocess.run([*PROGRAM, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = (line for line in done.stderr.splitlines() if not line.endswith(": starting"))
    assert text in line


@pytest.mark.parametrize(("protocol", "game"), [("uci", "chess"), ("gtp", "hex")])
def test_quit_ends_it_although_its_input_stays_open(protocol: str, game: str) -> None:
    words = [*PROGRAM, protocol, f"game={game}", *SMALL]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as engine:
        assert engine.stdin is not None
        assert engine.stderr is not None
        engine.stdin.write("isready\nname\nquit\n")
        engine.stdin.flush()
        assert engine.wait(120) == 0
        assert "Fatal" not in engine.stderr.read()
