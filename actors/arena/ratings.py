"""Elo ratings of many players from all their games, with 95 % intervals of the differences to one of them, the anchor.

Bradley and Terry's model (1952, "Rank analysis of incomplete block designs"): a player's share of the points against
another one is 1 / (1 + 10^(-d / 400)), d the difference of their ratings; a draw counts half.

A weak prior keeps one-sided results finite: each rating is normal around the mean of all, with a standard deviation of
PRIOR_ELO.  It pulls a player that stands 1,000 Elo from the mean by 0.17 points in all its games together.

The interval is that of the profile likelihood (Venzon and Moolgavkar 1988, "A method for computing profile-likelihood
-based confidence intervals"), which is lopsided where nearly everything was won.  Games from one opening are one sample
(see `elo`): the drop of the likelihood is scaled by the ratio of the sandwich variance, which takes what the openings
show, to that of independent won or lost games (Chandler and Bate 2007, "Inference for clustered data using the
independence loglikelihood").  Each end of such an interval takes many solutions of equations of all players, so with
many players only the newest have it; the others have the normal one, of the same variance, from one inverse matrix.

Letters of the shapes: B tournaments between the same players, N players, P pairings.  Inside, ratings are natural
logarithms of odds: 400 / ln 10 Elo are 1.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from shusaku.actors.arena.elo import Z_95

ELO = 400 / log(10)  # of a rating of 1
PRIOR_ELO = 1000.0  # standard deviation of the ratings before any game
PRIOR_VARIANCE = 1.0  # of the points of a pairing, that of 4 even games, added to what its openings show
MAX_STEP = 1.0  # of a rating in one iteration of Newton's method
MAX_ITERATIONS = 200
TOLERANCE = 1e-6  # of a rating: where Newton's method stops
CHUNK_NUMBERS = 1 << 21  # of the matrices of those intervals that are computed at once
MANY_PLAYERS = 64  # from which on only the newest have lopsided intervals
NEWEST = 8  # players, the last ones to appear in the games

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PlayedPair:
    """The games of two players from one opening; two with sides swapped, or one if the other is missing."""

    first: str
    second: str
    points: tuple[float, ...]  # of the first player: 1, 0.5 or 0 a game


@dataclass(frozen=True, slots=True)
class RatedPlayer:
    """One row of the table."""

    name: str
    elo: float  # the difference to the anchor, with its 95 % interval; all 0 for the anchor itself
    low: float
    high: float
    games: int
    score: float  # share of the points


@dataclass(frozen=True, slots=True)
class Ratings:
    """All players that are connected with the anchor by games, the strongest first, and those that are not."""

    anchor: str
    players: tuple[RatedPlayer, ...]
    unconnected: tuple[tuple[str, ...], ...]  # groups of players without a game against the others; they have no rating

    def find(self, name: str) -> RatedPlayer | None:
        """The row of this player; None if it has no rating."""
        return next((player for player in self.players if player.name == name), None)


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """The games of B tournaments as sums over the openings of each pairing: all that the estimate needs."""

    first: NDArray[np.intp]  # [P] player; no pairing is listed twice
    second: NDArray[np.intp]  # [P]
    games: Array  # [B, P]
    points: Array  # [B, P] of the first player
    games_squared: Array  # [B, P] sum over the openings of the squared number of their games
    games_points: Array  # [B, P] of games times points
    points_squared: Array  # [B, P] of squared points

    @classmethod
    def of_pairs(cls, pairs: Iterable[PlayedPair], players: Sequence[str]) -> "Results":
        """One tournament; every player of the pairs is among `players`."""
        number = {name: index for index, name in enumerate(players)}
        sums: dict[tuple[int, int], Array] = {}
        for pair in pairs:
            first, second, games, points = number[pair.first], number[pair.second], len(pair.points), sum(pair.points)
            if first > second:
                first, second, points = second, first, games - points
            row = np.array([games, points, games**2, games * points, points**2], np.float64)
            sums[first, second] = sums.get((first, second), np.zeros(5)) + row
        pairings = np.array(list(sums), np.intp).reshape(-1, 2)
        columns = np.array(list(sums.values()), np.float64).reshape(-1, 5).T[:, None, :]  # [5, 1, P]
        return cls(pairings[:, 0], pairings[:, 1], *columns)


def rate(pairs: Iterable[PlayedPair], anchor: str) -> Ratings:
    """The ratings that the games of these pairs give; the anchor has 0.  ValueError if it has played no game."""
    pairs = [pair for pair in pairs if pair.points]
    names = list(dict.fromkeys(name for pair in pairs for name in (pair.first, pair.second)))
    if anchor not in names:
        raise ValueError(f"{anchor} has played no game, so nothing can be rated against it")
    connected, *others = sorted(_components(pairs, names), key=lambda group: anchor not in group)
    pairs = [pair for pair in pairs if pair.first in connected]
    estimate = Estimate(Results.of_pairs(pairs, connected), len(connected))
    at = connected.index(anchor)
    newest = [connected.index(name) for name in names if name in set(connected)][-NEWEST:]
    low, high = estimate.intervals(at, newest if len(connected) > MANY_PLAYERS else None)
    elo = estimate.ratings[0] - estimate.ratings[0, at]
    games, points = estimate.totals()
    players = [
        RatedPlayer(name, float(elo[i]) + 0.0, float(low[0, i]), float(high[0, i]), int(games[0, i]),
                    float(points[0, i] / games[0, i]))
        for i, name in enumerate(connected)
    ]
    players.sort(key=lambda player: -player.elo)
    return Ratings(anchor, tuple(players), tuple(tuple(sorted(group)) for group in others))


def _components(pairs: Sequence[PlayedPair], names: Sequence[str]) -> list[list[str]]:
    """Groups of players that are connected by games."""
    neighbours: dict[str, list[str]] = {name: [] for name in names}
    for pair in pairs:
        neighbours[pair.first].append(pair.second)
        neighbours[pair.second].append(pair.first)
    groups, seen = [], set[str]()
    for name in names:
        waiting, group = [name], []
        while waiting:
            player = waiting.pop()
            if player not in seen:
                seen.add(player)
                group.append(player)
                waiting += neighbours[player]
        if group:
            groups.append(group)
    return groups


class Estimate:
    """The ratings of N players in B tournaments, whose games connect them all."""

    def __init__(self, results: Results, players: int, prior_elo: float = PRIOR_ELO) -> None:
        self._results, self._players = results, players
        self._precision = (ELO / prior_elo) ** 2  # of the prior
        rows = np.arange(len(results.first))
        self._design = np.zeros((len(rows), players))  # [P, N] 1 for the first player of the pairing, -1 for the second
        self._design[rows, results.first], self._design[rows, results.second] = 1.0, -1.0
        self._modes = self._maximum()  # [B, N]

    @property
    def ratings(self) -> Array:  # [B, N]
        """In Elo; their mean is 0."""
        return self._modes * ELO

    def totals(self) -> tuple[Array, Array]:
        """Games and points of each player: [B, N] each."""
        results, is_first = self._results, np.maximum(self._design, 0)
        games = results.games @ np.abs(self._design)
        return games, results.points @ is_first + (results.games - results.points) @ (is_first - self._design)

    def intervals(self, anchor: int, lopsided: Sequence[int] | None = None) -> tuple[Array, Array]:
        """Lowest and highest difference to the anchor within 95 %, in Elo: [B, N] each; 0 for the anchor itself.

        `lopsided`: the players with intervals of the profile likelihood, if that is not all of them.
        """
        tournaments = len(self._modes)
        others = [player for player in (range(self._players) if lopsided is None else lopsided) if player != anchor]
        ends = np.zeros((2, tournaments, self._players)) if lopsided is None else self._normal_ends(anchor)
        chunk = max(1, CHUNK_NUMBERS // (tournaments * self._players**2))
        for begin in range(0, len(others), chunk):
            some = others[begin:begin + chunk]
            # Each end of each tournament is a problem of its own.
            which = np.repeat(np.arange(tournaments), len(some))  # [B * some]
            contrasts = np.zeros((len(which), self._players))
            contrasts[np.arange(len(which)), np.tile(some, tournaments)] = 1.0
            contrasts[:, anchor] = -1.0
            for end, sign in enumerate((-1.0, 1.0)):
                found = self._end(which, contrasts, sign)
                ends[end][:, some] = found.reshape(tournaments, len(some))
        return ends[0] * ELO, ends[1] * ELO

    def _normal_ends(self, anchor: int) -> Array:  # [2, B, N]
        """Both ends of normal intervals: the inverse curvature, with the dispersion that the openings show."""
        ends = np.zeros((2, len(self._modes), self._players))
        rows = max(1, CHUNK_NUMBERS // len(self._design))
        for tournament, mode in enumerate(self._modes):
            [curvature] = self._curvature(mode[None], np.array([tournament]))
            inverse = np.linalg.inv(curvature)
            directions = inverse - inverse[anchor]  # [N, N] of each player's contrast with the anchor
            directions[anchor] = 1.0  # it has none, and an interval of 0
            variances = np.diagonal(directions) - directions[:, anchor]
            for begin in range(0, self._players, rows):
                some = directions[begin:begin + rows]
                which = np.full(len(some), tournament)
                part = slice(begin, begin + rows)
                spread = Z_95 * np.sqrt(self._dispersion(which, self._modes[which], some) * variances[part])
                middle = mode[part] - mode[anchor]
                ends[:, tournament, part] = middle - spread, middle + spread
            ends[:, tournament, anchor] = 0.0
        return ends

    def _maximum(self) -> Array:
        """The ratings of highest posterior probability, by Newton's method."""
        theta = np.zeros((len(self._results.games), self._players))
        everything = np.arange(len(theta))
        for _ in range(MAX_ITERATIONS):
            step = _limited(_solve(self._curvature(theta, everything), self._gradient(theta, everything)))
            theta += step
            if np.abs(step).max(initial=0.0) < TOLERANCE:
                break
        return theta

    def _end(self, which: NDArray[np.intp], contrasts: Array, sign: float) -> Array:
        """The smallest or largest value of each contrast at which the likelihood has fallen as far as 95 % allow.

        A maximum on the line of a fixed contrast has its gradient along the contrast, so two equations are solved at
        once: gradient + pull * contrast = 0, and 2 * fall = allowed.
        """
        modes = self._modes[which]
        highest = self._log_posterior(modes, which)
        direction = _solve(self._curvature(modes, which), contrasts)
        allowed = Z_95**2 * self._dispersion(which, modes, direction)
        theta, going = modes.copy(), np.arange(len(which))
        for _ in range(MAX_ITERATIONS):
            now, where, contrast = theta[going], which[going], contrasts[going]
            gradient = self._gradient(now, where)
            both = np.stack([gradient, contrast], -1)  # [ends, N, 2]
            natural, direction = np.moveaxis(np.linalg.solve(self._curvature(now, where), both), -1, 0)
            # Below 0: too near to the maximum.
            missing = 2 * (highest[going] - self._log_posterior(now, where)) - allowed[going]
            squared = (np.sum(gradient * natural, 1) - missing) / np.sum(contrast * direction, 1)
            pull = sign * np.sqrt(np.maximum(squared, 0.0))
            step = _limited(natural + pull[:, None] * direction)
            theta[going] += step
            going = going[np.abs(step).max(axis=1) >= TOLERANCE]
            if not len(going):
                break
        return np.asarray(np.sum(theta * contrasts, 1))

    def _dispersion(self, which: NDArray[np.intp], theta: Array, direction: Array) -> Array:
        """The sandwich variance of each contrast over that of independent won or lost games; the prior counts as it is.

        `direction`: the inverse curvature times the contrast.
        """
        results = self._results
        share = _share(theta @ self._design.T)
        games, variance = results.games[which], share * (1 - share) * results.games[which]
        found = (results.points_squared[which] - 2 * share * results.games_points[which]
                 + share**2 * results.games_squared[which])
        ratio = np.where(games > 0, (found + PRIOR_VARIANCE) / (variance + PRIOR_VARIANCE), 1.0)
        parts = variance * (direction @ self._design.T) ** 2
        prior = self._precision * np.sum(direction**2, 1)
        return np.asarray((np.sum(ratio * parts, 1) + prior) / (np.sum(parts, 1) + prior))

    def _log_posterior(self, theta: Array, which: NDArray[np.intp]) -> Array:
        differences = theta @ self._design.T
        points, games = self._results.points[which], self._results.games[which]
        likelihood = points * differences - games * np.logaddexp(0.0, differences)
        return np.asarray(np.sum(likelihood, 1) - self._precision / 2 * np.sum(theta**2, 1))

    def _gradient(self, theta: Array, which: NDArray[np.intp]) -> Array:
        residuals = self._results.points[which] - self._results.games[which] * _share(theta @ self._design.T)
        return np.asarray(residuals @ self._design - self._precision * theta)

    def _curvature(self, theta: Array, which: NDArray[np.intp]) -> Array:  # [B, N, N]
        """The negative second derivative of the logarithm of the posterior probability."""
        share = _share(theta @ self._design.T)
        weights = self._results.games[which] * share * (1 - share)
        first, second = self._results.first, self._results.second
        matrix = np.zeros((len(theta), self._players, self._players))
        matrix[:, first, second] = matrix[:, second, first] = -weights
        diagonal = np.arange(self._players)
        matrix[:, diagonal, diagonal] = weights @ np.abs(self._design) + self._precision
        return matrix


def _share(differences: Array) -> Array:
    """The expected share of the points; tanh never overflows."""
    return np.asarray(0.5 + 0.5 * np.tanh(differences / 2))


def _solve(matrices: Array, vectors: Array) -> Array:
    return np.asarray(np.linalg.solve(matrices, vectors[..., None])[..., 0])


def _limited(steps: Array) -> Array:
    """The steps, each scaled so that no rating moves by more than MAX_STEP."""
    largest = np.abs(steps).max(axis=1, keepdims=True)
    return np.asarray(steps * np.minimum(1.0, MAX_STEP / np.maximum(largest, MAX_STEP)))
