"""How far the values of Gumbel's searches are from exact results: what a value label of a root is worth.

    python -m benchmarks.tune.value_labels RUN|FILE|shipped [--game connect_four] [--simulations 16 32 64] [--record]

Every position of the committed set of the game, whose results are exact, is searched as in self-play.  Printed is the
mean of (result - value)^2, for the player to move, and the bias towards a draw, of: the network alone; the mean of all
visits to the root, which records held up to schema 1; and what the improved policy expects, which they hold now.
"""

import argparse
import shlex
import sys

import numpy as np
from numpy.typing import NDArray

from benchmarks.lib import record
from shusaku.actors.arena.strength_sets import strength_set
from shusaku.actors.policy_games.value_games import evaluator_of
from shusaku.common._core import Game
from shusaku.common.config.schema import Config, InferenceConfig
from shusaku.common.config.search import GumbelConfig
from shusaku.common.search import search_positions
from shusaku.deploy.run.chosen_weights import find_weights

FILE = "value_labels.jsonl"
BATCH = 256
NAMES = ("network", "mean", "expected")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", help="a run directory, a weights.safetensors file, or shipped")
    parser.add_argument("--game", default="connect_four")
    parser.add_argument("--simulations", type=int, nargs="+", default=[16, 32, 64])
    parser.add_argument("--record", action="store_true", help=f"append the result to benchmarks/results/{FILE}")
    options = parser.parse_args()
    positions = strength_set(Game(options.game))
    if positions is None:
        parser.error(f"--game {options.game}: there is no set of positions with exact results")
    weights = find_weights(Config(), "weights", options.weights, options.game).weights
    evaluate = evaluator_of(positions.game, InferenceConfig(), weights, BATCH)
    exact = positions.results.max(axis=1).astype(np.float64)  # [P]
    lines = []
    for simulations in options.simulations:
        config = GumbelConfig(simulations=simulations)
        results = search_positions(positions.game, positions.positions, config, evaluate, batch=BATCH)
        values = np.array([(result.raw_value, _mean(result.raw_value, result.visits, result.q_values), result.value)
                           for result in results])  # [P, 3]
        errors = np.square(exact[:, None] - values)  # [P, 3]
        spread = errors.std(0) / np.sqrt(len(errors))  # [3]
        bias = (np.sign(exact)[:, None] * (values - exact[:, None]))[exact != 0].mean(0)  # [3]
        lines.append({"simulations": simulations, **{name: {"error": round(float(errors[:, i].mean()), 4),
                                                            "standard_error": round(float(spread[i]), 4),
                                                            "bias": round(float(bias[i]), 4)}
                                                     for i, name in enumerate(NAMES)}})
        print(lines[-1], flush=True)
    if options.record:
        command = shlex.join(["python", "-m", "benchmarks.tune.value_labels", *sys.argv[1:]])
        record(FILE, command, positions=len(positions), lines=lines)


def _mean(raw_value: float, visits: NDArray[np.int32], q_values: NDArray[np.float32]) -> float:
    """Of all values that a search backs up to its root, the root's own evaluation among them."""
    total = float(np.dot(visits, np.nan_to_num(q_values)))
    return (raw_value + total) / (1 + float(visits.sum()))


if __name__ == "__main__":
    main()
