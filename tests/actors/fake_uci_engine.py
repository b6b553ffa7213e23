"""A scripted engine over UCI or USI for tic-tac-toe: plays the first move in a list that nobody has played.

    fake_uci_engine.py [--moves "a1 b1 ..."] [--fault KIND:N] [--pid-file FILE] [--log FILE] [--option LINE]...

At its Nth go it crashes, plays an illegal move, sleeps, floods, ...; `start` and `silent_start` happen before the first
answer.  Every line that it is told goes to the log.  Nothing of ours is imported, so that it is as foreign as any
engine.
"""

import argparse
import os
import signal
import subprocess
import sys
import time

TIC_TAC_TOE = "a1 b1 c1 a2 b2 c2 a3 b3 c3"
OPTIONS = (
    "option name Skill Level type spin default 20 min 0 max 20",
    "option name Style type combo default Normal var Solid var Normal var Very Risky",
    "option name Ponder type check default false",
    "option name Clear Hash type button",
    "option name EvalFile type string default <empty>",
    "option name Broken type spin default 3 min none max 5",
    "option without a type",
)
ANSWERS = {  # instead of a move
    "illegal_move": "bestmove z9", "none": "bestmove (none)", "zeros": "bestmove 0000", "empty": "bestmove",
    "resign": "bestmove resign", "win": "bestmove win",
}


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def fail(kind: str, move: str, last: str) -> bool:
    """Does what the script says; whether an answer has been given."""
    if kind == "crash":
        print("the engine has had enough", file=sys.stderr, flush=True)
        os._exit(3)
    if kind == "abort":
        os.abort()
    if kind in ANSWERS:
        say(ANSWERS[kind])
    elif kind == "taken":
        say(f"bestmove {last}")
    elif kind == "twice":
        say(f"bestmove {move}\nbestmove {move}")
    elif kind == "timeout":
        print("thinking", file=sys.stderr, flush=True)
        time.sleep(60)
    elif kind == "late":
        time.sleep(1.5)
        say(f"bestmove {move}")
    elif kind == "half":
        sys.stdout.write(f"bestmove {move}")
        sys.stdout.flush()
        time.sleep(60)
    elif kind == "long_line":
        while True:
            sys.stdout.write("x" * 10_000)
    elif kind == "flood":
        while True:
            sys.stdout.write("info string I would rather talk about the weather\n" * 1000)
    elif kind == "chatter":  # much that is no answer, then a proper one
        say("info string I would rather talk about the weather\nNo such option: Foo\n\n" * 20_000)
        sys.stderr.write("noise\n" * 50_000)
        sys.stderr.flush()
        return False
    elif kind == "close":
        os.close(1)
        time.sleep(60)
    else:
        raise SystemExit(f"no such fault: {kind}")
    return True


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--moves", default=TIC_TAC_TOE)
    parser.add_argument("--fault", default="")
    parser.add_argument("--pid-file", default="")
    parser.add_argument("--log", default="")
    parser.add_argument("--option", action="append", default=[])
    parser.add_argument("--stubborn", action="store_true")
    options = parser.parse_args()
    kind, _, number = options.fault.partition(":")
    countdown = int(number or 1) if kind else -1
    if options.stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if options.pid_file:
        child = subprocess.Popen(["sleep", "600"])
        with open(options.pid_file, "a", encoding="ascii") as file:
            file.write(f"{os.getpid()} {child.pid}\n")
    if kind == "start":
        print("no network file", file=sys.stderr, flush=True)
        raise SystemExit(4)
    if kind == "silent_start":
        time.sleep(60)
    say("Fake 1.0 by nobody")
    played: list[str] = []
    for line in sys.stdin:
        command, *words = line.split()
        if options.log:
            with open(options.log, "a", encoding="ascii") as file:
                file.write(line)
        if command in ("uci", "usi"):
            say("id name Fake 1.0\nid author nobody\n" + "\n".join([*OPTIONS, *options.option]) + f"\n{command}ok\r")
        elif command == "isready":
            say("readyok")
        elif command == "position":
            played = words[words.index("moves") + 1 :] if "moves" in words else []
        elif command == "go":
            countdown -= 1
            move = next((move for move in options.moves.split() if move not in played), "(none)")
            if countdown == 0 and fail(kind, move, played[-1]):
                continue
            say(f"info depth 1 nodes 1 pv {move}\nbestmove {move} ponder a1")
        elif command == "quit" and not options.stubborn:
            return


if __name__ == "__main__":
    main()
