"""One position searched by 1 and 2 threads, with 1 and 16 leaves: simulations/s, taking turns in one run.

    python -m benchmarks.analysis.speed [--rounds 7] [--seconds 4] [--record]

Go 9x9, 64 filters x 4 blocks, random weights, one network thread each; the start position and one of 20 random plies.
The network alone, in batches of 1 and of 16, takes its turn too: what 16 leaves can win depends on the processor.
Prints the medians and their ratios, and with --record adds a line to results/analysis.jsonl.
"""

import argparse
import json
import statistics

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    game = Game("go", {"size": 9})
    analyses = {shape: analysis_of(game, *shape) for shape in SHAPES}
    networks = {rows: make_evaluator(game, InferenceConfig(), NETWORK, rows) for rows in (1, 16)}
    for network in networks.values():
        network.load(random_weights(game, NETWORK, 1, version=1))
    rates: dict[tuple[int, int], list[float]] = {shape: [] for shape in SHAPES}
    raw: dict[int, list[float]] = {rows: [] for rows in networks}
    for number in range(options.rounds):
        for rows, network in networks.items():
            raw[rows].append(raw_rate(network, RAW_SECONDS))
        for shape, analysis in analyses.items():
            analysis.clear()
            analysis.set_position(position_of(game, 20 * (number % 2)))
            analysis.start(Limits(seconds=options.seconds, to_the_end=True))
            analysis.wait()
            report = analysis.report()
            rates[shape].append(report.simulations / report.seconds)
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
