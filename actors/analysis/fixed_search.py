"""One search of a policy that has no shared tree (gumbel, mcts, policy_only): one thread, a number fixed before."""

import threading
import time
from math import isnan

from shusaku.actors.analysis.report import Limits, MoveReport, Report
from shusaku.common._core import Game, Position, SearchBatch
from shusaku.common.config.search import SearchConfig
from shusaku.common.messages import Leaves
from shusaku.common.search import Evaluate, search_options


class FixedSearch:
    """A search of `search.simulations`, or less if a clock or `stop` ends it; `report` from any thread."""

    def __init__(self, game: Game, position: Position, search: SearchConfig, limits: Limits, seed: int) -> None:
        self._position, self._limits = position, limits
        self._batch = SearchBatch(game, search_options(search, symmetries=False), 1, seed)
        self._batch.begin(0, position, seed)
        self._lock = threading.Lock()  # of the batch, not held while the network runs
        self._stop = threading.Event()
        self._begin, self._end, self._ended = time.monotonic(), 0.0, ""

    def run(self, evaluate: Evaluate) -> None:
        """Searches until it ends."""
        try:
            while not self._reason():
                with self._lock:
                    leaves = Leaves(*self._batch.select(max(0, evaluate.version)))
                if len(leaves):
                    evaluation = evaluate(leaves)
                    with self._lock:
                        self._batch.expand_and_backup(evaluation.logits, evaluation.values, max(0, evaluation.version))
        finally:
            self._end, self._ended = time.monotonic(), self._ended or self._reason() or "stop"

    def stop(self) -> None:
        """Asks `run` to return."""
        self._stop.set()

    def report(self) -> Report:
        """What the search would conclude now."""
        position, allowed = self._position, self._limits.actions
        with self._lock:
            result = self._batch.result_so_far(0)
            variations = [tuple(self._batch.variation(0, edge)) for edge in range(len(result.actions))]
        value, moves = float(result.value), []
        for edge, action in enumerate(map(int, result.actions)):
            visits = int(result.visits[edge])
            moves.append(MoveReport(
                action, position.to_move(action), visits, float(result.prior[edge]),
                float(result.q_values[edge]) if visits else value, -1.0, variations[edge]))
        legal = position.legal_actions
        if not moves:  # before the first evaluation
            moves = [MoveReport(a, position.to_move(a), 0, 1 / len(legal), value, -1.0, (a,)) for a in legal]
        moves.sort(key=lambda m: (bool(allowed) and m.action not in allowed, m.action != result.action, -m.visits,
                                  -m.prior))
        ended = self._ended
        seconds = (self._end if ended else time.monotonic()) - self._begin
        return Report(sum(m.visits for m in moves), seconds, value, tuple(moves), None, None, ended)

    def _reason(self) -> str:
        if self._stop.is_set():
            return "stop"
        if self._batch.is_done():
            with self._lock:
                return "simulations" if isnan(self._batch.result_so_far(0).proven_value) else "proven"
        seconds = self._limits.seconds
        return "time" if seconds is not None and time.monotonic() - self._begin >= seconds else ""
