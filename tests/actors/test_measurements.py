"""Two measurements that one evaluator is asked for at the same time: each is of its own weights."""

import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from shusaku.actors import remote
from shusaku.actors.remote import EvaluatorActor
from shusaku.common.config.schema import Config
from shusaku.common.messages import Evaluation, Leaves


class FirstOrLast:
    """Prefers the first legal action with version 1 and the last one with version 2."""

    def __init__(self) -> None:
        self.version = 0
        self.has_begun = threading.Event()
        self.other_was_asked = threading.Event()

    def load(self, weights: Any) -> None:
        self.version = weights.version

    def __call__(self, leaves: Leaves) -> Evaluation:
        self.has_begun.set()
        self.other_was_asked.wait(0.5)  # time for the other measurement to load its weights
        logits = np.arange(len(leaves.actions), dtype=np.float32)
        return Evaluation(logits if self.version == 2 else -logits, np.zeros(len(leaves), np.float32), self.version)


def test_measurements_asked_for_together_do_not_share_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluator = FirstOrLast()
    monkeypatch.setattr(remote, "make_evaluator", lambda *arguments: evaluator)
    monkeypatch.setattr(remote, "ray", SimpleNamespace(get=lambda weights: weights))
    monkeypatch.setattr(remote, "lower_priority", lambda nice: None)
    actor = EvaluatorActor(Config(), nice=0, threads=1, directory="")
    running = threading.Thread(target=actor.run)
    running.start()

    shares: dict[int, float] = {}

    def measure(version: int) -> None:
        measured = actor.measure([SimpleNamespace(version=version)], [], 60)
        assert measured is not None
        shares[version] = measured.policy.optimal

    try:
        for version in (1, 2):
            measure(version)
        alone = dict(shares)
        assert alone[1] != alone[2]
        evaluator.has_begun.clear()
        first = threading.Thread(target=measure, args=(1,))
        first.start()
        assert evaluator.has_begun.wait(30)
        second = threading.Thread(target=measure, args=(2,))
        second.start()
        first.join(30)
        second.join(30)
        assert shares == alone
    finally:
        actor.stop()
        running.join(30)
