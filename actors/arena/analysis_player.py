"""A player that searches one position at a time on a tree that it keeps: alphago, and every search under a clock."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from shusaku.actors.analysis.analysis import Analysis, Limits
from shusaku.actors.arena.players import Forfeit, OpenGame, OwnPositions, ShouldStop
from shusaku.actors.arena.strength import StoppedError
from shusaku.common._core import Game

POLL_SECONDS = 0.1  # between looks at should_stop during a search


class AnalysisPlayer:
    """Each open game has an analysis of its own, whose subtree it keeps from move to move.

    As many games at once as there are analyses.  A search that `resigns` gives the game up.
    """

    def __init__(
        self, name: str, game: Game, analyses: Sequence[Analysis], limits: Limits, *,
        should_stop: ShouldStop = lambda: False,
    ) -> None:
        """`limits`, those of simulations included, hold for each search: kept simulations come on top of them."""
        self.name = name
        self._limits, self._should_stop = limits, should_stop
        self._positions = OwnPositions(game)
        self._all, self._free = tuple(analyses), list(analyses)
        self._taken: dict[int, Analysis] = {}  # number of the game -> its analysis
        self._pool = ThreadPoolExecutor(len(analyses), "player")

    def choose(self, games: Sequence[OpenGame]) -> list[int | Forfeit]:
        """Searches all games; StoppedError if the match is stopped."""
        for game in games:
            if game.number not in self._taken:
                analysis = self._free.pop()
                analysis.clear()
                self._taken[game.number] = analysis
            self._taken[game.number].set_position(self._positions.position(game))
        return list(self._pool.map(self._search, [self._taken[game.number] for game in games]))

    def end(self, game: OpenGame) -> None:
        """Another game takes its analysis."""
        self._positions.end(game)
        analysis = self._taken.pop(game.number, None)
        if analysis is not None:
            self._free.append(analysis)

    def close(self) -> None:
        """Ends the threads."""
        for analysis in self._all:
            analysis.close()
        self._pool.shutdown()

    def _search(self, analysis: Analysis) -> int | Forfeit:
        limits = self._limits
        if limits.simulations is not None:
            limits = Limits(analysis.report().simulations + limits.simulations)
        analysis.start(limits)
        while not analysis.wait(POLL_SECONDS):
            if self._should_stop():
                analysis.stop()
                raise StoppedError("the match was stopped during a search")
        report = analysis.report()
        return Forfeit("resignation", "") if report.resigns else report.moves[0].action
