"""Windows of planes and of moves, in turn: bytes a row, and rows sampled a second of processor time; recorded.

    python -m benchmarks.speed.kept_moves [--seconds 3] [--rows 20000] [--no-record]

Games are random, with policies over at most 30 actions as searches of some hundred simulations have them.  A game of
chess or shogi is stopped after 100 plies, one of Go after 1.5 plies a point: about as long as those of self-play.
"""

import argparse
import time
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.lib import record
from shusaku.common._core import Game, RowRing
from shusaku.common.messages import EndedBy, GameId, GameRecord, RowKind

GAMES: dict[str, tuple[str, dict[str, Any], int]] = {
    "connect four": ("connect_four", {}, 42), "Go 9x9": ("go", {"size": 9}, 120), "Go 19x19": ("go", {}, 240),
    "chess": ("chess", {}, 100), "shogi": ("shogi", {}, 112),
}
ENTRIES = 30  # of a policy
BATCH = 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="of the processor's time, for each ring")
    parser.add_argument("--rows", type=int, default=20_000, help="in each ring")
    parser.add_argument("--no-record", action="store_true")
    options = parser.parse_args()
    for name, (game_name, params, plies) in GAMES.items():
        values = measure(Game(game_name, params), plies, options.rows, options.seconds)
        print(f"{name:13}" + "  ".join(f"{key} {value:,.0f}" for key, value in values.items()), flush=True)
        if not options.no_record:
            record("kept_moves.jsonl", f"python -m benchmarks.speed.kept_moves --seconds {options.seconds:g}",
                   name=name, rows=options.rows, **values)


def measure(game: Game, plies: int, rows: int, seconds: float) -> dict[str, float]:
    """Bytes a row and rows a second, of planes and of moves; AssertionError if the rows differ."""
    rings = {"planes": RowRing(game, rows), "moves": RowRing(game, rows, keeps_moves=True)}
    seed = 0
    while rings["planes"].end < rows:
        game_record = random_game(game, seed, plies)
        for ring in rings.values():
            ring.append(game_record)
        seed += 1
    end = rings["planes"].end
    one, two = (ring.sample(BATCH, end - rows, end, 1, True, 1) for ring in rings.values())
    assert all(one[key].tobytes() == two[key].tobytes() for key in one)
    values: dict[str, float] = {}
    for keep, ring in rings.items():
        values[f"{keep}_bytes_per_row"] = ring.nbytes / rows
        sampled, begin = 0, time.process_time()  # of the processor: the machine may be shared
        while (spent := time.process_time() - begin) < seconds:
            ring.sample(BATCH, end - rows, end, sampled, True, 1)
            sampled += BATCH
        values[f"{keep}_rows_per_s"] = sampled / spent
    return values


def random_game(game: Game, seed: int, most: int) -> GameRecord:
    random = np.random.default_rng(seed)
    position, actions, entries, offsets = game.start(), [], [], [0]
    while not position.is_terminal and len(actions) < most:
        legal = np.array(position.legal_actions)
        chosen = np.sort(random.choice(legal, min(ENTRIES, len(legal)), replace=False))
        shares = np.diff([0, *np.sort(random.integers(0, 65_536, len(chosen) - 1)), 65_535])
        entries.append((chosen, shares))
        offsets.append(offsets[-1] + len(chosen))
        actions.append(int(random.choice(legal)))
        position.play(actions[-1])
    sign = 1 if position.to_play == 0 else -1
    ended = EndedBy.PLY_LIMIT if position.is_cut_off else EndedBy.RULES
    count, zeros = len(actions), np.zeros(len(actions), np.float32)
    whole = GameRecord(
        game=game.name, params=game.params, game_id=GameId(0, 0, 0, seed), config_hash="",
        outcome=1, score=float("nan"), ended_by=EndedBy.RESIGNATION,
        actions=np.array(actions, np.uint16), policy_offsets=np.array(offsets, np.uint32),
        policy_actions=np.concatenate([chosen for chosen, _ in entries]).astype(np.uint16),
        policy_shares=np.concatenate([shares for _, shares in entries]).astype(np.uint16),
        root_values=zeros, raw_values=zeros, versions=np.ones(count, np.uint32),
        kind=np.full(count, RowKind.FULL, np.uint8), row_weight=np.ones(count, np.float32), surprise=zeros,
    )
    if not position.is_terminal:
        return whole
    return replace(whole, outcome=sign * position.outcome, score=sign * position.score, ended_by=ended)


if __name__ == "__main__":
    main()
