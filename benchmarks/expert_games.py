"""Games of GNU Go against itself on 9x9, as SGF: what a policy for 9x9 is learned from.

    python -m benchmarks.expert_games DIRECTORY [--games 20000] [--processes 2] [--seed 0] [--record]

A game begins with 2 to 8 uniformly random legal plies (no passes), and GNU Go plays both colours to the end by our
rules: Chinese, komi 7, positional superko, all dead stones captured, so that the area of the last position is the
result.  The number of a game determines its level (1 to 3 in 95 of 100 games), its random plies and
GNU Go's random seed, so any part of the games is a fair sample of all.

Each process appends one line a game to DIRECTORY/gnugo-K.sgf and forces it to the disk.  The same command goes on
after kill -9: a torn last line is dropped, and the games that the files hold are not played again.  At the end it
prints GNU Go's processor time a game by level, and with `--record` adds it to benchmarks/results/expert_games.jsonl;
`--games 0` does that alone, also while the games are being played.  `--sample FILE.xz` writes the first 2,000 games by
number, compressed: tests/fixtures/gnugo_9x9.sgf.xz is made so.

The games serve as they are: `shusaku records import records.file='DIRECTORY/*.sgf' records.out=LOG experiment=...`.
"""

import argparse
import fcntl
import json
import lzma
import multiprocessing
import os
import random
import re
import shlex
import statistics
import sys
from collections import defaultdict, deque
from pathlib import Path
from typing import NamedTuple

from benchmarks.lib import ROOT, record
from shusaku.actors.opponents.gtp import COLOURS, GtpEngine
from shusaku.actors.opponents.process import EngineError
from shusaku.common._core import Game

sys.path.insert(0, str(ROOT / "tests" / "fixtures"))
from oracles import find

RESULTS = "expert_games.jsonl"
SIZE, KOMI = 9, 7.0
PLIES = (2, 8)  # random ones, the least and the most
LEVELS = range(1, 11)
WEIGHTS = [80, 70, 41, 2, 2, 1, 1, 1, 1, 1]  # of the levels: 19,100 of 20,000 games at 1 to 3, for 10 takes 13 times 1
OPTIONS = "--mode gtp --chinese-rules --positional-superko --capture-all-dead --never-resign"
SAMPLE = 2000  # games
TRIES = 5  # of a game
SECONDS = 600.0  # for one answer, on a machine that does other things
NUMBER = re.compile(rb"GN\[(\d+)\]")
SPENT = re.compile(rb"SO\[level (\d+), ([\d.]+) s\]")


class Plan(NamedTuple):
    """What a game's number determines."""

    level: int
    plies: int  # random ones
    seed: int  # of GNU Go
    random: random.Random  # for the plies


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--games", type=int, default=20_000)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sample", type=Path, help="write the first games into this file, .sgf.xz")
    parser.add_argument("--record", action="store_true", help=f"add a line to benchmarks/results/{RESULTS}")
    options = parser.parse_args()
    if options.games:
        play_locked(options)
    if options.sample is not None:
        write_sample(options.directory, options.sample)
    seconds = seconds_by_level(options.directory)
    line = {"games": sum(map(len, seconds.values())), "by_level": {
        level: {"games": len(values), "cpu_s_a_game": round(statistics.fmean(values), 3)}
        for level, values in sorted(seconds.items())}}
    print(json.dumps(line))
    if options.record:
        record(RESULTS, shlex.join(["python", "-m", "benchmarks.expert_games", *sys.argv[1:]]), **line)


def play_locked(options: argparse.Namespace) -> None:
    """Plays unless another process plays into the same directory."""
    program = find("gnugo")
    if program is None:
        sys.exit("gnugo is not here: `make oracles` fetches it, or set SHUSAKU_GNUGO to the program")
    options.directory.mkdir(parents=True, exist_ok=True)
    with (options.directory / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            sys.exit(f"{options.directory}: another process plays into it; wait for it, or name another directory")
        play_missing(str(program), options)


def play_missing(program: str, options: argparse.Namespace) -> None:
    """Plays the games that no file of the directory holds; several processes, each with a file of its own."""
    held: set[int] = set()
    for path in options.directory.glob("gnugo-*.sgf"):
        drop_torn_line(path)
        held |= {int(number) for number in NUMBER.findall(path.read_bytes())}
    missing = [number for number in range(options.games) if number not in held]
    print(f"{len(held):,} games are there, {len(missing):,} are missing", flush=True)
    workers = [multiprocessing.Process(target=work, args=(
        program, options.directory / f"gnugo-{index}.sgf", missing[index::options.processes], options.seed))
        for index in range(options.processes)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failed := [worker.exitcode for worker in workers if worker.exitcode]:
        sys.exit(f"{len(failed)} of {len(workers)} processes failed; see above")


def drop_torn_line(path: Path) -> None:
    """Cuts the file behind its last whole line."""
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.truncate(path, whole)


def work(program: str, path: Path, numbers: list[int], seed: int) -> None:
    """One GNU Go for all these games; another one begins the game again if it dies, TRIES times in a row."""
    game = Game("go", {"size": SIZE, "komi": KOMI})
    waiting, failures = deque(numbers), 0
    with path.open("ab") as file:
        while waiting:
            engine = GtpEngine([program, *OPTIONS.split()])
            try:
                for command in (f"boardsize {SIZE}", f"komi {KOMI:g}"):
                    engine.ask(command, SECONDS)
                while waiting:
                    file.write(play(engine, game, waiting[0], seed).encode() + b"\n")
                    file.flush()
                    os.fsync(file.fileno())
                    waiting.popleft()
                    failures = 0
            except EngineError as error:
                failures += 1
                print(f"game {waiting[0]}: {error}; it begins again", file=sys.stderr, flush=True)
                if failures >= TRIES:
                    raise
            finally:
                engine.close()


def plan_of(number: int, seed: int) -> Plan:
    """Level, random plies and seeds of a game."""
    chance = random.Random(f"{seed} {number}")
    level = chance.choices(LEVELS, WEIGHTS)[0]
    return Plan(level, chance.randint(*PLIES), chance.randrange(1, 1 << 30), chance)


def play(engine: GtpEngine, game: Game, number: int, seed: int) -> str:
    """The game as one line of SGF."""
    plan = plan_of(number, seed)
    before = float(engine.ask("cputime", SECONDS))
    for command in ("clear_board", f"level {plan.level}", f"set_random_seed {plan.seed}"):
        engine.ask(command, SECONDS)
    position = game.start()
    actions: list[int] = []
    while not position.is_terminal:
        colour = COLOURS[position.to_play]
        if len(actions) < plan.plies:
            action = plan.random.choice([one for one in position.legal_actions if one != SIZE * SIZE])
            engine.ask(f"play {colour} {position.to_move(action)}", SECONDS)
        else:
            action = position.from_move(engine.ask(f"genmove {colour}", SECONDS))
        position.play(action)
        actions.append(action)
    score = position.score if position.to_play == 0 else -position.score
    result = "0" if score == 0 else f"{'B' if score > 0 else 'W'}+{abs(score):g}"
    moves = "".join(f";{'BW'[ply % 2]}[{point(action)}]" for ply, action in enumerate(actions))
    spent = float(engine.ask("cputime", SECONDS)) - before
    return (f"(;FF[4]GM[1]SZ[{SIZE}]KM[{KOMI:g}]RU[Chinese]GN[{number}]PB[GNU Go 3.8]PW[GNU Go 3.8]"
            f"SO[level {plan.level}, {spent:.2f} s]GC[{plan.plies} random plies]RE[{result}]{moves})")


def point(action: int) -> str:
    """The two letters of SGF; a pass has none."""
    return "" if action == SIZE * SIZE else chr(97 + action % SIZE) + chr(97 + action // SIZE)


def write_sample(directory: Path, file: Path) -> None:
    """The SAMPLE games of the lowest numbers."""
    lines = [line for path in directory.glob("gnugo-*.sgf") for line in path.read_bytes().splitlines(keepends=True)]
    numbered = {int(found[1]): line for line in lines if line.endswith(b"\n") and (found := NUMBER.search(line))}
    chosen = sorted(numbered)[:SAMPLE]
    file.write_bytes(lzma.compress(b"".join(numbered[number] for number in chosen), preset=9 | lzma.PRESET_EXTREME))
    print(f"{file}: {len(chosen):,} games, {file.stat().st_size:,} bytes")


def seconds_by_level(directory: Path) -> dict[int, list[float]]:
    """GNU Go's processor seconds of every game, by level."""
    seconds: dict[int, list[float]] = defaultdict(list)
    for path in directory.glob("gnugo-*.sgf"):
        for level, spent in SPENT.findall(path.read_bytes()):
            seconds[int(level)].append(float(spent))
    return seconds


if __name__ == "__main__":
    main()
