"""AlphaGo's search by 1 and 2 threads: simulations/s, taking turns in one run.

    python -m benchmarks.analysis.alphago_speed [--rounds 5] [--seconds 4] [--rollout FILE] [--record]

Go 9x9, rollouts by --rollout FILE or uniform, two networks of 64 filters x 4 blocks with random weights, one thread
each; lambda 0.5, 1 with a policy network, and 1 without any network; the start position and one of 20 random plies.
Prints the medians and their ratios, and with --record adds a line to results/analysis.jsonl.  Uniform rollouts are five
times as fast, so what the threads do one after the other in the tree takes a larger share beside them.
"""

import json
import statistics
from dataclasses import replace

from benchmarks.analysis.speed import NETWORK, SIZES, options_of, rates_in_turns
from benchmarks.lib import record
from shusaku.actors.analysis.analysis import Analysis
from shusaku.actors.evaluators.factory import make_bucketed_evaluator
from shusaku.actors.evaluators.two_networks import TwoNetworks
from shusaku.common._core import Game
from shusaku.common.config.schema import InferenceConfig
from shusaku.common.config.search import AlphaGoConfig
from shusaku.common.network.weights import random_weights
from shusaku.common.search import Evaluate

PLAYERS = {"rvp": (0.5, True), "rp": (1.0, True), "r": (1.0, False)}  # lambda, with a policy network
LEAVES = 16


def analysis_of(game: Game, threads: int, player: str, rollout: str) -> Analysis:
    """A search by so many threads with networks of random weights."""
    share, has_policy = PLAYERS[player]

    def network() -> Evaluate:
        evaluator = make_bucketed_evaluator(game, InferenceConfig(), NETWORK, LEAVES, sizes=SIZES)
        evaluator.load(random_weights(game, NETWORK, 1, version=1))
        return evaluator

    evaluators = [TwoNetworks(network() if has_policy else None, network() if share < 1 else None)
                  for _ in range(threads)]
    return Analysis(game, evaluators, replace(AlphaGoConfig(), rollout_share=share, rollout=rollout), leaves=LEAVES)


def main() -> None:
    options = options_of(__doc__, rounds=5, rollout=True)
    game = Game("go", {"size": 9})
    analyses = {(player, threads): analysis_of(game, threads, player, options.rollout)
                for player in PLAYERS for threads in (1, 2)}
    rates = rates_in_turns(game, analyses, options.rounds, options.seconds)
    medians = {key: statistics.median(values) for key, values in rates.items()}
    measured = {
        "simulations_per_s": {f"{player} x{threads}": round(rate) for (player, threads), rate in medians.items()},
        "threads_ratio": {player: round(statistics.median(
            two / one for one, two in zip(rates[player, 1], rates[player, 2], strict=True)), 3) for player in PLAYERS},
        "rollouts": "by a rollout policy" if options.rollout else "uniform",
        "rounds": options.rounds, "seconds": options.seconds,
    }
    print(json.dumps(measured))
    if options.record:
        rollout = f" --rollout {options.rollout}" if options.rollout else ""
        record("analysis.jsonl", f"python -m benchmarks.analysis.alphago_speed{rollout} --record", name="alphago_speed",
               runs=[measured])


if __name__ == "__main__":
    main()
