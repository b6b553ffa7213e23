"""A scripted engine over GTP for tic-tac-toe and connect four: plays the first move in a list that is still there.

    fake_gtp_engine.py [--moves "a1 b1 ..."] [--each TIMES] [--fault KIND:N] [--pid-file FILE] [--refuse COMMAND]

At its Nth genmove it crashes, says nonsense, plays an illegal move, sleeps, floods, ...; `start` and `silent_start`
happen before the first answer.  Nothing of ours is imported, so that it is as foreign as any engine.
"""

import argparse
import os
import subprocess
import sys
import time

TIC_TAC_TOE = "a1 b1 c1 a2 b2 c2 a3 b3 c3"


def say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def fail(kind: str, legal: str) -> bool:
    """Does what the script says; whether an answer has been given."""
    if kind == "crash":
        print("the engine has had enough", file=sys.stderr, flush=True)
        os._exit(3)
    if kind == "abort":
        os.abort()
    if kind == "illegal_move":
        say("= z9\n\n")
    elif kind == "taken":
        say(f"= {legal}\n\n")
    elif kind == "garbage":
        say("I would rather talk about the weather\n\n")
    elif kind == "sentence":
        say("= not a move\n\n")
    elif kind == "refused":
        say("? I do not know\n\n")
    elif kind == "resign":
        say("= resign\n\n")
    elif kind == "half":
        say(f"= {legal}")
        time.sleep(60)
    elif kind == "timeout":
        print("thinking", file=sys.stderr, flush=True)
        time.sleep(60)
    elif kind == "flood":
        while True:
            say("= " + "x" * 1000 + "\n")
    elif kind == "chatter":  # an answer, and more than was asked for
        say(f"= {legal}\n\n= {legal}\n\n")
    elif kind == "loud":  # more on stderr than a pipe holds, then a proper answer
        sys.stderr.write("noise\n" * 50_000)
        sys.stderr.flush()
        say(f"= {legal}\n\n")
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
    parser.add_argument("--each", type=int, default=1)
    parser.add_argument("--fault", default="")
    parser.add_argument("--pid-file", default="")
    parser.add_argument("--refuse", default="")
    parser.add_argument("--upper", action="store_true")
    options = parser.parse_args()
    moves = options.moves.split()
    left = dict.fromkeys(moves, options.each)
    last = moves[0]
    kind, _, number = options.fault.partition(":")
    countdown = int(number or 1) if kind else -1
    if options.pid_file:
        child = subprocess.Popen(["sleep", "600"])
        with open(options.pid_file, "a", encoding="ascii") as file:
            file.write(f"{os.getpid()} {child.pid}\n")
    if kind == "start":
        print("no book", file=sys.stderr, flush=True)
        raise SystemExit(4)
    if kind == "silent_start":
        time.sleep(60)
    for line in sys.stdin:
        command, *arguments = line.split()
        if command == options.refuse:
            say("? no such thing here\n\n")
        elif command == "name":
            say("= Fake\n\n")
        elif command == "version":
            say("= 1.0\n\n")
        elif command == "clear_board":
            left = dict.fromkeys(moves, options.each)
            say("=\n\n")
        elif command == "play":
            last = arguments[1]
            left[last] -= 1
            say("=\r\n\r\n")
        elif command == "genmove":
            countdown -= 1
            chosen = next(move for move in moves if left[move])
            if countdown == 0 and fail(kind, last if kind == "taken" else chosen):
                continue
            if not (countdown == 0 and kind == "loud"):
                say(f"= {chosen.upper() if options.upper else chosen} \n\n")
            left[chosen] -= 1
        elif command == "quit":
            say("=\n\n")
            return
        elif command == "level":
            print(f"level {arguments}", file=sys.stderr, flush=True)
            say("=\n\n")
        else:
            say("? unknown command\n\n")


if __name__ == "__main__":
    main()
