"""A gradient step on one core, by turns: batch norm, skip and ReLU as one operation of the core, and as torch's three.

    taskset -c 0 python -m benchmarks.speed.learner_norms [--record]

By processor time, not the clock; the medians of several rounds of both, and the median of the rounds' ratios.
"""

import statistics
import time
from functools import partial
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch

from benchmarks.lib import measure_networks
from shusaku.common.network import norm_relu
from shusaku.deploy.bench.learner import learner_and_batch
from shusaku.deploy.cli.overrides import compose

NETWORKS = {"connect four, 32 x 4": ["experiment=connect_four"], "Go 9x9, 32 x 4": ["experiment=go_9x9"],
            "connect four, 64 x 5": ["experiment=connect_four", "network.filters=64", "network.blocks=5"]}
ROUNDS, STEPS = 9, 8
COMMAND = "taskset -c 0 python -m benchmarks.speed.learner_norms --record"


def main() -> None:
    torch.set_num_threads(1)
    measure_networks(__doc__, "learner_norms.jsonl", COMMAND, NETWORKS,
                     partial(compare, norm_relu, ("joined_ms", "apart_ms")))


def compare(module: ModuleType, names: tuple[str, str], words: list[str]) -> dict[str, Any]:
    """Milliseconds of a step by the core's operation of this module, and by torch's; `names` of the two."""
    config = compose(words)
    learner, batch = learner_and_batch(config)

    def milliseconds() -> float:
        learner.step(batch)
        begin = time.process_time()
        for _ in range(STEPS):
            learner.step(batch)
        return 1e3 * (time.process_time() - begin) / STEPS

    by_core, by_torch = [], []
    for _ in range(ROUNDS):
        by_core.append(milliseconds())
        with patch.object(module, "_fits", return_value=False):
            by_torch.append(milliseconds())
    ratios = [torchs / ours for ours, torchs in zip(by_core, by_torch, strict=True)]
    return {"batch": config.learner.batch_size, names[0]: round(statistics.median(by_core), 2),
            names[1]: round(statistics.median(by_torch), 2), "ratio": round(statistics.median(ratios), 3),
            "ratio_low": round(min(ratios), 3), "ratio_high": round(max(ratios), 3), "runtime": learner.description}


if __name__ == "__main__":
    main()
