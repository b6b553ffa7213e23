"""Who chooses moves in a match: a search of many games side by side, or a random mover (engines: engine_player.py).

Players are told of games, not of positions, for an engine has to be told the moves that led to one.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from shusaku.actors.arena.strength import Stopped, strength_search
from shusaku.common._core import Game, Position, SearchBatch
from shusaku.common.config.search import SearchConfig
from shusaku.common.search import Evaluate, search_options, step

PASS = "pass"  # as a move, in every game that has it
ShouldStop = Callable[[], bool]


@dataclass(slots=True, eq=False)
class OpenGame:
    """A game under way; games 2k and 2k + 1 are a pair with one opening, in which the players swap sides."""

    number: int
    position: Position
    actions: list[int] = field(default_factory=list)
    moves: list[tuple[int, str]] = field(default_factory=list)  # who made it (0 moves first), and its text

    def play(self, action: int) -> None:
        """ValueError, and nothing changed, when it is illegal."""
        mover, text = self.position.to_play, self.position.to_move(action)
        self.position.play(action)
        self.actions.append(action)
        self.moves.append((mover, text))


@dataclass(frozen=True, slots=True)
class Forfeit:
    """Instead of a move: the game is lost, and why."""

    reason: str  # `resignation`, or a kind of fault of actors.opponents.process
    message: str


class Player(Protocol):
    """One of two who meet; the arena calls it from one thread."""

    @property
    def name(self) -> str: ...  # what a table shows

    def choose(self, games: Sequence[OpenGame]) -> Sequence[int | Forfeit]:
        """An action for each game, in all of which it is this player's turn; raises Stopped when told to stop."""
        ...

    def end(self, game: OpenGame) -> None:
        """The game is over: what was kept for it may go."""
        ...

    def close(self) -> None:
        """The match is over."""
        ...


class SearchPlayer:
    """Searches for strength: no noise, temperature 0, no Gumbel draw, no symmetries.

    Every evaluator, all of the same weights, gets a thread and its share of the games.  A game's searches depend on
    (seed, number of the game, ply), not on the games beside it but for the last bits of a network's batches (and with
    `search.leaves` for what the cache knows).
    """

    def __init__(
        self,
        name: str,
        game: Game,
        search: SearchConfig,
        evaluators: Sequence[Evaluate],
        *,
        games_at_once: int,
        seed: int,
        should_stop: ShouldStop = lambda: False,
    ) -> None:
        self.name = name
        self._evaluators, self._seed, self._should_stop = evaluators, seed, should_stop
        options = search_options(strength_search(search, search.simulations), symmetries=False)
        share = -(-games_at_once // len(evaluators))
        self._searches = [SearchBatch(game, options, share, seed) for _ in evaluators]
        self._pool = ThreadPoolExecutor(len(evaluators), "search")

    def choose(self, games: Sequence[OpenGame]) -> list[int]:
        threads = min(len(self._evaluators), len(games))
        parts = list(self._pool.map(lambda thread: self._search(thread, games[thread::threads]), range(threads)))
        return [parts[row % threads][row // threads] for row in range(len(games))]

    def end(self, game: OpenGame) -> None:
        pass

    def close(self) -> None:
        self._pool.shutdown()

    def _search(self, thread: int, games: Sequence[OpenGame]) -> list[int]:
        searches = self._searches[thread]
        for slot, game in enumerate(games):
            searches.begin(slot, game.position, _search_seed(self._seed, game))
        while not searches.is_done():
            if self._should_stop():
                raise Stopped("the match was stopped during a search")
            step(searches, self._evaluators[thread])
        return [searches.result(slot).action for slot in range(len(games))]


class RandomPlayer:
    """Plays every legal action with the same probability."""

    def __init__(self, name: str = "random mover", *, seed: int) -> None:
        self.name = name
        self._seed = seed

    def choose(self, games: Sequence[OpenGame]) -> list[int]:
        return [self._draw(game) for game in games]

    def end(self, game: OpenGame) -> None:
        pass

    def close(self) -> None:
        pass

    def _draw(self, game: OpenGame) -> int:
        random = np.random.default_rng(_search_seed(self._seed, game))
        return int(random.choice(game.position.legal_actions))


def _search_seed(seed: int, game: OpenGame) -> int:
    """64 bits for (seed, game, ply); different for every game of fewer than 65,536 plies."""
    return (seed * 0x9E3779B97F4A7C15 + (game.number << 16) + len(game.actions)) % 2**64
