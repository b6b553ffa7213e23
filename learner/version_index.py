"""Which weights a version is: `versions.jsonl` of a run directory, one line a publication."""

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path

from shusaku.common.durable_files import write_atomically
from shusaku.common.json_lines import Object, append_line, heal_json_lines, read_json_lines
from shusaku.common.messages import Weights
from shusaku.common.network.weights import weights_to_bytes

FILE = "versions.jsonl"


class VersionIndex:
    """Hands out publication numbers that strictly increase over the life of a run directory.

    A run that goes on from an older checkpoint after a fault takes numbers that were never used, so a version always
    means one set of weights.  `damaged` lines are put aside; each takes a number, for it may have held a newer one.
    """

    def __init__(self, directory: Path, keep: Callable[[str], None] = lambda line: None) -> None:
        """`keep` gets each line before it counts, for a copy elsewhere; OSError of it is one of `append`."""
        self._path, self._keep = directory / FILE, keep
        self.damaged = heal_json_lines(self._path, _ascends)
        # The gradient steps behind each version.
        self.steps = {int(line["version"]): int(line["step"]) for line in read_json_lines(self._path)}
        self.newest = max(self.steps, default=0) + self.damaged

    def append(self, weights: Weights) -> None:
        """Records that these weights were published; OSError, and they do not count, if the disk does not take it."""
        assert weights.version > self.newest, f"version {weights.version} after {self.newest}"
        line = _line(weights)
        self._keep(line)
        append_line(self._path, line)
        self.newest = weights.version
        self.steps[weights.version] = weights.step

    def restore(self, published: Iterable[Weights]) -> int:
        """Adds the lines of these publications that are missing; returns how many they were."""
        lines = {int(line["version"]): json.dumps(line) for line in read_json_lines(self._path)}
        absent = [weights for weights in published if weights.version not in lines]
        missing = {weights.version: _line(weights) for weights in absent}
        self.steps |= {weights.version: weights.step for weights in absent}
        lines |= missing
        text = "".join(lines[version] + "\n" for version in sorted(lines))
        write_atomically(self._path, text.encode())
        self.newest = max([self.newest, *lines])
        return len(missing)


def _ascends(lines: list[Object]) -> list[bool]:
    """Whether each line can be what `append` wrote between its neighbours."""
    verdicts, newest = [], 0
    for line, follower in zip(lines, [*lines[1:], {}], strict=False):
        version, digest = line.get("version"), line.get("sha256")
        is_line = isinstance(version, int) and isinstance(line.get("step"), int) and isinstance(digest, str)
        following = follower.get("version")
        is_too_high = is_line and isinstance(following, int) and newest < following <= line["version"]
        verdicts.append(is_line and line["version"] > newest and not is_too_high)
        newest = line["version"] if verdicts[-1] else newest
    return verdicts


def _line(weights: Weights) -> str:
    digest = hashlib.sha256(weights_to_bytes(weights)).hexdigest()
    return json.dumps({"version": weights.version, "step": weights.step, "sha256": digest})
