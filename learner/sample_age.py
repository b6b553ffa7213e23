"""How old the rows are that are learned from: steps and versions since the weights that played them."""

import numpy as np
from numpy.typing import NDArray

SAMPLE_AGE = ("sample_age_steps", "sample_age_steps_max", "sample_age_versions", "sample_age_versions_max")


class SampleAge:
    """Collects the ages of the sampled rows; `take` returns their means and maxima, and begins anew."""

    def __init__(self, steps: dict[int, int]) -> None:
        """`steps`: version -> gradient steps behind its weights; it may grow by newer versions."""
        self._index = steps
        self._versions = self._steps = np.zeros(0, np.int64)  # the same, sorted by version
        self._begin()

    def add(self, versions: NDArray[np.uint32], step: int) -> None:
        """A mini-batch [B] of rows, by the versions that played them, is learned from after so many steps.

        A version that is not known counts as the one before it.
        """
        if len(self._index) > len(self._versions):
            self._versions = np.array(sorted(self._index), np.int64)
            self._steps = np.array([self._index[version] for version in self._versions.tolist()], np.int64)
        if not len(self._versions):
            return
        known = np.maximum(0, np.searchsorted(self._versions, versions, side="right") - 1)  # [B]
        # After a return to a checkpoint the newest weights have fewer steps behind them than some before.
        in_steps = np.maximum(0, step - self._steps[known])
        in_versions = np.maximum(0, self._versions[-1] - versions.astype(np.int64))
        self._count += len(versions)
        for sums, ages in ((self._in_steps, in_steps), (self._in_versions, in_versions)):
            sums[0] += int(ages.sum())
            sums[1] = max(sums[1], int(ages.max(initial=0)))

    def take(self) -> dict[str, float]:
        """Mean and maximum since the last call; empty without rows."""
        count, steps, versions = self._count, self._in_steps, self._in_versions
        self._begin()
        if not count:
            return {}
        ages = (steps[0] / count, steps[1], versions[0] / count, versions[1])
        return dict(zip(SAMPLE_AGE, map(float, ages), strict=True))

    def _begin(self) -> None:
        self._count = 0
        self._in_steps, self._in_versions = [0, 0], [0, 0]  # sum, maximum
