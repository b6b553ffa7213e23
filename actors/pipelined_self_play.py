"""Self-play of one actor in groups: while the leaves of one group are evaluated, another searches."""

from collections import Counter, deque

import numpy as np

from shusaku.actors.evaluators.evaluator import SplitEvaluate
from shusaku.actors.inference.protocol import MAX_IN_FLIGHT
from shusaku.actors.self_play import ActorIdentity, SelfPlay
from shusaku.common._core import Game
from shusaku.common.config.schema import SelfPlayConfig
from shusaku.common.config.search import SearchConfig
from shusaku.common.messages import GameRecord, OpenGame
from shusaku.common.resignation import NEVER_RESIGN, typical_resign_value
from shusaku.common.stage_timer import StageTimer

FEWEST_GROUPS = 2  # one searches while the other is evaluated
LARGEST_GROUP = 256  # games: a request of a quarter of the largest batch


class PipelinedSelfPlay:
    """Plays a batch of `games` parallel games against itself, as many of them in each group.

    Group g plays exactly the games of `SelfPlay(..., games=group_games(games)[g], seed=group_seed(seed, g))`; all have
    one identity and are numbered in the order in which they are returned.
    """

    def __init__(
        self, game: Game, search: SearchConfig, self_play: SelfPlayConfig, evaluate: SplitEvaluate, *,
        games: int, seed: int, identity: ActorIdentity, config_hash: str = "", timer: StageTimer | None = None,
        resign_value: float = NEVER_RESIGN,
    ) -> None:
        """`evaluate`: for example `actors.inference.client.RemoteEvaluator`; `resign_value`: see `SelfPlay`."""
        self.evaluate = evaluate
        self._timer = timer or StageTimer()
        self.sequence = 0  # of the next finished game
        self.size, sizes = games, group_games(games)
        self._groups = [
            SelfPlay(game, search, self_play, evaluate, games=size, seed=group_seed(seed, group), identity=identity,
                     config_hash=config_hash, timer=self._timer, resign_value=resign_value,
                     first_index=sum(sizes[:group]))
            for group, size in enumerate(sizes)
        ]
        self._next = 0  # group that searches next
        self._in_flight: deque[tuple[SelfPlay, bool]] = deque()  # group, and whether it waits for an answer

    @property
    def resign_value(self) -> float:
        """The median threshold of the groups that have one: a player to move who sees less resigns."""
        return typical_resign_value(group.resign_value for group in self._groups)

    def step(self) -> list[GameRecord]:
        """A group searches, then the oldest request's answers are awaited and backed up; the games that ended there.

        An error of `evaluate.finish()` changes nothing: the next step tries again.
        """
        while len(self._in_flight) < len(self._groups):
            self._begin(self._groups[self._next])
            self._next = (self._next + 1) % len(self._groups)
        group, has_leaves = self._in_flight[0]
        evaluation = self.evaluate.finish() if has_leaves else None
        self._timer.charge("wait")
        self._in_flight.popleft()
        group.sequence = self.sequence
        records = group.end_step(evaluation)
        self.sequence = group.sequence
        return records

    def counters(self) -> dict[str, int]:
        """Totals of all groups: simulations, searches, evaluations, cache_hits, terminals, games, ..."""
        total: Counter[str] = Counter()
        for group in self._groups:
            total.update(group.counters())
        return dict(total)

    def open_games(self) -> list[OpenGame]:
        """See `SelfPlay.open_games`; at any moment between two steps."""
        return [game for group in self._groups for game in group.open_games()]

    def resume(self, index: int, game: OpenGame) -> None:
        """See `SelfPlay.resume`; the indices of the groups follow each other."""
        for group in self._groups:
            if index < group.size:
                group.resume(index, game)
                return
            index -= group.size
        raise ValueError(f"index {index}: there are {self.size} games")

    def _begin(self, group: SelfPlay) -> None:
        leaves = group.begin_step()
        if leaves is not None:
            self.evaluate.begin(leaves)
            self._timer.charge("encode")
        self._in_flight.append((group, leaves is not None))


def group_games(games: int) -> list[int]:
    """How many games each group has: about equally many, the largest first, without an empty group."""
    groups = min(MAX_IN_FLIGHT, max(FEWEST_GROUPS, -(-games // LARGEST_GROUP)))
    return [size for size in ((games + groups - 1 - group) // groups for group in range(groups)) if size]


def group_seed(seed: int, group: int) -> int:
    """64 bits whose streams of games, which the core makes from them by adding, are apart for every group and seed."""
    return int(np.random.SeedSequence([seed, group]).generate_state(1, np.uint64)[0])
