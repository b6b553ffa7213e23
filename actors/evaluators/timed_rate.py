"""How many positions a second a network evaluates in full batches that are ready."""

import time
from collections.abc import Callable


def timed_rate(run_raw: Callable[[int], None], size: int, seconds: float) -> float:
    """Positions a second; `run_raw` runs so many batches of `size` and waits for them.

    At least one batch after a warm-up of one.
    """
    run_raw(1)
    begin = time.perf_counter()
    batches, batches_per_call, spent = 0, 1, 0.0
    while batches == 0 or spent < seconds:
        run_raw(batches_per_call)  # several in one call, so that a GPU never waits for the host
        batches += batches_per_call
        spent = time.perf_counter() - begin
        if spent < seconds / 4:
            batches_per_call *= 2
    return batches * size / spent
