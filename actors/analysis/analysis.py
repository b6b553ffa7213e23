"""The search of one position that can be watched, stopped and continued: what engines and the studio are shells of."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from shusaku.actors.analysis.report import Limits, MoveReport, Report
from shusaku.common._core import Game, Position, SearchBatch, SearchResult
from shusaku.common.config.search import PuctConfig, SearchConfig, make_search, without_exploration
from shusaku.common.search import Evaluate, search_options, step

__all__ = ["Analysis", "Limits", "MoveReport", "Report"]

FIRST_STAGE = 16  # simulations after which there is a first report
MOST_SIMULATIONS = 1 << 20  # of one search


@dataclass
class _Progress:
    """What the thread has found, replaced as a whole."""

    result: SearchResult | None = None
    simulations: int = 0


class Analysis:
    """One position and its search tree.

    The methods are called from one thread; `report` from any.
    """

    def __init__(
        self, game: Game, evaluators: Sequence[Evaluate], search: SearchConfig, *, leaves: int = 16, seed: int = 0
    ) -> None:
        """A thread for each of the evaluators, which hold the same weights; `leaves` a batch of each."""
        self.game = game
        self._evaluators, self._seed, self._leaves = evaluators, seed, leaves
        self._search = without_exploration(search)
        self._position = game.start()
        self._progress = _Progress()
        self._thread: threading.Thread | None = None
        self._should_stop = threading.Event()
        self._limits = Limits()
        self._begin = self._end = time.monotonic()
        self._ended = "stop"

    @property
    def position(self) -> Position:
        """A copy of the position that is searched."""
        return self._position.copy()

    def set_position(self, position: Position) -> None:
        """Searches `position` next; the subtree is kept if it follows by some moves from the present one."""
        self._check_idle("set_position")
        self._position, self._progress = position.copy(), _Progress()

    def advance(self, action: int) -> None:
        """Plays the action and keeps the subtree below it; ValueError, and nothing changed, if it is illegal."""
        self._check_idle("advance")
        position = self._position.copy()
        position.play(action)
        self._position, self._progress = position, _Progress()

    def start(self, limits: Limits) -> None:
        """Begins to search and returns at once; RuntimeError while a search runs, ValueError if the game is over."""
        self._check_idle("start")
        if self._position.is_terminal:
            raise ValueError("the game is over in this position: there is nothing to search")
        unknown = set(limits.actions) - set(self._position.legal_actions)
        if unknown:
            raise ValueError(f"illegal action {min(unknown)} among the actions to search")
        self._limits, self._ended = limits, ""
        self._begin = time.monotonic()
        self._should_stop.clear()
        self._thread = threading.Thread(target=self._run, name="analysis", daemon=True)
        self._thread.start()

    def wait(self, seconds: float | None = None) -> bool:
        """Waits for the end of the search, at most so long; whether it has ended."""
        if self._thread is not None:
            self._thread.join(seconds)
            if self._thread.is_alive():
                return False
            self._thread = None
        return True

    def report(self) -> Report:
        """What is known now; the search goes on meanwhile."""
        progress, ended = self._progress, self._ended
        seconds = (self._end if ended else time.monotonic()) - self._begin
        result = progress.result
        value = float(result.value) if result else 0.0
        return Report(progress.simulations, seconds, value, self._moves(result, value), None, None, ended)

    def stop(self) -> Report:
        """Ends the search if one runs, and tells what it has found."""
        self._should_stop.set()
        self.wait()
        return self.report()

    def clear(self) -> None:
        """Forgets the tree and the cached evaluations."""
        self._check_idle("clear")
        self._progress = _Progress()

    def close(self) -> None:
        """Ends the search if one runs, and releases the threads."""
        self.stop()

    def _check_idle(self, name: str) -> None:
        if not self.wait(0):
            raise RuntimeError(f"{name}() while a search runs: call stop() first")

    def _moves(self, result: SearchResult | None, value: float) -> tuple[MoveReport, ...]:
        position, legal = self._position, list(self._position.legal_actions)
        if result is None:
            return tuple(MoveReport(a, position.to_move(a), 0, 1 / len(legal), value, -1.0, (a,)) for a in legal)
        rows = zip(result.actions, result.visits, result.prior, result.q_values, strict=True)
        moves = [
            MoveReport(int(a), position.to_move(int(a)), int(n), float(p), float(q) if n else value,
                       float(q) if n > 2 else -1.0, (int(a),))
            for a, n, p, q in rows
        ]
        allowed = self._limits.actions
        moves.sort(key=lambda m: (bool(allowed) and m.action not in allowed, m.action != result.action, -m.visits,
                                  -m.prior))
        return tuple(moves)

    def _run(self) -> None:
        """Searches of growing size, until the limits end it."""
        limit, size = self._limits.simulations or MOST_SIMULATIONS, 0
        search = self._search
        if self._limits.simulations is None and not isinstance(search, PuctConfig):
            search = make_search("puct", **vars(search))
        ended = ""
        while not ended:
            fixed = self._limits.simulations is not None and self._limits.seconds is None
            size = limit if fixed else min(limit, max(FIRST_STAGE, 2 * size))
            leaves = max(1, min(self._leaves, size // 16)) if isinstance(search, PuctConfig) else 1
            sized = replace(search, simulations=size)
            if isinstance(sized, PuctConfig):
                sized = replace(sized, leaves=leaves, graph=False)
            batch = SearchBatch(self.game, search_options(sized, symmetries=False), 1, self._seed)
            batch.begin(0, self._position, self._seed)
            while not batch.is_done() and not ended:
                ended = self._over()
                if not ended:
                    step(batch, self._evaluators[0])
            if batch.is_done():
                self._progress = _Progress(batch.result(0), size)
                ended = ended or ("simulations" if size >= limit else "")
        self._end = time.monotonic()
        self._ended = ended

    def _over(self) -> str:
        seconds = self._limits.seconds
        if self._should_stop.is_set():
            return "stop"
        return "time" if seconds is not None and time.monotonic() - self._begin >= seconds else ""
