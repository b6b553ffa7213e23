"""How far a value network and the mean of rollouts are from the outcome, by the stage of the game.

    python -m benchmarks.strength.value_error RUN [--rollout FILE] [--positions 500] [--rollouts 100]
        [--records DIR] [--estimates value uniform rollout supervised reinforced] [--record]

RUN is a run of games for a value network (experiment=alphago_9x9_value), or a directory with value.safetensors,
imitation.safetensors and reinforce.safetensors, such as benchmarks/networks/alphago_9x9.  Each position is judged by
its network in one evaluation, and by the mean outcome of rollouts that each of these policies plays from there:
evenly among the legal moves, the rollout policy of --rollout FILE, the supervised and the reinforced policy of RUN.
Printed is the mean of (z - v)^2 by how many moves were made, z and v in [-1, 1]: Silver et al. 2016, figure 2b.  The
positions are those of the run's test games, from which it never learned, or one of each game of --records DIR, a
directory of record logs.
"""

import argparse
import json
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.lib import record
from benchmarks.strength.reinforce import SAMPLED
from shusaku.actors.policy_games.value_games import evaluator_of, game_of
from shusaku.common._core import Game, Position, Rollouts, SearchBatch
from shusaku.common.codec import decode_record
from shusaku.common.config.schema import Config, InferenceConfig
from shusaku.common.messages import GameRecord, Weights
from shusaku.common.network.weights import load_weights
from shusaku.common.search import Evaluate, search_options, search_positions, step
from shusaku.deploy.run.chosen_weights import find_weights
from shusaku.deploy.run.run_games import games_of_run
from shusaku.deploy.run.saved_config import POLICIES_FOLDER, find_config
from shusaku.deploy.run.text_table import text_table
from shusaku.deploy.run.value_policies import POLICIES
from shusaku.replay.record_log import RecordLog
from shusaku.replay.row_window import is_test_game

BATCH = 256  # games that are played at once
FILE = "value_error.jsonl"
KEPT = {"value": "value.safetensors", "supervised": "imitation.safetensors", "reinforced": "reinforce.safetensors"}
ESTIMATES = ("value", "uniform", "rollout", *POLICIES)


class Judged(NamedTuple):
    """A position, and how its game ended."""

    moves: list[int]  # before it
    outcome: int  # z, for the player to move


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="RUN", type=Path)
    parser.add_argument("--records", type=Path, help="record logs of other games, whose positions are judged instead")
    parser.add_argument("--rollout", type=Path, help="a rollout policy, as `shusaku rollout` writes it")
    parser.add_argument("--estimates", nargs="+", choices=ESTIMATES, default=ESTIMATES, help="only these; games of the "
                        "two policies take minutes")
    parser.add_argument("--positions", type=int, default=500, help="the newest so many")
    parser.add_argument("--rollouts", type=int, default=100, help="from each position, by each policy")
    parser.add_argument("--stage", type=int, default=10, help="moves of a stage of the game")
    parser.add_argument("--precision", default="auto", help="of the networks: auto, fp32, bf16")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", action="store_true", help=f"append the result to benchmarks/results/{FILE}")
    options = parser.parse_args()
    is_kept = (options.run / KEPT["value"]).exists()
    share = 0.0 if is_kept else float(find_config(options.run).tree["replay"].get("test_share", 0))
    if not (share or options.records):
        parser.error(f"{options.run} has no test games; name other games by --records")
    positions = list(islice(_of_records(options.records, options.seed) if options.records
                            else _of_tests(options.run, share), options.positions))
    if not positions:
        parser.error("there is no game to take positions from")
    networks = {name: _kept_network(options.run, name) if is_kept else _network_of(options.run, name)
                for name in ("value", *POLICIES) if name in options.estimates or name == "value"}
    if {*POLICIES} <= networks.keys() and _are_same(*(networks[name] for name in POLICIES)):
        del networks["reinforced"]
        print("reinforced: left out, the run's two policies are one", file=sys.stderr)
    result = _measure(networks, positions, options)
    print(_table(result, positions, options.stage))
    line = _summary(result, positions, options.stage)
    print(json.dumps(line))
    if options.record:
        command = shlex.join(["python", "-m", "benchmarks.strength.value_error", *sys.argv[1:]])
        record(FILE, command, positions=len(positions), rollouts=options.rollouts, **line)


def _of_tests(run: Path, share: float) -> Iterator[Judged]:
    """The positions with weight in the run's test games, one of each game, the newest game first."""
    draw = np.random.default_rng(1)
    for data in reversed(_games_of(run)):
        played = decode_record(data)
        if is_test_game(played.game_id, share):
            yield _judged(played, int(draw.choice(np.flatnonzero(played.row_weight > 0))))


def _games_of(run: Path) -> list[bytes]:
    """The encoded games of a run of either wiring, oldest first."""
    config = Config()
    config.run.dir = str(run)
    with games_of_run(config) as data:
        return list(data)


def _of_records(directory: Path, seed: int) -> Iterator[Judged]:
    """A random position of each game."""
    draw = np.random.default_rng(seed)
    for data in RecordLog(directory).iterate():
        played = decode_record(data)
        yield _judged(played, int(draw.integers(len(played))))


def _judged(played: GameRecord, ply: int) -> Judged:
    """The position before this ply; players alternate."""
    return Judged(played.actions[:ply].tolist(), played.outcome if ply % 2 == 0 else -played.outcome)


def _network_of(run: Path, name: str) -> Weights:
    """The value network of a run, or a policy that played its games."""
    if name == "value":
        return find_weights(Config(), "RUN_DIR", str(run)).weights
    return load_weights(run / POLICIES_FOLDER / f"{name}.safetensors")


def _are_same(first: Weights, second: Weights) -> bool:
    return first.tensors.keys() == second.tensors.keys() and all(
        np.array_equal(tensor, second.tensors[name]) for name, tensor in first.tensors.items())


def _kept_network(directory: Path, name: str) -> Weights:
    return load_weights(directory / KEPT[name])


def _measure(
    networks: dict[str, Weights], positions: Sequence[Judged], options: argparse.Namespace
) -> dict[str, NDArray[np.float64]]:
    """Estimate of each position, for the player to move, by each of ESTIMATES that there is."""
    inference = InferenceConfig(precision=options.precision)
    game = Game(networks["value"].game, dict(networks["value"].params))
    value = evaluator_of(game, inference, networks["value"], BATCH)
    results = search_positions(game, [_at(game, judged) for judged in positions], SAMPLED, value, batch=BATCH)
    estimates = {"value": np.array([result.raw_value for result in results], np.float64)}
    files = {"uniform": ""} | ({"rollout": str(options.rollout)} if options.rollout else {})
    for name, file in files.items():
        if name not in options.estimates:
            continue
        begin, rollouts = time.perf_counter(), Rollouts(game, file)
        seeds = np.random.default_rng(options.seed).integers(1 << 63, size=(len(positions), options.rollouts)).tolist()
        estimates[name] = np.array([_mean_outcome(rollouts, _at(game, judged), of_one)
                                    for judged, of_one in zip(positions, seeds, strict=True)])
        print(f"{name}: {len(positions) * options.rollouts:,} games in {time.perf_counter() - begin:.1f} s",
              file=sys.stderr)
    players: dict[str, tuple[Game, Evaluate]] = {}
    for name in (name for name in POLICIES if name in networks):
        own = game_of(game, networks[name])
        players[name] = own, evaluator_of(own, inference, replace(networks[name], scales={}), BATCH)
    for number, (name, (own, evaluate)) in enumerate(players.items()):
        begin = time.perf_counter()
        estimates[name], plies = _rollouts(own, positions, options.rollouts, evaluate, options.seed + number)
        seconds = time.perf_counter() - begin
        print(f"{name}: {plies:,} moves in {seconds:.0f} s, {plies / seconds:,.0f}/s", file=sys.stderr)
    return estimates


def _mean_outcome(rollouts: Rollouts, position: Position, seeds: Sequence[int]) -> float:
    return float(np.mean([rollouts.play(position, seed)[0] for seed in seeds]))


def _rollouts(
    game: Game, positions: Sequence[Judged], rollouts: int, evaluate: Evaluate, seed: int
) -> tuple[NDArray[np.float64], int]:
    """The mean outcome of so many games from each position, for the player to move there; and all their moves."""
    left = [number for number in range(len(positions)) for _ in range(rollouts)][::-1]
    sums = np.zeros(len(positions))
    searches = SearchBatch(game, search_options(SAMPLED, symmetries=True), BATCH, seed)
    draw, moves = np.random.default_rng(seed), 0
    open_games: dict[int, tuple[int, int, Position]] = {}  # index -> number of the position, player there, position now
    while left or open_games:
        for index in range(BATCH):
            while index not in open_games and left:
                number = left.pop()
                position = _at(game, positions[number])
                if position.is_terminal:
                    sums[number] += position.outcome
                else:
                    open_games[index] = number, position.to_play, position
        seeds = draw.integers(1 << 63, size=BATCH)
        for index, (_, _, position) in open_games.items():
            searches.begin(index, position, int(seeds[index]))
        while not searches.is_done():
            step(searches, evaluate)
        for index in list(open_games):
            number, player, position = open_games[index]
            position.play(searches.result(index).action)
            moves += 1
            if position.is_terminal:
                sums[number] += position.outcome if position.to_play == player else -position.outcome
                del open_games[index]
    return sums / rollouts, moves


def _at(game: Game, judged: Judged) -> Position:
    position = game.start()
    for action in judged.moves:
        position.play(action)
    return position


def _errors(estimates: dict[str, NDArray[np.float64]], positions: Sequence[Judged]) -> dict[str, NDArray[np.float64]]:
    outcomes = np.array([judged.outcome for judged in positions], np.float64)
    return {name: np.square(outcomes - values) for name, values in estimates.items()}


def _summary(
    estimates: dict[str, NDArray[np.float64]], positions: Sequence[Judged], stage: int
) -> dict[str, dict[str, object]]:
    """Mean squared error of each estimate, its standard error, and by stage: first move -> mean."""
    stages = np.array([len(judged.moves) // stage for judged in positions])
    return {name: {"error": float(errors.mean()), "standard_error": float(errors.std() / np.sqrt(len(errors))),
                   "by_moves": {int(at) * stage: float(errors[stages == at].mean()) for at in np.unique(stages)}}
            for name, errors in _errors(estimates, positions).items()}


def _table(estimates: dict[str, NDArray[np.float64]], positions: Sequence[Judged], stage: int) -> str:
    errors = _errors(estimates, positions)
    names = [name for name in ESTIMATES if name in errors]
    stages = np.array([len(judged.moves) // stage for judged in positions])
    rows = [[f"{int(at) * stage}-{int(at + 1) * stage - 1}", str(int((stages == at).sum())),
             *(f"{errors[name][stages == at].mean():.3f}" for name in names)] for at in np.unique(stages)]
    last = ["all", str(len(positions)), *(f"{errors[name].mean():.3f}" for name in names)]
    return "\n".join(text_table([["moves made", "positions", *names]], rows, [last]))


if __name__ == "__main__":
    main()
