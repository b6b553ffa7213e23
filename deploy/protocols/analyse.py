"""`shusaku analyse`, without pipes: JSON lines in and out, many positions searched at once over the same networks.

The idea, one process that tools ask for many positions and that batches them, is that of KataGo's analysis engine
(lightvector/KataGo, Analysis_Engine); fields and words are ours: docs/guides/analysis-engine.md.
"""

import heapq
import itertools
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from shusaku.actors.analysis.analysis import OWNERSHIP_SIMULATIONS, Analysis
from shusaku.actors.analysis.report import Limits, MoveReport, Report
from shusaku.common._core import Game, Position
from shusaku.common.config.search import SearchConfig
from shusaku.deploy.protocols.analyse_request import Control, RequestError, Task, read_request
from shusaku.deploy.protocols.line_loop import Say
from shusaku.deploy.protocols.variation import play_variation

MOST_WAITING = 20_000  # positions; a client that asks for more has to read answers first
DIGITS = 4  # of numbers in answers

MakeAnalysis = Callable[[SearchConfig], Analysis]


@dataclass
class _Searcher:
    """One of the analyses that run at once."""

    analysis: Analysis
    search: SearchConfig
    task: Task | None = None
    next_report: float = math.inf


class AnalysisEngine:
    """Takes requests and answers them in the order in which they end; all of it is called from one thread."""

    def __init__(
        self, game: Game, make: MakeAnalysis, search: SearchConfig, simulations: int, positions: int, say: Say,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`positions` at once, each with an analysis of `make`; `search`, `simulations`: unless a request says more."""
        self._game, self._make, self._search, self._simulations = game, make, search, simulations
        self._say, self._now = say, now
        self._searchers = [_Searcher(make(search), search) for _ in range(positions)]
        self._waiting: list[tuple[int, int, Task]] = []  # a heap: priority, order
        self._order = itertools.count()

    @property
    def is_busy(self) -> bool:
        """Whether a position is searched or waits."""
        return bool(self._waiting) or any(searcher.task is not None for searcher in self._searchers)

    def receive(self, line: str) -> bool:
        """Takes a line; what is wrong with it becomes its answer."""
        if not line.strip():
            return True
        try:
            request = read_request(line, self._game, self._search, self._simulations)
            if isinstance(request, Control):
                self._control(request)
            else:
                self._enqueue(request)
        except RequestError as error:
            self._answer(error.identity, {"error": str(error), "field": error.field})
        return True

    def advance(self) -> None:
        """Gives the answers and reports that are due, and the free analyses new positions."""
        now = self._now()
        for searcher in self._searchers:
            if searcher.task is not None and searcher.analysis.wait(0):
                self._end_search(searcher)
            elif searcher.task is not None and now >= searcher.next_report:
                searcher.next_report = now + searcher.task.report_every
                self._report(searcher, searcher.task, is_final=False)
            while searcher.task is None and self._waiting:
                self._begin_search(searcher, heapq.heappop(self._waiting)[-1])

    def end(self) -> None:
        """Ends all searches without an answer."""
        for searcher in self._searchers:
            searcher.analysis.close()

    # --- requests ----------------------------------------------------------------------------------------------------

    def _enqueue(self, tasks: Sequence[Task]) -> None:
        if len(self._waiting) + len(tasks) > MOST_WAITING:
            raise RequestError("", f"{len(self._waiting)} positions wait already, and at most {MOST_WAITING} can; read "
                                   "answers before you ask for more", tasks[0].identity)
        for task in tasks:
            heapq.heappush(self._waiting, (-task.priority, next(self._order), task))

    def _control(self, control: Control) -> None:
        if control.action in ("terminate", "terminate_all"):
            self._answer(control.identity, {"action": control.action, "ended": self._terminate(control)})
        elif control.action == "clear_cache":
            for searcher in self._searchers:
                if searcher.task is None:
                    searcher.analysis.clear()
            self._answer(control.identity, {"action": control.action})
        else:
            self._answer(control.identity, {"action": control.action, "version": metadata.version("shusaku"),
                                            "game": self._game.name, "params": self._game.params})

    def _terminate(self, control: Control) -> int:
        """Ends the positions that the request means; each of them gets its final answer.  How many they were."""

        def is_meant(task: Task) -> bool:
            return control.action == "terminate_all" or task.identity == control.target

        dropped = [task for *_, task in sorted(self._waiting, key=lambda entry: entry[:2]) if is_meant(task)]
        self._waiting = [entry for entry in self._waiting if not is_meant(entry[-1])]
        heapq.heapify(self._waiting)
        for task in dropped:
            self._answer(task.identity,
                         {"ply": task.ply, "final": True, "simulations": 0, "moves": [], "ended": "stop"})
        ended = len(dropped)
        for searcher in self._searchers:
            if searcher.task is not None and is_meant(searcher.task):
                searcher.analysis.stop()
                self._end_search(searcher)
                ended += 1
        return ended

    # --- searches ----------------------------------------------------------------------------------------------------

    def _begin_search(self, searcher: _Searcher, task: Task) -> None:
        position = task.position
        if position.is_terminal:
            score = None if math.isnan(position.score) else position.score
            self._answer(task.identity, {
                "ply": task.ply, "final": True, "to_play": position.to_play, "result": position.outcome, "score": score,
                "moves": [],
            })
            return
        if searcher.search != task.search:
            searcher.analysis.close()
            searcher.analysis, searcher.search = self._make(task.search), task.search
        searcher.analysis.set_position(position)
        searcher.task, searcher.next_report = task, self._now() + task.report_every
        simulations, kept = task.simulations, searcher.analysis.report()
        if task.ownership and simulations is not None and kept.ownership is None:  # some more, of this root
            simulations = max(simulations, kept.simulations + min(simulations, OWNERSHIP_SIMULATIONS))
        searcher.analysis.start(Limits(simulations, task.seconds, task.actions, to_the_end=True, full_report=True))

    def _end_search(self, searcher: _Searcher) -> None:
        task, searcher.task = searcher.task, None
        assert task is not None
        self._report(searcher, task, is_final=True)

    def _report(self, searcher: _Searcher, task: Task, *, is_final: bool) -> None:
        report = searcher.analysis.report()
        moves = [move for move in report.moves if move.visits and (not task.actions or move.action in task.actions)]
        answer: dict[str, Any] = {
            "ply": task.ply, "final": is_final, "to_play": task.position.to_play, "simulations": report.simulations,
            "seconds": _rounded(report.seconds), "value": _rounded(report.value),
            "score": None if report.score is None else _rounded(report.score),
            "moves": [_move(move, task.position) for move in moves[: task.most_moves or None]],
        }
        if is_final:
            answer["ended"] = report.ended
        if task.policy:
            answer["policy"] = {move.move: _rounded(move.prior) for move in report.moves}
        if task.ownership:
            answer["ownership"] = _ownership(report)
        self._answer(task.identity, answer)

    def _answer(self, identity: str | int | None, answer: dict[str, Any]) -> None:
        self._say(json.dumps({"id": identity, **answer}, allow_nan=False))


def _move(move: MoveReport, position: Position) -> dict[str, Any]:
    return {
        "move": move.move, "visits": move.visits, "value": _rounded(move.value), "prior": _rounded(move.prior),
        "lower_bound": _rounded(move.lower_bound), "variation": play_variation(position, move.variation)[0],
        "variation_visits": list(move.variation_visits),
    }


def _ownership(report: Report) -> list[list[float]] | None:
    """Rows of the board; null if the weights have no such head."""
    if report.ownership is None:
        return None
    return [[_rounded(float(value)) for value in row] for row in report.ownership]


def _rounded(value: float) -> float:
    return round(float(value), DIGITS)
