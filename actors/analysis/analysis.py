"""The search of one position that can be watched, stopped and continued: what engines and the studio are shells of.

The tree and its threads' work are common/core/analysis/; here are the threads themselves, each with an evaluator.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from shusaku.actors.analysis.fixed_search import FixedSearch
from shusaku.actors.analysis.report import Limits, MoveReport, Report
from shusaku.actors.evaluators.two_networks import has_policy
from shusaku.common._core import AnalysisLimits, AnalysisReport, AnalysisSearch, Game, Position
from shusaku.common.config.search import (
    AlphaGoConfig,
    GumbelConfig,
    PuctConfig,
    SearchConfig,
    make_search,
    replace_read,
    without_exploration,
)
from shusaku.common.messages import Leaves
from shusaku.common.search import Evaluate, search_options

__all__ = ["Analysis", "Limits", "MoveReport", "Report"]

MOST_SIMULATIONS = 1 << 20  # of a search that has no shared tree
CALL_SECONDS = 0.04  # that one call of the network should not exceed if a clock or stop() ends the search
MEGABYTES = 4096  # of a tree
OWNERSHIP_SIMULATIONS = 32  # that ownership takes at least, besides those kept, which were of another root


class Analysis:
    """One position and its search tree.  The methods are called from one thread, `report` from any.

    The policies puct, alphago and gumbel search one tree with all threads: gumbel plans for a fixed number of
    simulations, so it is itself only if `Limits` names that and nothing else, with one thread; else, and for a full
    report, puct takes its place.  The policies mcts and policy_only use one thread.
    """

    def __init__(
        self, game: Game, evaluators: Sequence[Evaluate], search: SearchConfig, *, leaves: int = 16, seed: int = 0,
        megabytes: int = MEGABYTES,
    ) -> None:
        """A thread for each of the evaluators, which hold the same weights; `leaves` a batch of each.

        A search whose tree exceeds `megabytes` ends.  With alphago the evaluators may be of two networks, and leaves
        without actions ask for a value only: see `evaluators.two_networks`.
        """
        self.game = game
        self._evaluators, self._leaves, self._seed = evaluators, leaves, seed
        self._search = without_exploration(search)
        shared = self._search
        if not isinstance(shared, AlphaGoConfig):
            shared = replace_read(without_exploration(make_search("puct", **vars(self._search))), graph=False)
        options = search_options(shared, symmetries=False, asks_policy=has_policy(evaluators[0]))
        self._tree = AnalysisSearch(game, options, len(evaluators), leaves, megabytes, seed)
        self._fixed: FixedSearch | None = None  # in place of the tree, for the present position
        self._position = game.start()
        self._threads: list[threading.Thread] = []
        self._error: BaseException | None = None

    @property
    def position(self) -> Position:
        """A copy of the position that is searched."""
        return self._position.copy()

    def set_position(self, position: Position) -> None:
        """Searches `position` next; the subtree is kept if it follows by some moves from the present one.

        ValueError if it is of another game.
        """
        self._check_idle("set_position")
        self._tree.set_position(position)
        self._position, self._fixed = position.copy(), None

    def advance(self, action: int) -> None:
        """Plays the action and keeps the subtree below it; ValueError, and nothing changed, if it is illegal."""
        self._check_idle("advance")
        position = self._position.copy()
        position.play(action)
        self._tree.advance(action)
        self._position, self._fixed = position, None

    def start(self, limits: Limits) -> None:
        """Begins to search and returns at once.

        RuntimeError while a search runs; ValueError if the game is over or an action is illegal.
        """
        self._check_idle("start")
        if self._position.is_terminal:
            raise ValueError("the game is over in this position: there is nothing to search")
        unknown = set(limits.actions) - set(self._position.legal_actions)
        if unknown:
            raise ValueError(f"illegal action {min(unknown)} among the actions to search")
        self._error = None
        self._fixed = fixed = self._make_fixed(limits)
        works: list[Callable[[], None]]
        if fixed:
            works = [partial(self._run_fixed, fixed)]
        else:
            self._tree.start(_to_core(limits))
            is_timed = limits.simulations is None or limits.has_clock
            works = [partial(self._run, thread, is_timed) for thread in range(len(self._evaluators))]
        self._threads = [threading.Thread(target=work, name="analysis", daemon=True) for work in works]
        for thread in self._threads:
            thread.start()

    def wait(self, seconds: float | None = None) -> bool:
        """Waits for the end of the search, at most so long; whether it has ended.  Raises what a thread has raised."""
        deadline = None if seconds is None else time.monotonic() + seconds
        for thread in self._threads:
            thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                return False
        self._threads = []
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return True

    def report(self) -> Report:
        """What is known now; the search goes on meanwhile."""
        fixed = self._fixed
        return fixed.report() if fixed else self._to_report(self._tree.report())

    def stop(self) -> Report:
        """Ends the search if one runs, and tells what it has found."""
        self._request_stop()
        self.wait()
        return self.report()

    def clear(self) -> None:
        """Forgets the tree and the cached evaluations."""
        self._check_idle("clear")
        self._tree.clear()
        self._fixed = None

    def close(self) -> None:
        """Ends the search if one runs."""
        self._request_stop()
        for thread in self._threads:
            thread.join()
        self._threads = []

    @property
    def most_in_flight(self) -> int:
        """Leaves that waited for the network at once since `start`, at most."""
        return int(self._tree.most_in_flight())

    @property
    def has_virtual_loss(self) -> bool:
        """Whether any path still counts as lost games (alphago): never once the search has ended."""
        return bool(self._tree.has_virtual_loss())

    @property
    def tree_bytes(self) -> int:
        """Memory that the tree takes."""
        return int(self._tree.bytes())

    def _check_idle(self, name: str) -> None:
        if not self.wait(0):
            raise RuntimeError(f"{name}() while a search runs: call stop() first")

    def _request_stop(self) -> None:
        fixed = self._fixed
        if fixed:
            fixed.stop()
        else:
            self._tree.stop()

    def _make_fixed(self, limits: Limits) -> FixedSearch | None:
        """The search of a policy that does not share its tree; None: the tree is searched."""
        if isinstance(self._search, PuctConfig | AlphaGoConfig):
            return None
        is_fixed = limits.simulations is not None and limits.seconds is None
        if isinstance(self._search, GumbelConfig) and (not is_fixed or limits.actions or limits.full_report):
            return None
        simulations = MOST_SIMULATIONS if limits.simulations is None else min(MOST_SIMULATIONS, limits.simulations)
        search = replace(self._search, simulations=max(1, simulations))
        return FixedSearch(self.game, self._position.copy(), search, limits, self._seed)

    def _run_fixed(self, search: FixedSearch) -> None:
        try:
            search.run(self._evaluators[0])
        except BaseException as error:  # raised again by wait()
            self._error = error

    def _run(self, thread: int, is_timed: bool) -> None:
        """One thread of a search: leaves, network, backup, until there are no more leaves."""
        tree, evaluate, most = self._tree, self._evaluators[thread], self._leaves
        try:
            while True:
                leaves = Leaves(*tree.select(thread, most, max(0, evaluate.version)))
                if not len(leaves):
                    return
                begin = time.monotonic()
                evaluation = evaluate(leaves)
                if is_timed:
                    most = self._next_batch(most, len(leaves), time.monotonic() - begin)
                if evaluation.heads:
                    tree.add_heads(thread, evaluation.heads.get("ownership"), evaluation.heads.get("score"))
                tree.expand_and_backup(thread, evaluation.logits, evaluation.values, max(0, evaluation.version))
        except BaseException as error:  # raised again by wait()
            self._error = error
            tree.abandon(thread)

    def _next_batch(self, most: int, count: int, seconds: float) -> int:
        """How many leaves the next call takes, so that it does not outlast CALL_SECONDS by much."""
        if seconds > CALL_SECONDS:
            return max(1, count // 2)
        return min(self._leaves, 2 * most) if seconds < CALL_SECONDS / 3 else most

    def _to_report(self, core: AnalysisReport) -> Report:
        columns = zip(core.actions, core.moves, core.visits, core.priors, core.values, core.lower_bounds,
                      core.variations, core.variation_visits, strict=True)
        moves = [MoveReport(action, move, visits, prior, value, bound, tuple(variation), tuple(its_visits))
                 for action, move, visits, prior, value, bound, variation, its_visits in columns]
        ownership = None
        if core.ownership:
            _, height, width = self.game.observation_shape
            ownership = np.array(core.ownership, np.float32).reshape(height, width)
        score = None if np.isnan(core.score) else float(core.score)
        return Report(core.simulations, core.seconds, core.value, tuple(moves[i] for i in core.order), score, ownership,
                      core.ended, core.resigns)


def _to_core(limits: Limits) -> AnalysisLimits:
    core = AnalysisLimits()
    core.simulations = -1 if limits.simulations is None else limits.simulations
    core.seconds = -1.0 if limits.seconds is None else max(0.0, limits.seconds)
    core.actions = list(limits.actions)
    core.to_the_end = limits.to_the_end
    core.processor_seconds = -1.0 if limits.processor_seconds is None else max(0.0, limits.processor_seconds)
    return core
