"""Seconds that the scales of 8 bits take beside a learner, by tower: `learner.quantisation.quantise` with one thread.

    taskset -c 0 python -m benchmarks.speed.int8_scales [--repeats 5]

Connect four 64 x 5 and 128 x 10, Go 9x9 64 x 4, Go 19x19 256 x 20, with random weights and planes; a line of JSON each.
"""

import argparse
import json
import statistics
import time

import numpy as np
import torch

from benchmarks.lib import record
from shusaku.common._core import Game
from shusaku.common.config.schema import NetworkConfig
from shusaku.common.network.weights import random_weights, tower_shape
from shusaku.learner.quantisation import POSITIONS, positions_for, quantise

TOWERS = [
    ("connect_four", {}, NetworkConfig(filters=64, blocks=5)),
    ("connect_four", {}, NetworkConfig(filters=128, blocks=10)),
    ("go", {"size": 9}, NetworkConfig(filters=64, blocks=4)),
    ("go", {"size": 19}, NetworkConfig(filters=256, blocks=20)),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    for name, params, network in TOWERS:
        game = Game(name, params)
        tower, weights = tower_shape(game, network), random_weights(game, network, 1)
        planes = np.random.default_rng(1).integers(0, 2, (POSITIONS, *game.observation_shape)).astype(np.float32)
        seconds = []
        for _ in range(repeats):
            begin = time.perf_counter()
            quantise(weights, tower, planes)
            seconds.append(time.perf_counter() - begin)
        measured = {
            "game": name, **params, "filters": network.filters, "blocks": network.blocks,
            "positions": positions_for(tower), "seconds": statistics.median(seconds),
            "range": [min(seconds), max(seconds)],
        }
        print(json.dumps(measured))
        record("int8_scales.jsonl", "python -m benchmarks.speed.int8_scales", runs=[measured])


if __name__ == "__main__":
    main()
