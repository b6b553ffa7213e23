"""Networks in 8 bits on one core, by turns: the core's small tower and OpenVINO; microseconds a position, and to load.

    taskset -c 0 python -m benchmarks.speed.int8_tower [--record]

By processor time, not the clock; the least of several rounds each, and the median of them as spread.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.lib import record
from shusaku.actors.evaluators.factory import make_evaluator
from shusaku.actors.evaluators.network import NetworkEvaluator
from shusaku.common.config.schema import Config
from shusaku.common.external.configured_game import configured_game
from shusaku.common.network.weights import random_weights, tower_shape
from shusaku.deploy.cli.overrides import compose
from shusaku.learner.quantisation import quantise

PRESETS = ("connect_four", "go_9x9", "minishogi", "chess_small")
RUNTIMES = {"core": "auto", "openvino": "openvino"}
BATCH, BATCHES, ROUNDS = 64, 16, 15
COMMAND = "taskset -c 0 python -m benchmarks.speed.int8_tower --record"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="among the results")
    records = parser.parse_args().record
    for preset in PRESETS:
        line = measure(preset)
        print(json.dumps(line), flush=True)
        if records:
            record("int8_tower.jsonl", COMMAND, **line)


def measure(preset: str) -> dict[str, object]:
    """Of one preset's network, untrained."""
    asked = [f"experiment={preset}", "inference.precision=int8"]
    evaluators = {name: make(compose([*asked, f"inference.runtime={runtime}"])) for name, runtime in RUNTIMES.items()}
    for name, (evaluator, _) in evaluators.items():
        if not evaluator.description.startswith(name):
            raise SystemExit(f"{preset}: {name} is not what computes here: {evaluator.description}")
    times: dict[str, list[float]] = {name: [] for name in (*evaluators, *(f"{name} load" for name in evaluators))}
    for _ in range(ROUNDS):
        for name, (evaluator, load) in evaluators.items():
            times[f"{name} load"].append(1e6 * seconds_of(load))
            evaluator.run_raw(2)  # its weights come into the caches
            run = partial(evaluator.run_raw, BATCHES)
            times[name].append(1e6 * seconds_of(run) / (BATCHES * BATCH))
    return {"preset": preset, "microseconds": {name: round(min(of), 1) for name, of in times.items()},
            "median": {name: round(statistics.median(of), 1) for name, of in times.items()}}


def make(config: Config) -> tuple[NetworkEvaluator, Callable[[], None]]:
    """An evaluator with weights and full inputs, and what loads them again."""
    game = configured_game(config.game)
    planes = np.random.default_rng(1).integers(0, 2, (BATCH, *game.observation_shape)).astype(np.float32)
    weights, _ = quantise(random_weights(game, config.network, 1, 1), tower_shape(game, config.network), planes)
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
