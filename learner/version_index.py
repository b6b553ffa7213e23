"""Which weights a version is: `versions.jsonl` of a run directory, one line a publication."""

import hashlib
import json
from pathlib import Path

from shusaku.common.messages import Weights
from shusaku.common.metrics import drop_torn_line
from shusaku.common.network.weights import weights_to_bytes


class VersionIndex:
    """Hands out publication numbers that strictly increase over the life of a run directory.

    A run that goes on from an older checkpoint after a fault takes numbers that were never used, so a version always
    means one set of weights.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / "versions.jsonl"
        drop_torn_line(self._path)
        lines = self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else []
        found = [json.loads(line) for line in lines]
        self.steps = {int(line["version"]): int(line["step"]) for line in found}  # gradient steps behind each version
        self.newest = max(self.steps, default=0)

    def append(self, weights: Weights) -> None:
        """Records that these weights were published; OSError, and nothing changed, if the disk does not take it."""
        assert weights.version > self.newest, f"version {weights.version} after {self.newest}"
        digest = hashlib.sha256(weights_to_bytes(weights)).hexdigest()
        line = {"version": weights.version, "step": weights.step, "sha256": digest}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self.newest = weights.version
        self.steps[weights.version] = weights.step
