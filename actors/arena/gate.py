"""The match that a new version must win before self-play uses it (AlphaGo Zero, Silver et al. 2017, Methods).

There the evaluator plays 400 games of the newest checkpoint against the best network, with a temperature near 0, and
the newest one becomes the best if it wins by a margin of over 55 %.  Here pairs of games begin with random openings,
because searches draw nothing at random, draws count half, and a match ends once its decision cannot change.
"""

from collections.abc import Callable
from dataclasses import dataclass

from shusaku.actors.arena.arena import Arena, MatchResult
from shusaku.actors.arena.entrants import load_evaluators, version_player
from shusaku.actors.arena.players import Player
from shusaku.actors.arena.rating_log import version_name
from shusaku.actors.arena.strength import strength_search
from shusaku.common._core import Game
from shusaku.common.config.schema import Config, GateConfig
from shusaku.common.messages import Weights

GAMES_AT_ONCE = 128
SEED = 1 << 32  # of the openings, which no match of a user begins with


@dataclass(frozen=True, slots=True)
class GateResult:
    """How a candidate met the best version."""

    candidate: int  # version
    best: int
    points: tuple[tuple[float, ...], ...]  # of the candidate in the games of each opening
    has_passed: bool
    whole_pairs: int  # the first of `points`, before any opening whose games had not all ended
    simulations: int | None = None  # of each move

    @property
    def games(self) -> int:
        """That were played until the decision."""
        return sum(map(len, self.points))

    @property
    def score(self) -> float:
        """The candidate's share of the points."""
        return sum(map(sum, self.points)) / self.games


def has_passed(settings: GateConfig, result: MatchResult) -> bool | None:
    """Whether the candidate, the first player, has passed; None while the games left can still decide."""
    points, needed = sum(game.points for game in result.games), settings.score * settings.games
    if points > needed:
        return True
    return False if points + settings.games - len(result.games) <= needed else None


class GateMatch:
    """The games of one candidate; its owner gives it time."""

    def __init__(
        self, config: Config, game: Game, best: Weights, candidate: Weights, *, threads: int,
        should_stop: Callable[[], bool],
    ) -> None:
        self._settings, self._best, self._candidate = config.gate, best.version, candidate.version
        search = strength_search(config.search, config.gate.simulations or config.search.simulations)
        self._simulations = search.simulations
        at_once = min(config.gate.games, GAMES_AT_ONCE)
        seed = SEED + candidate.version
        self._players: list[Player] = [
            version_player(version_name(weights.version), game, search,
                           load_evaluators(config, game, weights, at_once, threads), games_at_once=at_once,
                           seed=2 * seed + number, should_stop=should_stop)
            for number, weights in enumerate((candidate, best))
        ]
        self._arena = Arena(game, (self._players[0], self._players[1]), games=config.gate.games,
                            opening_plies=config.gate.opening_plies, openings_key="gate.opening_plies", seed=seed,
                            games_at_once=at_once,
                            is_decided=lambda result: has_passed(config.gate, result) is not None)

    def step(self) -> bool:
        """A move in each open game; False when it is decided.  StoppedError if it is stopped."""
        return self._arena.step()

    def result(self) -> GateResult:
        """After the last step."""
        result = self._arena.result
        points = tuple(tuple(points) for _, points in sorted(result.pairs().items()))
        return GateResult(self._candidate, self._best, points, has_passed(self._settings, result) is True,
                          len(result.whole_pairs()), self._simulations)

    def close(self) -> None:
        """Releases the players."""
        for player in self._players:
            player.close()
