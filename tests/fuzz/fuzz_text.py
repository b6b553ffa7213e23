"""Fuzzes all that reads text: positions (FEN, SFEN, SGF, grids), moves (UCI, SAN, USI, GTP's vertices, ...), `perft`.

    .venv/bin/python -m pip install -c constraints.txt atheris          # the extra [fuzz] of pyproject.toml
    .venv/bin/python tests/fuzz/fuzz_text.py -max_total_time=60         # options of libFuzzer; ends at what it finds
    .venv/bin/python tests/fuzz/fuzz_text.py runs/fuzz_text/crash-...   # the same text again

A text is refused with ValueError in one line, by `shusaku perft` with UsageError, or it is read.  What was read, once
written, is read as the same; and no position changes because somebody asks it what a text means.

The core is compiled without coverage, so its answers take the place of it: each reason for a refusal and each kind of
position is a branch of its own, and a text that leads to a new one is kept and varied.
"""

import re
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from shusaku.common._core import Game, Position
from shusaku.common.errors import UsageError
from shusaku.deploy.commands.perft import run as perft

FOLDER = Path(__file__).resolve().parents[2] / "runs" / "fuzz_text"
BRANCHES = 4096

KIWIPETE = "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R"
GO_5 = ".XO../XXO../OOO../...../...XX"

# Of each game: its name and parameters, texts of positions, and moves for any of them.
SEEDS: list[tuple[str, dict[str, Any], list[str], list[str]]] = [
    (
        "chess", {},
        [
            "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1", f"{KIWIPETE} w KQkq - 0 1",
            f"{KIWIPETE} b Qk -", "8/2p5/3p4/KP5r/1R3pPk/8/4P3/8 b - g3 0 1",
            "r6k/1P3P2/8/8/1N3N2/8/1N6/4K3 w - - 99 8", "8/8/4k1b1/8/8/3K1B2/8/8 w - - 100 80",
        ],
        ["e2e4", "Nf3", "O-O", "0-0-0", "e1g1", "b7b8n", "b8=Q+", "bxa8=N#", "fxg3", "f4g3", "Nbd3!", "N4d3", "Qf3xf6"],
    ),
    (
        "shogi", {},
        [
            "lnsgkgsnl/1r5b1/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL b - 1", "4k4/9/9/9/9/9/9/9/4K4 w B2Prp 7",
            "8l/1l+R2P3/p2pBG1pp/kps1p4/Nn1P2G2/P1P1P2PP/1PS6/1KSG3+r1/LN2+p3L w Sbgn3p 124",
        ],
        ["7g7f", "8h2b+", "P*5e", "2b3c", "G*3b", "5a4b", "N*5c"],
    ),
    ("minishogi", {}, ["rbsgk/4p/5/P4/KGSBR b - 1", "r1s1k/4p/1b3/P4/KGSBR w G 9"], ["5d5c", "2e5b+", "G*3c", "1a2a"]),
    (
        "go", {"size": 5, "planes": "tutorial"},
        [
            GO_5, GO_5.replace("/", "\n") + "\nO\n", "(;SZ[5]AB[aa][ba:cb]AW[dd]PL[W])",
            "( ;GM[1] C[\\]x] AE[aa]\nAW[bb] )",
        ],
        ["A1", "e5", "pass", "PASS", "c3"],
    ),
    ("go", {"size": 19, "planes": "tutorial"}, ["(;SZ[19]AB[dd][pp]AW[dp:ep]PL[B])"], ["T19", "q16", "J10"]),
    ("othello", {}, ["......../......../......../...OX.../...XO.../......../......../........ X"], ["d3", "pass"]),
    ("othello", {"size": 6}, ["XXX.../OOO.../....../..OX../..XO../...... O"], ["c5", "pass"]),
    ("hex", {"size": 4}, ["X.O./.X../..O./...X O", "XOO./X.O./X.../X..."], ["a1", "d4", "c2"]),
    ("connect_four", {}, ["......./......./......./......./...O.../..XX.O."], ["1", "4", "7"]),
    ("tic_tac_toe", {}, ["X.O/.X./... O", "X O X\nX O O\nX . ."], ["a1", "b2", "c3"]),
]
COMMANDS = [("chess", "e2e4 e7e5 Nf3"), ("shogi", "7g7f,3c3d,8h2b+"), ("go", "(;AB[dd])"), ("go", "D4 pass pass"),
            ("othello", "d3,c3"), ("connect_four", "1 2 3 4"), ("tic_tac_toe", "X.O/.X./... O")]
WORDS = ["startpos", " w ", " b ", " - ", "KQkq", "=Q", "O-O-O", "0-0", "++", "*", "10p", "(;", "AB[", "AW[aa:bb]",
         "AE[", "PL[W]", "SZ[5]", "GM[1]", "B[", "\\]", "pass", "resign", "//", "\n", "\t", "\0", "é", "歩", "\u2028",
         "99999999999", "-1"]


@dataclass(frozen=True)
class Reader:
    """Something that reads text."""

    name: str
    read: Callable[[str], str]  # what came of it, in a few words; AssertionError where it is not as it should be
    seeds: list[str]


def readers() -> list[Reader]:
    found = []
    for name, params, positions, moves in SEEDS:
        game = Game(name, params)
        found.append(Reader(f"position of {name} {params}", partial(read_position, game), positions))
        for at in positions:
            read = partial(read_move, game, game.position(at))
            found.append(Reader(f"move of {name} {params} in {at!r}", read, moves))
    return found + [Reader(f"perft {name}", partial(read_command, name), [text]) for name, text in COMMANDS]


def read_position(game: Game, text: str) -> str:
    try:
        position = game.position(text)
    except ValueError as error:
        return reason(error)
    before, text_of_it = facts(position), written(game, position)
    again = game.position(text_of_it)
    assert facts(again) == before, f"read as\n{position}written {text_of_it!r}, and that is read as\n{again}"
    for action in position.legal_actions:
        position.copy().play(action)
    assert facts(position) == before, "changed by its copies"
    size = len(position.legal_actions).bit_length()
    return f"player {position.to_play} to move, over {position.is_terminal}, about {2 ** size} moves"


def read_move(game: Game, position: Position, text: str) -> str:
    before = facts(position)
    try:
        action = position.from_move(text)
    except ValueError as error:
        answer = reason(error)
    else:
        names = [position.to_move(action)] + ([position.to_san(action)] if game.name == "chess" else [])
        answer = "such as " + re.sub(r"[a-h]", "a", re.sub(r"[1-8]", "1", " ".join(names)))
        assert action in position.legal_actions
        assert [position.from_move(name) for name in names] == [action] * len(names), names
    assert facts(position) == before, "changed by being asked"
    return answer


def read_command(game: str, text: str) -> str:
    try:
        return str(perft([game, "0", f"--position={text}"], True)["nodes"])
    except UsageError as error:
        reason(error)
        return "refused"


def reason(error: ValueError) -> str:
    """Why a text is refused, without what of it is quoted."""
    message = str(error)
    assert not isinstance(error, UnicodeError), f"the reason is lost: {message}"
    assert len(message.splitlines()) == 1, f"not one line: {message!r}"
    return re.sub(r"'.*'|legal are .*|[^a-z ]", "", message)


def facts(position: Position) -> tuple[Any, ...]:
    """All that can be known of a position."""
    return (str(position), position.to_play, position.ply, position.is_terminal, position.legal_actions,
            position.evaluation_key, position.transposition_key, position.observation().tobytes(),
            position.outcome if position.is_terminal else None)


def written(game: Game, position: Position) -> str:
    """The position as text: the core's own, or a grid of the stones that are on the first two planes."""
    if game.name in ("chess", "shogi", "minishogi"):
        return position.text
    first, second = position.observation()[:2].astype(bool)
    if position.to_play == 1 and game.name != "tic_tac_toe":  # there X comes first, elsewhere the player to move
        first, second = second, first
    rows = ["".join("X" if x else "O" if o else "." for x, o in zip(*row, strict=True))
            for row in zip(first, second, strict=True)]
    return "/".join(rows) + f" {'XO'[position.to_play]}"


def fuzz(arguments: list[str]) -> None:
    try:
        import atheris  # here: tests/fuzz/test_fuzz_text.py needs none
    except ImportError:
        sys.exit("there is no atheris: .venv/bin/python -m pip install -c constraints.txt atheris")

    known = readers()
    branches = [atheris.instrument_func(lambda: None) for _ in range(BRANCHES)]

    def test_one(data: bytes) -> None:
        if not data:
            return
        reader = known[data[0] % len(known)]
        text = data[1:].decode("utf-8", errors="ignore")
        try:
            answer = reader.read(text)
        except BaseException:
            print(f"{reader.name} {text!r}", file=sys.stderr, flush=True)
            raise
        branches[zlib.crc32(f"{reader.name} {answer}".encode()) % BRANCHES]()

    names_a_place = any(not word.startswith("-") for word in arguments)
    atheris.Setup([sys.argv[0], *([] if names_a_place else defaults(known)), *arguments], test_one)
    atheris.Fuzz()


def defaults(known: list[Reader]) -> list[str]:
    """For libFuzzer, unless a file or a folder is named: what led to something new is kept for the next time."""
    corpus, words = FOLDER / "corpus", FOLDER / "words"
    corpus.mkdir(parents=True, exist_ok=True)
    for index, reader in enumerate(known):
        for number, text in enumerate(reader.seeds):
            (corpus / f"seed_{index}_{number}").write_bytes(bytes([index]) + text.encode())
    words.write_text("".join('"' + "".join(f"\\x{byte:02x}" for byte in word.encode()) + '"\n' for word in WORDS))
    return [f"-dict={words}", f"-artifact_prefix={FOLDER}/", "-max_len=500", "-timeout=10", str(corpus)]


if __name__ == "__main__":
    fuzz(sys.argv[1:])
