"""Games out into files of every notation and in again, equal move by move; the peers' readers see the same moves.

    python -m benchmarks.speed.records [--games 5000] [--notations sgf,pgn,...] [--no-peers] [--record]

Random games with comments, values and policies.  Prints games and moves per second of writing and reading; `--record`
appends them to records.jsonl among the results.  Peers (test extra): sgfmill, python-chess, cshogi.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.lib import record as record_line
from shusaku.deploy.records.files import RecordWriter, iterate_records
from shusaku.deploy.records.game_record import GameRecord, Replay

GAMES: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "sgf": [("go", {"size": 9}), ("othello", {}), ("hex", {"size": 7})],
    "pgn": [("chess", {})], "kif": [("shogi", {}), ("minishogi", {})], "kifu": [("shogi", {}), ("minishogi", {})],
    "csa": [("shogi", {}), ("minishogi", {})],
    "jsonl": [("connect_four", {}), ("tic_tac_toe", {}), ("go", {"size": 5})],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=5000, help="of each notation")
    parser.add_argument("--notations", default=",".join(GAMES))
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    is_equal = True
    for notation in options.notations.split(","):
        line = measure(notation, options.games, not options.no_peers)
        is_equal = is_equal and line["equal"] == line["games"] and line["rejected"] == 0
        print(" ".join(f"{key}={value}" for key, value in line.items()), flush=True)
        if options.record:
            record_line("records.jsonl", f"python -m benchmarks.speed.records --games {options.games}", **line)
    sys.exit(0 if is_equal else 1)


def measure(notation: str, games: int, with_peers: bool) -> dict[str, Any]:
    """Writes, reads and compares; times are processor seconds."""
    rules = GAMES[notation]
    records = [record for index, (game, params) in enumerate(rules)
               for record in islice(random_games(game, params, index), -(-games // len(rules)))][:games]
    line: dict[str, Any] = {"notation": notation, "games": len(records), "moves": sum(map(len, records)), "equal": 0,
                            "rejected": 0}
    writing = reading = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for game, _ in rules:
            own = [record for record in records if record.game == game]
            path = Path(folder) / f"{game}.{notation}"
            begin = time.process_time()
            with RecordWriter(path, game, comments=True, top=1) as writer:
                for record in own:
                    writer.write(record)
            middle = time.process_time()
            read = list(iterate_records(path))
            writing, reading = writing + middle - begin, reading + time.process_time() - middle
            line["equal"] += sum(a == b for a, b in zip(own, read, strict=False))
            line["rejected"] += sum(not isinstance(one, GameRecord) for one in read) + abs(len(own) - len(read))
            peer = PEERS.get((notation, game)) if with_peers else None
            if peer is not None:
                moves = [[move.text for move in record.moves] for record in own]
                same = sum(a == b for a, b in zip(peer(path), moves, strict=True))
                line["peer_equal"] = line.get("peer_equal", 0) + same
                line["peer_games"] = line.get("peer_games", 0) + len(own)
    line["written_moves_per_s"] = round(line["moves"] / writing)
    line["read_moves_per_s"] = round(line["moves"] / reading)
    return line


def random_games(game: str, params: dict[str, Any], seed: int) -> Iterator[GameRecord]:
    rng, number = random.Random(seed), 0
    while True:
        number += 1
        replay = Replay(game, params)
        while not replay.position.is_terminal:
            replay.play_action(rng.choice(replay.position.legal_actions), "")
            if rng.random() < 0.05:
                replay.annotate(comment="a [comment]; of \\ 2 words", value=round(rng.uniform(-1, 1), 3),
                                policy=((replay.moves[-1].action, 0.5),))
        yield replay.finish(players=(f"first {number}", "second"), date="2026-11-23", event="random games")


def read_by_sgfmill(path: Path) -> Iterator[list[str]]:
    from sgfmill import sgf, sgf_grammar

    for tree in sgf_grammar.parse_sgf_collection(path.read_bytes()):
        moves = []
        for node in sgf.Sgf_game.from_coarse_game_tree(tree).get_main_sequence():
            colour, point = node.get_move()
            if colour is not None:
                moves.append("pass" if point is None else f"{'ABCDEFGHJ'[point[1]]}{point[0] + 1}")
        yield moves


def read_by_python_chess(path: Path) -> Iterator[list[str]]:
    import chess.pgn

    with path.open(encoding="utf-8") as file:
        while (game := chess.pgn.read_game(file)) is not None:
            yield [] if game.errors else [move.uci() for move in game.mainline_moves()]


def read_by_cshogi(path: Path) -> Iterator[list[str]]:
    import cshogi
    from cshogi import CSA, KIF

    text = path.read_text(encoding="cp932" if path.suffix == ".kif" else "utf-8")
    if path.suffix == ".csa":
        games = CSA.Parser.parse_str(text)
    else:  # which reads one game at a time
        games = [KIF.Parser.parse_str(f"# ----{one}") for one in text.split("# ----")[1:]]
    for game in games:
        yield [cshogi.move_to_usi(move) for move in game.moves]


PEERS: dict[tuple[str, str], Callable[[Path], Iterator[list[str]]]] = {
    ("sgf", "go"): read_by_sgfmill, ("pgn", "chess"): read_by_python_chess, ("kif", "shogi"): read_by_cshogi,
    ("kifu", "shogi"): read_by_cshogi, ("csa", "shogi"): read_by_cshogi,
}

if __name__ == "__main__":
    main()
