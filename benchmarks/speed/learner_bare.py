"""A gradient step on one core beside what torch needs at least: forward and backward, and three forward passes.

    taskset -c 0 python -m benchmarks.speed.learner_bare [--record]

By turns in one process, medians of several rounds: the learner's step (with targets, losses, clipping, optimizer and
average), the same network's forward and backward pass with torch's own norms and convolutions, and three of its forward
passes, which is the arithmetic of one step (a convolution's gradients to its input and to its weights cost as much as
itself).  Then a profile of the learner's steps says where their time goes.
"""

import statistics
import time
from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.lib import measure_networks
from shusaku.common.network import convolution, norm_relu
from shusaku.common.network.network import Network
from shusaku.deploy.bench.learner import learner_and_batch
from shusaku.deploy.cli.overrides import compose

NETWORKS = {"connect four, 64 x 5": ["game=connect_four", "network=small", "learner.batch_size=256"],
            "Go 9x9, 64 x 4": ["game=go", "game.size=9", "network.filters=64", "network.blocks=4"]}
ROUNDS, STEPS, PROFILED = 9, 8, 10
COMMAND = "taskset -c 0 python -m benchmarks.speed.learner_bare --record"
PARTS = {  # of the profile: what an operator's name begins with -> part
    "aten::mkldnn_convolution": "convolutions, forward", "aten::convolution_backward": "convolutions, backward",
    "_CoreConvolutionBackward": "convolutions, backward", "_PassingConvolutionBackward": "convolutions, backward",
    "_CoreConvolution": "convolutions, forward", "_PassingConvolution": "convolutions, forward",
    "_NormRelu": "norms", "aten::batch_norm": "norms", "aten::native_batch_norm": "norms",
    "aten::linear": "dense layers", "aten::addmm": "dense layers", "aten::mm": "dense layers",
    "aten::copy_": "copies and casts", "aten::_foreach": "optimizer, average, clipping",
    "aten::lerp": "optimizer, average, clipping", "aten::threshold_backward": "ReLU, backward",
}


def main() -> None:
    torch.set_num_threads(1)
    measure_networks(__doc__, "learner_bare.jsonl", COMMAND, NETWORKS, measure)


def measure(words: list[str]) -> dict[str, Any]:
    """Milliseconds of each, and the shares of a step's time by part."""
    config = compose(words)
    learner, batch = learner_and_batch(config)
    network, planes = learner.network, torch.from_numpy(batch.observations).contiguous(  # type: ignore[arg-type]
        memory_format=torch.channels_last)
    is_bf16 = "bf16" in learner.description

    def step() -> None:
        learner.step(batch)

    def bare() -> None:
        with patch.object(norm_relu, "_fits", return_value=False), \
                patch.object(convolution, "_fits", return_value=False):
            loss = _sum_of_answers(network, planes, is_bf16=is_bf16)
            loss.backward()
        network.zero_grad(set_to_none=True)

    def forward() -> None:
        with torch.no_grad():
            for _ in range(3):
                _sum_of_answers(network, planes, is_bf16=is_bf16)

    rounds = [[_milliseconds(one) for one in (step, bare, forward)] for _ in range(ROUNDS)]
    ours, bares, forwards = ([spent[i] for spent in rounds] for i in range(3))
    rows = config.learner.batch_size
    return {
        "batch": rows, "step_ms": round(statistics.median(ours), 2), "bare_ms": round(statistics.median(bares), 2),
        "three_forwards_ms": round(statistics.median(forwards), 2),
        "rows_per_s": round(1e3 * rows / statistics.median(ours)),
        "of_bare": round(statistics.median(b / o for o, b in zip(ours, bares, strict=True)), 3),
        "of_three_forwards": round(statistics.median(f / o for o, f in zip(ours, forwards, strict=True)), 3),
        "parts": _parts_of(step), "runtime": learner.description,
    }


def _sum_of_answers(network: Network, planes: torch.Tensor, *, is_bf16: bool) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16, enabled=is_bf16):
        answers = network(planes)
    return torch.stack([answer.float().square().mean() for answer in answers.values()]).sum()


def _milliseconds(run: Callable[[], None]) -> float:
    run()
    begin = time.perf_counter()
    for _ in range(STEPS):
        run()
    return 1e3 * (time.perf_counter() - begin) / STEPS


def _parts_of(step: Callable[[], None]) -> dict[str, float]:
    """Shares of the processor time of some steps."""
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        for _ in range(PROFILED):
            step()
    spent: Counter[str] = Counter()
    for event in profiled.key_averages():
        part = next((part for name, part in PARTS.items() if event.key.startswith(name)), "other")
        spent[part] += event.self_cpu_time_total
    # What an operator spends in oneDNN is its own; what it spends in another operator is that one's.
    whole = sum(spent.values())
    return {part: round(microseconds / whole, 3) for part, microseconds in spent.most_common()}


if __name__ == "__main__":
    main()
