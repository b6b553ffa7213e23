"""The speed of the network alone, to which the speed of self-play is compared."""

import time

import numpy as np

from shusaku.actors.evaluators.channels_last import channels_last
from shusaku.actors.evaluators.evaluator import NO_VERSION, MeasurableEvaluator
from shusaku.actors.evaluators.network import NetworkEvaluator


def raw_rate(evaluator: MeasurableEvaluator, seconds: float) -> float:
    """Positions per second of the network alone, on full batches that are already prepared.

    Runs at least one batch after a warm-up of one.  RuntimeError without weights.
    """
    if evaluator.version == NO_VERSION:
        raise RuntimeError("an evaluator was measured before it had weights; call load() first")
    if isinstance(evaluator, NetworkEvaluator):  # half of the bits are set: zeros might be faster
        inputs = evaluator.runtime.inputs
        batch, h, w, c = inputs.shape
        bits = np.random.default_rng(0).integers(0, 2, (batch, c, h, w)).astype(np.float32)
        inputs[...] = channels_last(bits, inputs)
    evaluator.run_raw(1)
    begin = time.perf_counter()
    batches, batches_per_call, spent = 0, 1, 0.0
    while batches == 0 or spent < seconds:
        evaluator.run_raw(batches_per_call)  # several in one call, so that a GPU never waits for the host
        batches += batches_per_call
        spent = time.perf_counter() - begin
        if spent < seconds / 4:
            batches_per_call *= 2
    return batches * evaluator.size / spent
