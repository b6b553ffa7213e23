"""Games of our UCI and USI engines, run and refereed by programs of others: python-chess, cshogi, pyffish.

    python -m benchmarks.engines.games chess     --checkpoint runs/chess --opponent "stockfish" --option "Skill Level=0"
    python -m benchmarks.engines.games shogi     --checkpoint runs/shogi --opponent gpsusi
    python -m benchmarks.engines.games minishogi --checkpoint random --opponent "fairy-stockfish" \
        --option UCI_Variant=minishogi
    python -m benchmarks.engines.games chess --checkpoint random --opponent random --clock 2+0.02 --games 200 --busy

The clients and the rules are theirs: a move that their rules refuse, a protocol error and a flag that falls lose the
game and are counted for the engine that did it.  `--busy` keeps a process busy on every core meanwhile.  `--record`
appends the result to engines.jsonl among the results.
"""

import argparse
import contextlib
import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import chess
import chess.engine
import cshogi
import cshogi.usi
import pyffish

from benchmarks.lib import record
from shusaku.actors.opponents.uci_games import KNOWN, to_engine

HANGS_S = 120  # a move that takes longer is a hang, whatever the clock says
MOST_PLIES = 400  # then it is a draw
START_S = 120.0


class Referee(Protocol):
    """A game by the rules of another program."""

    def result(self) -> str:
        """`1-0`, `0-1` or `1/2-1/2` for the first player; empty: it goes on."""

    def play(self, move: str) -> bool:
        """Whether the move is legal; then it is played."""


class ChessReferee:
    def __init__(self) -> None:
        self.board = chess.Board()

    def result(self) -> str:
        end = self.board.outcome(claim_draw=True)
        return end.result() if end else ""

    def play(self, move: str) -> bool:
        try:
            self.board.push_uci(move)
        except ValueError:
            return False
        return True

    def legal_moves(self) -> list[str]:
        return [move.uci() for move in self.board.legal_moves]


class ShogiReferee:
    def __init__(self) -> None:
        self.board = cshogi.Board()

    def result(self) -> str:
        if self.board.is_game_over():
            return "0-1" if self.board.turn == cshogi.BLACK else "1-0"
        ends = {cshogi.REPETITION_DRAW: "1/2-1/2"}
        repeats = self.board.is_draw()
        if repeats in (cshogi.REPETITION_WIN, cshogi.REPETITION_LOSE):
            wins = (repeats == cshogi.REPETITION_WIN) == (self.board.turn == cshogi.BLACK)
            return "1-0" if wins else "0-1"
        return ends.get(repeats, "")

    def may_declare(self) -> bool:
        return bool(self.board.is_nyugyoku())

    def play(self, move: str) -> bool:
        parsed = self.board.move_from_usi(move)
        if not self.board.is_legal(parsed):
            return False
        self.board.push(parsed)
        return True

    def legal_moves(self) -> list[str]:
        return [cshogi.move_to_usi(move) for move in self.board.legal_moves]


class MinishogiReferee:
    def __init__(self) -> None:
        self.moves: list[str] = []
        self.start = pyffish.start_fen("minishogi")

    def result(self) -> str:
        ends, value = pyffish.is_optional_game_end("minishogi", self.start, self.moves)
        if not pyffish.legal_moves("minishogi", self.start, self.moves):
            value, ends = pyffish.game_result("minishogi", self.start, self.moves), True
        if not ends:
            return ""
        value = value if len(self.moves) % 2 == 0 else -value  # for the first player
        return "1-0" if value > 0 else "0-1" if value < 0 else "1/2-1/2"

    def play(self, move: str) -> bool:
        theirs = to_engine(KNOWN["uci"]["minishogi"], move)
        if theirs not in pyffish.legal_moves("minishogi", self.start, self.moves):
            return False
        self.moves.append(theirs)
        return True


@dataclass
class Clock:
    """Both players' clocks, in seconds; none: a fixed time a move."""

    left: list[float] = field(default_factory=list)
    increment: float = 0.0
    move_seconds: float = 0.1

    def spend(self, player: int, seconds: float) -> bool:
        """Whether the flag has not fallen."""
        if not self.left:
            return True
        self.left[player] -= seconds
        fell = self.left[player] <= 0
        self.left[player] += self.increment
        return not fell


class ChessClient:
    """python-chess's."""

    def __init__(self, command: list[str], options: dict[str, str]) -> None:
        self.engine = chess.engine.SimpleEngine.popen_uci(command, timeout=START_S)
        self.engine.configure(dict(options))
        self.engine.ping()

    def choose(self, referee: Any, moves: list[str], clock: Clock, game: int) -> str:
        limit = chess.engine.Limit(time=clock.move_seconds)
        if clock.left:
            limit = chess.engine.Limit(white_clock=clock.left[0], black_clock=clock.left[1],
                                       white_inc=clock.increment, black_inc=clock.increment)
        played = self.engine.play(referee.board, limit, game=game)
        return "resign" if played.resigned else str(played.move)

    def end(self, result: str) -> None:
        pass

    def close(self) -> None:
        self.engine.quit()


class ShogiClient:
    """cshogi's, which starts programs without arguments."""

    def __init__(self, command: list[str], options: dict[str, str]) -> None:
        with tempfile.NamedTemporaryFile("w", prefix="engine_", suffix=".sh", delete=False) as script:
            script.write(f"#!/bin/sh\nexec {shlex.join(command)} 2>/dev/null\n")
        self.script = Path(script.name)
        self.script.chmod(0o700)
        self.engine = cshogi.usi.Engine(str(self.script))
        for name, value in options.items():
            self.engine.setoption(name, value)
        self.game = -1

    def choose(self, referee: Any, moves: list[str], clock: Clock, game: int) -> str:
        if game != self.game:
            self.game = game
            self.engine.isready()
            self.engine.usinewgame()
        self.engine.position(moves)
        if clock.left:
            black, white = (max(0, round(1000 * left)) for left in clock.left)
            step = round(1000 * clock.increment)
            move, _ = self.engine.go(btime=black, wtime=white, binc=step, winc=step)
        else:
            move, _ = self.engine.go(btime=0, wtime=0, byoyomi=round(1000 * clock.move_seconds))
        return str(move)

    def end(self, result: str) -> None:
        self.engine.gameover(result)

    def close(self) -> None:
        self.engine.quit()
        self.script.unlink()


class RandomClient:
    """Plays at once, and anything: games against it are long, and only our engine's clock runs down."""

    def __init__(self, command: list[str], options: dict[str, str]) -> None:
        self.random = random.Random(1)

    def choose(self, referee: Any, moves: list[str], clock: Clock, game: int) -> str:
        return self.random.choice(referee.legal_moves())

    def end(self, result: str) -> None:
        pass

    def close(self) -> None:
        pass


REFEREES = {"chess": ChessReferee, "shogi": ShogiReferee, "minishogi": MinishogiReferee}


def play(game: str, clients: list[Any], number: int, clock: Clock) -> tuple[str, int, str]:
    """Result for the first player, the plies, and why it ended."""
    referee, moves = REFEREES[game](), []
    while not (result := referee.result()) and len(moves) < MOST_PLIES:
        player = len(moves) % 2
        began = time.monotonic()
        lost = "0-1" if player == 0 else "1-0"
        try:
            signal.alarm(HANGS_S)
            move = clients[player].choose(referee, moves, clock, number)
        except (chess.engine.EngineError, OSError, TimeoutError) as error:
            return lost, len(moves), f"protocol error of {player}: {error}"
        finally:
            signal.alarm(0)
        if not clock.spend(player, time.monotonic() - began):
            return lost, len(moves), f"time of {player}"
        if move == "resign":
            return lost, len(moves), "resignation"
        if move == "win" and isinstance(referee, ShogiReferee) and referee.may_declare():
            return "1-0" if player == 0 else "0-1", len(moves), "declaration"
        if not referee.play(move):
            return lost, len(moves), f"illegal move of {player}: {move}"
        moves.append(move)
    return result or "1/2-1/2", len(moves), "the rules" if result else f"{MOST_PLIES} plies"


@contextlib.contextmanager
def busy_cores(wanted: bool) -> Iterator[None]:
    """A process that never waits on every core."""
    count = len(os.sched_getaffinity(0)) if wanted else 0
    spinners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()


def hang(number: int, frame: Any) -> None:
    raise TimeoutError(f"no move in {HANGS_S} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("game", choices=REFEREES)
    parser.add_argument("--checkpoint", default="random")
    parser.add_argument("--set", action="append", default=[], help="a setting of ours: engine.threads=1")
    parser.add_argument("--opponent", required=True, help="a command, `self`, or `random` (chess, shogi)")
    parser.add_argument("--option", action="append", default=[], help="of the opponent: NAME=VALUE")
    parser.add_argument("--games", type=int, default=100)
    parser.add_argument("--clock", help="SECONDS+INCREMENT; else a fixed time a move")
    parser.add_argument("--move-seconds", type=float, default=0.1)
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, hang)
    protocol = "uci" if options.game == "chess" else "usi"
    settings = [f"checkpoint={options.checkpoint}", *options.set]
    if options.checkpoint == "random":
        settings.append(f"game={options.game}")
    ours = [sys.executable, "-m", "shusaku", protocol, *settings]
    theirs = ours if options.opponent == "self" else shlex.split(options.opponent)
    client = ChessClient if protocol == "uci" else ShogiClient
    score, ends, faults, plies = Counter(), Counter(), Counter(), 0
    with busy_cores(options.busy):
        opponent = RandomClient if options.opponent == "random" else client
        engines = [client(ours, {}), opponent(theirs, dict(text.split("=", 1) for text in options.option))]
        for number in range(options.games):
            order = [0, 1] if number % 2 == 0 else [1, 0]  # who moves first
            clock = Clock(move_seconds=options.move_seconds)
            if options.clock:
                main_time, increment = map(float, options.clock.split("+"))
                clock = Clock([main_time, main_time], increment)
            result, length, why = play(options.game, [engines[i] for i in order], number, clock)
            for place, words in ((0, {"1-0": "win", "0-1": "lose"}), (1, {"0-1": "win", "1-0": "lose"})):
                engines[order[place]].end(words.get(result, "draw"))
            first = {"1-0": "wins", "0-1": "losses"}.get(result, "draws")
            score[first if order[0] == 0 else {"wins": "losses", "losses": "wins"}.get(first, "draws")] += 1
            plies += length
            kind, _, rest = why.partition(" of ")
            if rest:
                faults[f"{kind} of {'us' if order[int(rest[0])] == 0 else 'them'}"] += 1
            ends[kind] += 1
            print(f"game {number + 1}: {result} after {length} plies: {why}", flush=True)
        for engine in engines:
            engine.close()
    values = {"name": f"{options.game} {options.opponent}", "games": options.games, **score, "ends": dict(ends),
              "faults": dict(faults), "plies": plies, "busy": options.busy, "clock": options.clock or ""}
    print(values)
    if options.record:
        record("engines.jsonl", shlex.join(["python", "-m", "benchmarks.engines.games", *sys.argv[1:]]), **values)


if __name__ == "__main__":
    main()
