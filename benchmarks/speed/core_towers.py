"""Networks on one core, by turns: the core's towers and other runtimes; microseconds a position, and to load.

    taskset -c 0 python -m benchmarks.speed.core_towers fp32|int8 [--record]

By processor time, not the clock; the least of several rounds each, and the median of them as spread.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from benchmarks.lib import record
from shusaku.actors.evaluators.factory import make_evaluator
from shusaku.actors.evaluators.int8_tower import MOST_FILTERS, WAY
from shusaku.actors.evaluators.network import NetworkEvaluator
from shusaku.common.config.schema import Config
from shusaku.common.external.configured_game import configured_game
from shusaku.common.network.weights import random_weights, tower_shape
from shusaku.deploy.cli.overrides import compose
from shusaku.learner.quantisation import quantise

NETWORKS = {
    "connect_four": ["experiment=connect_four"], "go_9x9": ["experiment=go_9x9"],
    "minishogi": ["experiment=minishogi"], "chess_small": ["experiment=chess_small"],
    "othello": ["experiment=othello"],
    "connect four, 64 x 5": ["game=connect_four", "network=small"],
    "Go 19x19, 64 x 6": ["game=go", "game.size=19", "network.filters=64", "network.blocks=6"],
}
RUNTIMES = {"int8": {"core": "auto", "openvino": "openvino"},
            "fp32": {"core": "auto", "openvino": "openvino", "torch": "torch"}}
FILES = {"int8": "int8_tower.jsonl", "fp32": "float_tower.jsonl"}
BATCH, BATCHES, ROUNDS = 64, 8, 9
COMMAND = "taskset -c 0 python -m benchmarks.speed.core_towers {precision} --record"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("precision", choices=RUNTIMES)
    parser.add_argument("--record", action="store_true", help="among the results")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    for network in NETWORKS:
        if asked.precision == "int8" and compose(NETWORKS[network]).network.filters > MOST_FILTERS.get(WAY, 0):
            continue  # left to OpenVINO here
        line = measure(network, asked.precision)
        print(json.dumps(line), flush=True)
        if asked.record:
            record(FILES[asked.precision], COMMAND.format(precision=asked.precision), **line)


def measure(network: str, precision: str) -> dict[str, object]:
    """Of one network, untrained."""
    asked = [*NETWORKS[network], f"inference.precision={precision}"]
    evaluators = {name: make(compose([*asked, f"inference.runtime={runtime}"]))
                  for name, runtime in RUNTIMES[precision].items()}
    for name, (evaluator, _) in evaluators.items():
        if not evaluator.description.startswith(name):
            raise SystemExit(f"{network}: {name} is not what computes here: {evaluator.description}")
    times: dict[str, list[float]] = {name: [] for name in (*evaluators, *(f"{name} load" for name in evaluators))}
    for _ in range(ROUNDS):
        for name, (evaluator, load) in evaluators.items():
            times[f"{name} load"].append(1e6 * seconds_of(load))
            evaluator.run_raw(2)  # its weights come into the caches
            run = partial(evaluator.run_raw, BATCHES)
            times[name].append(1e6 * seconds_of(run) / (BATCHES * BATCH))
    return {"preset": network, "microseconds": {name: round(min(of), 1) for name, of in times.items()},
            "median": {name: round(statistics.median(of), 1) for name, of in times.items()}}


def make(config: Config) -> tuple[NetworkEvaluator, Callable[[], None]]:
    """An evaluator with weights and full inputs, and what loads them again."""
    game = configured_game(config.game)
    weights = random_weights(game, config.network, 1, 1)
    if config.inference.is_quantised:
        planes = np.random.default_rng(1).integers(0, 2, (BATCH, *game.observation_shape)).astype(np.float32)
        weights, _ = quantise(weights, tower_shape(game, config.network), planes)
    evaluator = make_evaluator(game, config.inference, config.network, BATCH)
    assert isinstance(evaluator, NetworkEvaluator)
    evaluator.load(weights)
    evaluator.fill_inputs(np.random.default_rng(2))
    return evaluator, lambda: evaluator.load(weights)


def seconds_of(work: Callable[[], None]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


if __name__ == "__main__":
    main()
