"""The speed of the network alone, to which the speed of self-play is compared."""

import numpy as np

from shusaku.actors.evaluators.evaluator import NO_VERSION, MeasurableEvaluator
from shusaku.actors.evaluators.timed_rate import timed_rate


def raw_rate(evaluator: MeasurableEvaluator, seconds: float) -> float:
    """Positions per second of the network alone, on full batches that are already prepared.

    Runs at least one batch after a warm-up of one.  RuntimeError without weights.
    """
    if evaluator.version == NO_VERSION:
        raise RuntimeError("an evaluator was measured before it had weights; call load() first")
    evaluator.fill_inputs(np.random.default_rng(0))
    return timed_rate(evaluator.run_raw, evaluator.size, seconds)
