"""One position searched by 1 and 2 threads, with 1 and 16 leaves: simulations/s, taking turns in one run.

    python -m benchmarks.analysis.speed [--rounds 7] [--seconds 4] [--record]

Go 9x9, 64 filters x 4 blocks, random weights, one network thread each; the start position and one of 20 random plies.
The network alone, in batches of 1 and of 16, takes its turn too: what 16 leaves can win depends on the processor.
Prints the medians and their ratios, and with --record adds a line to results/analysis.jsonl.
"""

import argparse
import json
import statistics
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

import numpy as np

from benchmarks.lib import record
from shusaku.actors.analysis.analysis import Analysis, Limits
from shusaku.actors.evaluators.factory import make_bucketed_evaluator, make_evaluator
from shusaku.common._core import Game, Position
from shusaku.common.config.schema import InferenceConfig, NetworkConfig
from shusaku.common.config.search import PuctConfig
from shusaku.common.network.weights import random_weights
from shusaku.deploy.bench.raw_rate import raw_rate
from shusaku.deploy.protocols.opening import SIZES

NETWORK = NetworkConfig(filters=64, blocks=4)
SHAPES = [(1, 1), (1, 16), (2, 16)]  # threads, leaves
Key = TypeVar("Key", bound=Hashable)  # of a search that takes turns
RAW_SECONDS = 1.0  # of the network alone, for each size in each round


def analysis_of(game: Game, threads: int, leaves: int, network: NetworkConfig = NETWORK) -> Analysis:
    """An analysis with random weights, and without a cache: every simulation asks the network."""
    evaluators = []
    for _ in range(threads):
        evaluator = make_bucketed_evaluator(game, InferenceConfig(), network, leaves, sizes=SIZES)
        evaluator.load(random_weights(game, network, 1, version=1))
        evaluators.append(evaluator)
    return Analysis(game, evaluators, PuctConfig(cache=0), leaves=leaves)


def position_of(game: Game, plies: int) -> Position:
    """After so many random plies."""
    position, random = game.start(), np.random.default_rng(1)
    for _ in range(plies):
        position.play(int(random.choice(position.legal_actions)))
    return position


def rates_in_turns(
    game: Game, analyses: Mapping[Key, Analysis], rounds: int, seconds: float,
    begin_round: Callable[[], None] = lambda: None,
) -> dict[Key, list[float]]:
    """Simulations/s of each search in each round: the start position and one of 20 random plies take turns."""
    rates: dict[Key, list[float]] = {key: [] for key in analyses}
    for number in range(rounds):
        begin_round()
        for key, analysis in analyses.items():
            analysis.clear()
            analysis.set_position(position_of(game, 20 * (number % 2)))
            analysis.start(Limits(seconds=seconds, to_the_end=True))
            analysis.wait()
            report = analysis.report()
            rates[key].append(report.simulations / report.seconds)
    return rates


def options_of(description: str | None, rounds: int, rollout: bool = False) -> argparse.Namespace:
    """The options of a benchmark that takes turns; `rounds`: how many unless told; `rollout`: it takes such a file."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--record", action="store_true")
    if rollout:
        parser.add_argument("--rollout", default="", help="a rollout policy, as `shusaku rollout` writes it")
    return parser.parse_args()


def main() -> None:
    options = options_of(__doc__, rounds=7)
    game = Game("go", {"size": 9})
    analyses = {shape: analysis_of(game, *shape) for shape in SHAPES}
    networks = {rows: make_evaluator(game, InferenceConfig(), NETWORK, rows) for rows in (1, 16)}
    for network in networks.values():
        network.load(random_weights(game, NETWORK, 1, version=1))
    raw: dict[int, list[float]] = {rows: [] for rows in networks}

    def measure_networks() -> None:
        for rows, network in networks.items():
            raw[rows].append(raw_rate(network, RAW_SECONDS))

    rates = rates_in_turns(game, analyses, options.rounds, options.seconds, measure_networks)
    medians = {shape: statistics.median(values) for shape, values in rates.items()}
    measured = {
        "simulations_per_s": {f"{threads}x{leaves}": round(rate) for (threads, leaves), rate in medians.items()},
        "network_per_s": {rows: round(statistics.median(values)) for rows, values in raw.items()},
        "network_ratio": round(statistics.median(np.divide(raw[16], raw[1])), 3),
        "leaves_ratio": round(statistics.median(np.divide(rates[1, 16], rates[1, 1])), 3),
        "threads_ratio": round(statistics.median(np.divide(rates[2, 16], rates[1, 16])), 3),
        "rounds": options.rounds, "seconds": options.seconds,
    }
    print(json.dumps(measured))
    if options.record:
        record("analysis.jsonl", "python -m benchmarks.analysis.speed --record", name="speed", runs=[measured])


if __name__ == "__main__":
    main()
