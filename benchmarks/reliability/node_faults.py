"""A Ray cluster of two nodes on this machine, the second of which is lost now and then, and comes back."""

import contextlib
import random
import sys
import time
from collections import Counter
from collections.abc import Mapping

import psutil

from benchmarks.lib import ROOT

sys.path.insert(0, str(ROOT / "tests" / "fixtures"))
from two_nodes import TwoNodes


class NodeFaults:
    """The cluster, and when its second node is there."""

    KEPT_S, AWAY_S = (60.0, 180.0), (10.0, 60.0)

    def __init__(self, seed: int, variables: Mapping[str, str]) -> None:
        """`variables`: of its nodes, and so of every worker."""
        self._random = random.Random(f"{seed} nodes")
        self._cluster = TwoNodes(variables=variables)
        self.variables = {**self._cluster.variables, "RAY_ADDRESS": self._cluster.address}
        self._is_there, self._next = True, time.monotonic() + self._random.uniform(*self.KEPT_S)
        self.counts: Counter[str] = Counter()

    def inject(self) -> None:
        """Takes the second node away, or brings another one, if it is time."""
        if time.monotonic() >= self._next:
            self._cluster.tell("kill" if self._is_there else "add")
            self.counts["node lost" if self._is_there else "node added"] += 1
            self._is_there = not self._is_there
            self._next = time.monotonic() + self._random.uniform(*(self.KEPT_S if self._is_there else self.AWAY_S))

    def bring_back(self) -> None:
        if not self._is_there:
            self._next = 0.0
            self.inject()

    def workers(self) -> set[psutil.Process]:
        """Processes of actors and tasks on both nodes."""
        found = set()
        for process in psutil.Process(self._cluster.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                command = " ".join(process.cmdline())
                if command.startswith("ray::") and "Agent" not in command and "IDLE" not in command:
                    found.add(process)
        return found

    def close(self) -> None:
        self._cluster.close()
