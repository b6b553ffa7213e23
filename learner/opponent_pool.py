"""The pool of opponents of policy gradient: earlier versions of the policy, on the disk (Silver et al. 2016, Methods).

    RUN_DIR/reinforce/pool/00000001.safetensors  00000051.safetensors  ...     by version

The first member is what the run began with.  The directory is the whole state, so the pool survives every process.
"""

import contextlib
import re
from pathlib import Path

import numpy as np

from shusaku.common.errors import UsageError
from shusaku.common.messages import Weights
from shusaku.common.network.weights import load_weights, save_weights

FOLDER = "reinforce"  # in the run directory
_NAME = re.compile(r"(\d{8,})\.safetensors")


class OpponentPool:
    """Several processes may read the pool; one adds to it."""

    def __init__(self, run: Path, every: int = 1) -> None:
        """`run`: the run directory; `every`: gradient steps after which a version joins."""
        self._directory, self._every = run / FOLDER / "pool", every
        self._steps: dict[int, int] = {}  # gradient steps behind the members that were read, by version
        self.trouble = ""  # why the newest version that was to join did not

    def versions(self) -> list[int]:
        """The versions of the members, oldest first."""
        if not self._directory.is_dir():
            return []
        found = (_NAME.fullmatch(path.name) for path in self._directory.iterdir())
        return sorted(int(name[1]) for name in found if name)

    def load(self, version: int) -> Weights:
        """A member; UsageError if its file is gone or damaged."""
        return load_weights(self._path(version))

    def draw(self, random: np.random.Generator) -> Weights | None:
        """Each member with the same probability; None if there is none.  A damaged one is passed over."""
        versions = self.versions()
        while versions:
            version = versions[int(random.integers(len(versions)))]
            try:
                return self.load(version)
            except UsageError:
                versions.remove(version)
        return None

    def offer(self, weights: Weights) -> None:
        """Called with every publication: it joins if it is due.

        A run that went back to an earlier checkpoint makes the steps after it again, so their members leave.  A full
        disk costs nothing but time: the next publication joins then, and `trouble` says why.
        """
        self._read_steps()
        self.trouble = ""
        for version in [version for version, step in self._steps.items() if step > weights.step]:
            try:
                self._path(version).unlink(missing_ok=True)
                del self._steps[version]
            except OSError as error:  # tried again at the next publication
                self.trouble = f"version {version}, of steps that the run makes again, stays in the pool: {error}"
        newest = max((step for step in self._steps.values() if step <= weights.step), default=-self._every)
        if weights.step - newest < self._every:
            return
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            save_weights(self._path(weights.version), weights)
        except OSError as error:
            self.trouble = f"version {weights.version} did not join the pool of opponents: {error}"

    def _read_steps(self) -> None:
        """Of members that are new here; one that is damaged has none."""
        for version in self.versions():
            if version not in self._steps:
                with contextlib.suppress(UsageError):
                    self._steps[version] = self.load(version).step

    def _path(self, version: int) -> Path:
        return self._directory / f"{version:08}.safetensors"
