"""A match of two players: pairs of games from random openings with swapped sides, many at once, and its result."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shusaku.actors.arena.elo import EloEstimate, estimate_elo
from shusaku.actors.arena.players import PASS, Forfeit, OpenGame, Player, ShouldStop
from shusaku.actors.arena.strength import StoppedError
from shusaku.common._core import Game
from shusaku.common.errors import UsageError

MAX_SAMPLES = 200  # for one opening, each of which ended the game or was used before


@dataclass(frozen=True, slots=True)
class FinishedGame:
    """One game of a match."""

    number: int
    side: int  # of the first player: 0 when it moved first
    points: float  # of the first player: 1, 0.5, 0
    moves: tuple[str, ...]
    actions: tuple[int, ...]
    ended_by: str  # rules | ply_limit | resignation | a kind of fault
    loser: int | None = None  # 0 the first player, 1 the second one, if it forfeited
    message: str = ""  # the details of a fault

    def to_json(self) -> dict[str, Any]:
        """One line of `match.file`."""
        return {"game": self.number, "first_moves_first": self.side == 0, "points": self.points,
                "ended_by": self.ended_by, "message": self.message, "moves": list(self.moves)}


@dataclass(frozen=True, slots=True)
class Tally:
    """Games by their results, for the first player."""

    wins: int
    draws: int
    losses: int

    @property
    def games(self) -> int:
        """All games."""
        return self.wins + self.draws + self.losses

    @property
    def score(self) -> float:
        """Share of the points; NaN without a game."""
        return (self.wins + self.draws / 2) / self.games if self.games else float("nan")


@dataclass(slots=True)
class MatchResult:
    """The games of a match; grows while the arena plays."""

    games: list[FinishedGame] = field(default_factory=list)  # in the order in which they ended

    def tally(self, side: int | None = None) -> Tally:
        """The tally of all games, or of those in which the first player had this side (0 moves first)."""
        counts = Counter(game.points for game in self.games if side is None or game.side == side)
        return Tally(counts[1.0], counts[0.5], counts[0.0])

    def elo(self) -> EloEstimate:
        """The first player's advantage in Elo with its 95 % interval; ValueError before the first game."""
        return estimate_elo(list(self.new_pairs(self.pairs()).values()))

    def pairs(self) -> dict[int, list[float]]:
        """The first player's points in the games of each opening that have ended, by the number of the opening."""
        pairs: dict[int, list[float]] = {}
        for game in self.games:
            pairs.setdefault(game.number // 2, []).append(game.points)
        return pairs

    def whole_pairs(self) -> dict[int, list[float]]:
        """Those before the first open pair: games that end early are short ones, and often of one result."""
        pairs = self.pairs()
        numbers = itertools.takewhile(lambda number: len(pairs.get(number, ())) == 2, itertools.count())
        return {number: pairs[number] for number in numbers}

    def new_pairs(self, pairs: Mapping[int, list[float]]) -> dict[int, list[float]]:
        """Those of these pairs that repeat no earlier one move for move: a repeated game is no second sample."""
        played: dict[int, dict[int, tuple[int, ...]]] = {}
        for game in self.games:
            played.setdefault(game.number // 2, {})[game.side] = game.actions
        seen: dict[tuple[Any, ...], int] = {}
        for number in sorted(pairs):
            seen.setdefault(tuple(sorted(played[number].items())), number)
        return {number: pairs[number] for number in seen.values()}

    def pair_outcomes(self) -> list[int]:
        """How many whole pairs, each counted once, brought the first player 0, 1/2, 1, 3/2 and 2 points."""
        counts = [0] * 5
        for points in self.new_pairs(self.whole_pairs()).values():
            counts[round(2 * sum(points))] += 1
        return counts

    def forfeits(self, player: int) -> dict[str, int]:
        """The forfeits of this player (0 the first, 1 the second): reason -> how often."""
        return dict(Counter(game.ended_by for game in self.games if game.loser == player))

    @property
    def mean_plies(self) -> float:
        """The mean number of plies of a game."""
        return sum(len(game.actions) for game in self.games) / len(self.games)

    @property
    def distinct(self) -> int:
        """Games that no other one repeats move for move, each counted once."""
        return len({game.actions for game in self.games})


class Arena:
    """Plays a match.  The same players and seed give the same games."""

    def __init__(
        self, game: Game, players: tuple[Player, Player], *, games: int, opening_plies: int, seed: int,
        games_at_once: int, openings_key: str = "match.opening_plies", should_stop: ShouldStop = lambda: False,
        on_progress: Callable[[MatchResult], None] = lambda result: None,
        on_game: Callable[[FinishedGame], None] = lambda game: None,
        is_decided: Callable[[MatchResult], bool] = lambda result: False,
    ) -> None:
        """`is_decided`: whether the games so far are enough; `openings_key`: the setting behind `opening_plies`.

        UsageError for an odd number of games, and where every opening of so many plies ends the game.
        """
        if games < 2 or games % 2:
            raise UsageError(f"games={games}: must be an even number from 2 on, because every opening is played twice, "
                             "with sides swapped")
        self._game, self._players = game, players
        self._games_at_once = games_at_once
        self._should_stop, self._on_progress, self._on_game = should_stop, on_progress, on_game
        self._is_decided = is_decided
        self._openings = list(itertools.islice(openings(game, opening_plies, seed, openings_key), games // 2))
        self._waiting = (OpenGame(number, game.start()) for number in range(games))
        self._running: list[OpenGame] = []
        self.result = MatchResult()

    def play(self) -> MatchResult:
        """All games, or those that ended before `should_stop()` became true or the match was decided."""
        with suppress(StoppedError):
            while not self._should_stop() and self.step():
                pass
        return self.result

    def step(self) -> bool:
        """A move of each player in every open game; False when the match is over.  StoppedError as of its players."""
        for game in itertools.islice(self._waiting, self._games_at_once - len(self._running)):
            for action in self._openings[game.number // 2]:
                game.play(action)
            self._running.append(game)
        if not self._running or self._is_decided(self.result):
            return False
        for player in (0, 1):
            self._running = self._move(player, self._running)
            self._on_progress(self.result)
        return True

    def _move(self, player: int, games: list[OpenGame]) -> list[OpenGame]:
        """One move in every game where it is this player's turn; the games that go on."""
        turn = [game for game in games if _player_to_move(game) == player]
        if not turn:
            return games
        over = set()
        for game, choice in zip(turn, self._players[player].choose(turn), strict=True):
            if isinstance(choice, Forfeit):
                self._finish(game, choice, player)
                over.add(game.number)
            else:
                game.play(choice)
                if game.position.is_terminal:
                    self._finish(game)
                    over.add(game.number)
        return [game for game in games if game.number not in over]

    def _finish(self, game: OpenGame, forfeit: Forfeit | None = None, loser: int | None = None) -> None:
        side, position = game.number % 2, game.position
        if forfeit is not None:
            points, ended_by = float(loser == 1), forfeit.reason
        else:
            outcome = position.outcome if position.to_play == side else -position.outcome
            points, ended_by = (outcome + 1) / 2, "ply_limit" if position.is_cut_off else "rules"
        finished = FinishedGame(
            game.number, side, points, tuple(text for _, text in game.moves), tuple(game.actions), ended_by, loser,
            forfeit.message if forfeit else "",
        )
        self.result.games.append(finished)
        for player in self._players:
            player.end(game)
        self._on_game(finished)


def openings(game: Game, plies: int, seed: int, key: str = "match.opening_plies") -> Iterator[Sequence[int]]:
    """Random legal actions, passes left out; each a new position as long as one is found within MAX_SAMPLES.

    UsageError, which names the setting `key`, where none is found that leaves the game open.
    """
    random = np.random.default_rng(seed)
    seen: set[int] = set()
    while True:
        opening: list[int] | None = None
        for _ in range(MAX_SAMPLES):
            sampled = _sample_opening(game, plies, random)
            if sampled is None:
                continue
            opening, reached = sampled
            if reached not in seen:
                seen.add(reached)
                break
        if opening is None:
            raise UsageError(f"{key}={plies}: {game.name} was over within them in {MAX_SAMPLES} tries; "
                             "ask for fewer")
        yield opening


def _sample_opening(game: Game, plies: int, random: np.random.Generator) -> tuple[list[int], int] | None:
    """The actions and the key of the position; None if the game ended."""
    position = game.start()
    actions: list[int] = []
    for _ in range(plies):
        legal = position.legal_actions
        if not legal:
            return None
        actions.append(int(random.choice([a for a in legal if position.to_move(a) != PASS] or legal)))
        position.play(actions[-1])
    return None if position.is_terminal else (actions, position.evaluation_key)


def _player_to_move(game: OpenGame) -> int:
    """0 the first player, 1 the second one."""
    return game.position.to_play ^ (game.number % 2)
