"""The players of a match: a search of many parallel games, or a random mover (engines: `actors.opponents.player`).

Players get games, not positions, because an engine needs the moves that led to a position.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from shusaku.actors.arena.strength import StoppedError, strength_search
from shusaku.common._core import Game, Position, SearchBatch
from shusaku.common.config.search import SearchConfig
from shusaku.common.search import Evaluate, search_options, step

PASS = "pass"  # as a move, in every game that has it
ShouldStop = Callable[[], bool]


@dataclass(slots=True, eq=False)
class OpenGame:
    """A running game; games 2k and 2k + 1 are a pair with one opening, in which the players swap sides."""

    number: int
    position: Position
    actions: list[int] = field(default_factory=list)
    moves: list[tuple[int, str]] = field(default_factory=list)  # player (0 moves first) and text

    def play(self, action: int) -> None:
        """Plays the action; ValueError, and nothing changed, if it is illegal."""
        mover, text = self.position.to_play, self.position.to_move(action)
        self.position.play(action)
        self.actions.append(action)
        self.moves.append((mover, text))


@dataclass(frozen=True, slots=True)
class Forfeit:
    """Instead of a move: the game is lost, for this reason."""

    reason: str  # `resignation`, or a kind of fault of actors.opponents.process
    message: str


class OwnPositions:
    """Plays the actions of open games again under a player's own Game: the same rules, other planes for its network."""

    def __init__(self, game: Game) -> None:
        self._game = game
        self._positions: dict[int, tuple[Position, int]] = {}  # number of the game -> position, actions played

    def position(self, game: OpenGame) -> Position:
        """The position of this game, which the next call plays on."""
        position, played = self._positions.get(game.number) or (self._game.start(), 0)
        for action in game.actions[played:]:
            position.play(action)
        self._positions[game.number] = position, len(game.actions)
        return position

    def end(self, game: OpenGame) -> None:
        """Forgets the game."""
        self._positions.pop(game.number, None)


class Player(Protocol):
    """One of the two players of a match; the arena calls it from one thread."""

    @property
    def name(self) -> str:
        """The name in tables."""

    def choose(self, games: Sequence[OpenGame]) -> Sequence[int | Forfeit]:
        """An action for each game, in all of which it is this player's turn; StoppedError if the match is stopped."""

    def end(self, game: OpenGame) -> None:
        """Releases what was kept for a game that is over."""

    def close(self) -> None:
        """Releases everything after the match."""


class SearchPlayer:
    """Searches for strength: no noise, temperature 0, no Gumbel noise, no symmetries.

    Every evaluator, all of the same weights, gets a thread and its share of the games.  A game's searches depend on
    (seed, number of the game, ply) and not on the other games, except for the last bits of a network's batches (and
    with `search.leaves` for the content of the cache).
    """

    def __init__(
        self, name: str, game: Game, search: SearchConfig, evaluators: Sequence[Evaluate], *,
        games_at_once: int, seed: int, should_stop: ShouldStop = lambda: False,
    ) -> None:
        self.name = name
        self._evaluators, self._seed, self._should_stop = evaluators, seed, should_stop
        self._positions = OwnPositions(game)
        options = search_options(strength_search(search, search.simulations), symmetries=False)
        share = -(-games_at_once // len(evaluators))
        self._searches = [SearchBatch(game, options, share, seed) for _ in evaluators]
        self._pool = ThreadPoolExecutor(len(evaluators), "search")

    def choose(self, games: Sequence[OpenGame]) -> list[int]:
        """Searches all games; StoppedError if the match is stopped."""
        threads = min(len(self._evaluators), len(games))
        positions = [self._positions.position(game) for game in games]
        parts = list(self._pool.map(
            lambda thread: self._search(thread, games[thread::threads], positions[thread::threads]), range(threads)))
        return [parts[row % threads][row // threads] for row in range(len(games))]

    def end(self, game: OpenGame) -> None:
        """Forgets the game's position."""
        self._positions.end(game)

    def close(self) -> None:
        """Ends the threads."""
        self._pool.shutdown()

    def _search(self, thread: int, games: Sequence[OpenGame], positions: Sequence[Position]) -> list[int]:
        searches = self._searches[thread]
        for index, (game, position) in enumerate(zip(games, positions, strict=True)):
            searches.begin(index, position, _search_seed(self._seed, game))
        while not searches.is_done():
            if self._should_stop():
                raise StoppedError("the match was stopped during a search")
            step(searches, self._evaluators[thread])
        return [searches.result(index).action for index in range(len(games))]


class RandomPlayer:
    """Plays every legal action with the same probability."""

    def __init__(self, name: str = "random mover", *, seed: int) -> None:
        self.name, self._seed = name, seed

    def choose(self, games: Sequence[OpenGame]) -> list[int]:
        """A random legal action for each game, the same for the same seed, game and ply."""
        seeds = [_search_seed(self._seed, game) for game in games]
        return [int(np.random.default_rng(seed).choice(game.position.legal_actions))
                for seed, game in zip(seeds, games, strict=True)]

    def end(self, game: OpenGame) -> None:
        """Keeps nothing of a game."""

    def close(self) -> None:
        """Holds no resources."""


def _search_seed(seed: int, game: OpenGame) -> int:
    """64 bits for (seed, game, ply); different for every game of fewer than 65,536 plies."""
    return (seed * 0x9E3779B97F4A7C15 + (game.number << 16) + len(game.actions)) % 2**64
