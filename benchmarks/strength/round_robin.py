"""Every player meets every other one through `shusaku match`; Elo of all games, with 95 % intervals.

    python -m benchmarks.strength.round_robin PLAYERS.json GAMES.jsonl [--pairs 20] [--at-once 2] [--anchor NAME]
        [--lead NAME] [--part K/N] [--name NAME] [overrides of every match …]

PLAYERS.json is an object: the name of a player -> its overrides, in which `{side}` stands for first or second:

    {"ours": ["{side}.checkpoint=runs/go_9x9", "{side}.search.simulations=64"],
     "plain UCT": ["{side}.engine=mcts", "{side}.search.simulations=1000"]}

GAMES.jsonl holds the games of each pairing once it is over, so a second call goes on after a stop; `--part 1/2` plays
the first half of the pairings only.  `--lead` says how far a player is above each other one, with the interval of that
difference.  `--name` appends all this to round_robin.jsonl among the results.
"""

import argparse
import itertools
import json
import shlex
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from benchmarks.lib import record, run_shusaku
from shusaku.actors.arena.ratings import PlayedPair, Ratings, rate
from shusaku.common.json_lines import append_json_line, heal_json_lines, read_json_lines

Players = dict[str, list[str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("players", type=Path)
    parser.add_argument("games", type=Path)
    parser.add_argument("--pairs", type=int, default=20, help="of games, each pair from one opening")
    parser.add_argument("--at-once", type=int, default=2, help="matches side by side")
    parser.add_argument("--anchor", default="", help="the player with 0 Elo; else the last one of the file")
    parser.add_argument("--lead", default="", help="the player whose lead over each other one is shown")
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--name")
    parser.add_argument("overrides", nargs="*", default=[])
    options = parser.parse_intermixed_args()
    players: Players = json.loads(options.players.read_text(encoding="utf-8"))
    part, parts = map(int, options.part.split("/"))
    heal_json_lines(options.games)
    played = {frozenset((line["first"], line["second"])) for line in read_json_lines(options.games)}
    missing = [pairing for pairing in list(itertools.combinations(players, 2))[part - 1::parts]
               if frozenset(pairing) not in played]
    with ThreadPoolExecutor(options.at_once) as pool:
        waiting = [pool.submit(play, players, *pairing, options) for pairing in missing]
        for pairing, match in zip(missing, waiting, strict=True):
            points = match.result()
            append_json_line(options.games, {"first": pairing[0], "second": pairing[1], "points": points})
            print(*pairing, f"{sum(map(sum, points)):g} of {2 * len(points)} points", flush=True)
    pairs = pairs_of(options.games)
    ratings = rate(pairs, options.anchor or list(players)[-1])
    print(table(ratings))
    leads = leads_of(pairs, options.lead, players) if options.lead else None
    for other, lead in (leads or {}).items():
        print(f"{options.lead} above {other:24} {lead['elo']:+6.0f}  ({lead['low']:+.0f} to {lead['high']:+.0f})")
    if options.name:
        command = shlex.join(["python", "-m", "benchmarks.strength.round_robin", *sys.argv[1:]])
        record("round_robin.jsonl", command, name=options.name, pairs=options.pairs, anchor=ratings.anchor,
               lead=options.lead or None, leads=leads, players=[asdict(player) for player in ratings.players])


def play(players: Players, first: str, second: str, options: argparse.Namespace) -> list[list[float]]:
    """The points of `first` in the two games of each opening."""
    sides = [text.format(side=side) for name, side in ((first, "first"), (second, "second")) for text in players[name]]
    report = run_shusaku(["match", *sides, f"games={2 * options.pairs}", *options.overrides])
    pairs: list[list[float]] = report["pairs"]
    return pairs


def pairs_of(games: Path) -> list[PlayedPair]:
    return [PlayedPair(line["first"], line["second"], tuple(points))
            for line in read_json_lines(games) for points in line["points"]]


def leads_of(pairs: list[PlayedPair], leader: str, players: Iterable[str]) -> dict[str, dict[str, float]]:
    """Elo of the leader above each other player, with its 95 % interval."""
    found = {}
    for other in players:
        row = rate(pairs, other).find(leader) if other != leader else None
        if row is not None:
            found[other] = {"elo": row.elo, "low": row.low, "high": row.high}
    return found


def table(ratings: Ratings) -> str:
    rows = [f"{player.name:24} {player.elo:+6.0f}  ({player.low:+.0f} to {player.high:+.0f})  {player.games} games, "
            f"{player.score:.1%}" for player in ratings.players]
    return "\n".join([f"Elo above {ratings.anchor}, 95 %", *rows])


if __name__ == "__main__":
    main()
