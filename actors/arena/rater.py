"""Rates the versions of a run by games, one version at a time, in every game.

The newest version meets the previous one that was rated, the third last one, the best one, and the two anchors between
which it is expected to stand.  The rating is that of all games of the run directory; the first anchor has 0.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from shusaku.actors.arena.arena import Arena
from shusaku.actors.arena.entrants import anchor_player, load_evaluators, rating_search, version_player
from shusaku.actors.arena.players import Player
from shusaku.actors.arena.rating_log import (
    KEPT,
    RATED,
    EloCurve,
    Meeting,
    Moment,
    append_meeting,
    elo_curve,
    heal_ratings,
    played_pairs,
    read_meetings,
    version_name,
    version_of,
)
from shusaku.actors.arena.ratings import Ratings, rate
from shusaku.actors.arena.strength import StoppedError
from shusaku.common._core import Game
from shusaku.common.config.schema import Config
from shusaku.common.errors import UsageError
from shusaku.common.messages import Weights
from shusaku.common.network.weights import load_weights, save_weights
from shusaku.common.search import Evaluate


class Rater:
    """Plays and rates; its owner gives it weights and time.  One thread uses it, but for `offer`."""

    def __init__(
        self, config: Config, game: Game, directory: Path, *, threads: int, should_stop: Callable[[], bool]
    ) -> None:
        """Goes on with the games and the weights that the run directory holds."""
        self._config, self._game, self._directory = config, game, directory
        self._threads, self._should_stop = threads, should_stop
        heal_ratings(directory)
        self._simulations = rating_search(config.search, config.rater).simulations
        self._meetings = read_meetings(directory, self._simulations)
        self._offered: tuple[Weights, float] | None = None  # the newest, with the training time
        self._newest: Weights | None = None  # that is being rated
        self._evaluators: list[Evaluate] = []  # of it
        self._matches: Iterator[None] = iter(())
        self.trouble = ""  # why its games could not be written
        self.curve: EloCurve | None = None  # after the newest version that was rated
        self._ratings: Ratings | None = None
        self._rated = max(self._kept_versions(), default=0)
        self._update()

    def offer(self, weights: Weights, seconds: float) -> None:
        """The newest version, published at this training time; it replaces one that waits."""
        if weights.version > max(self._rated, self._offered[0].version if self._offered else 0):
            self._offered = weights, seconds

    def step(self) -> bool:
        """A move in each game of the present match; False if there is nothing to do."""
        if self._newest is None and not self._begin():
            return False
        try:
            next(self._matches)
        except StopIteration:
            self._end()
        except StoppedError:
            self._newest = None
            return False
        return True

    def rate(self, weights: Weights, seconds: float, on_step: Callable[[], object] = lambda: None) -> EloCurve | None:
        """Rates this version; None if it was stopped."""
        self.offer(weights, seconds)
        while not self._should_stop() and self.step():
            on_step()
        return None if self._should_stop() else self.curve

    def _begin(self) -> bool:
        offered, self._offered = self._offered, None
        if offered is None:
            return False
        self._newest, seconds = offered
        self._rated = self._newest.version
        self._evaluators = load_evaluators(self._config, self._game, self._newest, self._config.rater.games,
                                           self._threads)
        self._matches = self._play_all(self._newest, Moment(self._newest.step, seconds))
        return True

    def _end(self) -> None:
        """All games of the newest version were played."""
        assert self._newest is not None
        self._update()
        try:
            self._keep(self._newest)
        except OSError as error:
            self.trouble = f"weights for later ratings: {error}"
        self._newest, self._evaluators = None, []

    def _update(self) -> None:
        anchor = self._config.rater.anchors[0]
        pairs = played_pairs(self._meetings)
        if any(anchor in (pair.first, pair.second) for pair in pairs):
            self._ratings = rate(pairs, anchor)
            self.curve = elo_curve(self._ratings, self._meetings)

    def _play_all(self, newest: Weights, moment: Moment) -> Iterator[None]:
        """Yields after each move."""
        name = version_name(newest.version)
        kept = self._kept_versions()
        for opponent in self._opponents(newest.version, kept):
            seed = _seed(self._config.run.seed, name, opponent)
            players: list[Player] = []
            try:
                players.append(self._version(name, self._evaluators, seed))
                players.append(self._opponent(opponent, seed + 1))
                yield from self._play((players[0], players[1]), Meeting(name, opponent, (), moment), seed)
            except UsageError as error:  # a damaged file of an old version, or no openings
                self.trouble = f"{opponent} was left out: {error}"
            finally:
                for player in players:
                    player.close()

    def _play(self, players: tuple[Player, Player], meeting: Meeting, seed: int) -> Iterator[None]:
        settings = self._config.rater
        arena = Arena(self._game, players, games=settings.games, opening_plies=settings.opening_plies,
                      openings_key="rater.opening_plies", seed=seed, games_at_once=settings.games,
                      should_stop=self._should_stop)
        while arena.step():
            yield
        pairs = arena.result.new_pairs(arena.result.pairs())
        repeated = settings.games - sum(map(len, pairs.values()))
        self._record(replace(meeting, points=tuple(map(tuple, pairs.values())), repeated=repeated))

    def _record(self, meeting: Meeting) -> None:
        self._meetings.append(meeting)
        try:
            append_meeting(self._directory, meeting, self._simulations)
            self.trouble = ""
        except OSError as error:
            self.trouble = f"{meeting.first} against {meeting.second} could not be written: {error}"

    def _version(self, name: str, evaluators: list[Evaluate], seed: int) -> Player:
        return version_player(name, self._game, rating_search(self._config.search, self._config.rater), evaluators,
                              games_at_once=self._config.rater.games, seed=seed, should_stop=self._should_stop)

    def _opponent(self, name: str, seed: int) -> Player:
        games = self._config.rater.games
        if not version_of(name):
            return anchor_player(name, self._game, games_at_once=games, threads=self._threads, seed=seed,
                                 should_stop=self._should_stop)
        weights = load_weights(self._path(version_of(name)))
        return self._version(name, load_evaluators(self._config, self._game, weights, games, self._threads), seed)

    def _opponents(self, newest: int, kept: list[int]) -> list[str]:
        """Each one once: the previous version, the third last, the best, and anchors."""
        earlier = [version for version in kept if version < newest]
        versions = [*earlier[-1:], *([earlier[-KEPT]] if len(earlier) >= KEPT else []), *self._best(earlier)]
        names = [version_name(version) for version in dict.fromkeys(versions)]
        met = {meeting.second for meeting in self._meetings if meeting.first == version_name(newest)}
        return [name for name in (*names, *self._anchors(names[0] if names else "")) if name not in met]

    def _anchors(self, previous: str) -> list[str]:
        """The strongest anchor that the previous version has passed, and the next one."""
        anchors, ratings = self._config.rater.anchors, self._ratings
        like = ratings.find(previous) if ratings else None
        if ratings is None or like is None:
            return anchors[:2]
        passed = 0
        for number, name in enumerate(anchors):
            anchor = ratings.find(name)
            if anchor is not None and anchor.elo <= like.elo:
                passed = number
        return anchors[passed:passed + 2]

    def _best(self, versions: list[int]) -> list[int]:
        """The version with the highest rating among these."""
        ratings = self._ratings
        rated = [(player.elo, version) for version in versions
                 if ratings and (player := ratings.find(version_name(version)))]
        return [max(rated)[1]] if rated else []

    def _kept_versions(self) -> list[int]:
        """Whose weights are in the folder, oldest first."""
        return sorted(version for path in (self._directory / RATED).glob("version_*.safetensors")
                      if (version := version_of(path.stem.replace("_", " "))))

    def _keep(self, weights: Weights) -> None:
        """Saves the weights, and removes those that no later version is to meet."""
        (self._directory / RATED).mkdir(exist_ok=True)
        save_weights(self._path(weights.version), weights)
        kept = self._kept_versions()
        needed = {*kept[-KEPT:], *self._best(kept)}
        for version in kept:
            if version not in needed:
                self._path(version).unlink(missing_ok=True)

    def _path(self, version: int) -> Path:
        return self._directory / RATED / f"version_{version}.safetensors"


def _seed(run_seed: int, first: str, second: str) -> int:
    """Openings that no other two players get, the same after a restart."""
    digest = hashlib.sha256(f"{run_seed} {first} {second}".encode()).digest()
    return int.from_bytes(digest[:6], "little")
