"""Mini-batches prepared ahead by one thread, in an order that does not depend on time."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

T = TypeVar("T")


def batch_seed(run_seed: int, index: int) -> int:
    """The seed of mini-batch `index` of a run: 64 bits that nothing else of the run shares."""
    return int(np.random.SeedSequence([run_seed, index]).generate_state(1, np.uint64)[0])


class Prefetcher(Generic[T]):
    """Batch k is `sample(batch_seed(run_seed, k))`, made up to `depth` ahead of the consumer; depth 0 needs no thread.

    `allow(end)` bounds the indices that may be made now.  If playing and learning take turns, nothing is then sampled
    from a window that still grows, so the rows of batch k do not depend on the timing of the threads.

    If `sample` returns None because the limiter says wait, `next` returns None, and the same index is tried later.
    `index` is the whole state: batches made but not consumed are made again by the process that goes on from it.
    """

    def __init__(
        self, sample: Callable[[int], T | None], run_seed: int, depth: int, index: int = 0, end: int | None = None
    ) -> None:
        self._sample, self._run_seed, self._depth = sample, run_seed, depth
        self._index = index  # of the next batch to be consumed
        self._end = end  # first index that may not be made yet; None: no bound
        self._ready: deque[T] = deque()  # batches index, index + 1, …
        self._dry = False  # the last sample was None, and `next` was not called since
        self._error: BaseException | None = None
        self._stopped = False
        self._is_sampling = False  # the thread makes a batch right now
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        if depth > 0:
            self._thread = threading.Thread(target=self._fill, name="prefetch", daemon=True)
            self._thread.start()

    @property
    def index(self) -> int:
        """Index of the next batch to be consumed, which a checkpoint keeps."""
        return self._index

    @property
    def ahead(self) -> int:
        """Number of batches that were made and not consumed; a process that goes on from `index` makes them again."""
        with self._changed:
            return len(self._ready) + self._is_sampling

    def allow(self, end: int | None) -> None:
        """Batches before `end` may be made from now on; None: all."""
        with self._changed:
            self._end = end
            self._changed.notify_all()

    def close(self) -> int:
        """Makes no further batch; returns the index after the last one that is made or being made.

        If the caller consumes all of them, every sample that the limiter counted is learned from.
        """
        with self._changed:
            self._end = self._index + len(self._ready) + self._is_sampling
            return self._end

    def next(self) -> T | None:
        """The next batch; None after `stop`, at the bound, or while there is nothing to sample.

        What `sample` raised is raised here.
        """
        if self._thread is None:
            return self._next_inline()
        with self._changed:
            self._dry = False  # ask again
            self._changed.notify_all()
            while not (self._ready or self._stopped or self._dry or self._error or self._is_bounded(self._index)):
                self._changed.wait()
            if self._error is not None:
                raise self._error
            if self._stopped or not self._ready:
                return None
            self._index += 1
            self._changed.notify_all()
            return self._ready.popleft()

    def stop(self) -> None:
        """Ends the thread; what was prepared is dropped, `index` stays."""
        with self._changed:
            self._stopped = True
            self._ready.clear()
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _next_inline(self) -> T | None:
        if self._stopped or self._is_bounded(self._index):
            return None
        batch = self._sample(batch_seed(self._run_seed, self._index))
        if batch is not None:
            self._index += 1
        return batch

    def _is_bounded(self, index: int) -> bool:
        return self._end is not None and index >= self._end

    def _fill(self) -> None:
        while True:
            with self._changed:
                while not self._stopped and not self._may_fill():
                    self._changed.wait()
                if self._stopped:
                    return
                index = self._index + len(self._ready)
                self._is_sampling = True
            try:
                batch = self._sample(batch_seed(self._run_seed, index))
            except BaseException as error:
                with self._changed:
                    self._error = error
                    self._changed.notify_all()
                return
            with self._changed:
                self._is_sampling = False
                if self._stopped:
                    return
                if batch is None:
                    self._dry = True
                else:
                    self._ready.append(batch)
                self._changed.notify_all()

    def _may_fill(self) -> bool:
        made = len(self._ready)
        return not self._dry and made < self._depth and not self._is_bounded(self._index + made)
