"""Several searches that share networks: whatever waits becomes one batch."""

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shusaku.actors.inference.leaves import concat_leaves
from shusaku.common.messages import Evaluation, Leaves
from shusaku.common.search import Evaluate


@dataclass(eq=False)
class _Request:
    """One thread's leaves, and their answer when it is there."""

    leaves: Leaves
    answer: Evaluation | None = None
    error: BaseException | None = None


class SharedEvaluator:
    """An evaluator for many threads, each of which waits for its own answer.

    A thread that finds a network free takes all that waits, its own leaves among them, and answers the others too.  So
    no thread waits for a batch to fill, and batches are as large as what arrived during the one before.
    """

    def __init__(self, evaluators: Sequence[Evaluate], largest: int) -> None:
        """`evaluators`: of the same weights, each for one thread at a time; `largest`: positions of a joined batch."""
        self._idle = list(evaluators)
        self._version = evaluators[0].version
        self._largest = largest
        self._waiting: deque[_Request] = deque()  # at most one of each thread
        self._changed = threading.Condition()
        self.batches = 0
        self.positions = 0

    @property
    def version(self) -> int:
        """The version of the weights."""
        return self._version

    def __call__(self, leaves: Leaves) -> Evaluation:
        """Logits and values of these leaves; what the network raised, if it raised."""
        request = _Request(leaves)
        with self._changed:
            self._waiting.append(request)
            while request.answer is None and request.error is None:
                if self._idle and self._waiting:
                    self._run_batch(self._idle.pop(), self._take())
                else:
                    self._changed.wait()
        if request.error is not None:
            raise request.error
        assert request.answer is not None
        return request.answer

    def _take(self) -> list[_Request]:
        """The oldest requests that make a batch; the lock is held."""
        taken = [self._waiting.popleft()]
        rows = len(taken[0].leaves)
        while self._waiting and rows + len(self._waiting[0].leaves) <= self._largest:
            taken.append(self._waiting.popleft())
            rows += len(taken[-1].leaves)
        self.batches += 1
        self.positions += rows
        return taken

    def _run_batch(self, evaluator: Evaluate, taken: Sequence[_Request]) -> None:
        """Answers these requests; the lock is held before and after, and free meanwhile."""
        self._changed.release()
        try:
            answers, error = _split(evaluator(concat_leaves([request.leaves for request in taken])), taken), None
        except Exception as caught:  # every thread that waits for this batch has to hear of it
            answers, error = [None] * len(taken), caught
        finally:
            self._changed.acquire()
        for request, answer in zip(taken, answers, strict=True):
            request.answer, request.error = answer, error
        self._idle.append(evaluator)
        self._changed.notify_all()


def _split(evaluation: Evaluation, taken: Sequence[_Request]) -> list[Evaluation | None]:
    """The part of each request, copied: an evaluator uses its buffers again."""
    rows = np.cumsum([0, *(len(request.leaves) for request in taken)])
    actions = np.cumsum([0, *(int(request.leaves.offsets[-1]) for request in taken)])
    return [
        Evaluation(evaluation.logits[actions[i] : actions[i + 1]].copy(),
                   evaluation.values[rows[i] : rows[i + 1]].copy(), evaluation.version,
                   {head: array[rows[i] : rows[i + 1]].copy() for head, array in evaluation.heads.items()})
        for i in range(len(taken))
    ]
