"""Self-play of one actor in two groups: while the answers of one are under way, the other searches."""

from collections import Counter, deque
from typing import Protocol

from shusaku.actors.self_play import ActorIdentity, SelfPlay
from shusaku.common._core import Game
from shusaku.common.config.schema import SearchConfig, SelfPlayConfig
from shusaku.common.messages import Evaluation, GameRecord, Leaves
from shusaku.common.stage_timer import StageTimer

GROUPS = 2


class SplitEvaluate(Protocol):
    """An evaluator in two steps, such as actors.inference.client.RemoteEvaluation: first begun, first finished."""

    @property
    def version(self) -> int: ...

    def __call__(self, leaves: Leaves) -> Evaluation: ...

    def begin(self, leaves: Leaves) -> None: ...  # has done with the arrays when it returns

    def finish(self) -> Evaluation: ...


class PipelinedSelfPlay:
    """Plays `games` games side by side against itself, half of them in each group.

    Group g plays exactly the games of `SelfPlay(..., games=group_games(games)[g], seed=group_seed(seed, g))`; all are
    signed by one identity and numbered in the order in which they are returned.
    """

    def __init__(
        self,
        game: Game,
        search: SearchConfig,
        self_play: SelfPlayConfig,
        evaluate: SplitEvaluate,
        *,
        games: int,
        seed: int,
        identity: ActorIdentity,
        config_hash: str = "",
        timer: StageTimer | None = None,
    ) -> None:
        self.evaluate = evaluate
        self._timer = timer or StageTimer()
        self.sequence = 0  # of the next finished game
        self._groups = [
            SelfPlay(
                game, search, self_play, evaluate, games=size, seed=group_seed(seed, group), identity=identity,
                config_hash=config_hash, timer=self._timer,
            )
            for group, size in enumerate(group_games(games))
        ]
        self._next = 0  # group that searches next
        self._under_way: deque[tuple[SelfPlay, bool]] = deque()  # begun, and whether an answer comes

    def step(self) -> list[GameRecord]:
        """One group searches, then the answers of the other are awaited and backed up; the games that ended there.

        What `evaluate.finish()` raises leaves everything where it stands: the next step goes on.
        """
        while len(self._under_way) < len(self._groups):
            self._begin(self._groups[self._next])
            self._next = (self._next + 1) % len(self._groups)
        group, is_asked = self._under_way[0]
        evaluation = self.evaluate.finish() if is_asked else None
        self._timer.charge("wait")
        self._under_way.popleft()
        group.sequence = self.sequence
        records = group.end_step(evaluation)
        self.sequence = group.sequence
        return records

    def counters(self) -> dict[str, int]:
        """Totals of both groups: simulations, searches, evaluations, cache_hits, terminals, games, ..."""
        total: Counter[str] = Counter()
        for group in self._groups:
            total.update(group.counters())
        return dict(total)

    def _begin(self, group: SelfPlay) -> None:
        leaves = group.begin_step()
        if leaves is not None:
            self.evaluate.begin(leaves)
            self._timer.charge("encode")
        self._under_way.append((group, leaves is not None))


def group_games(games: int) -> list[int]:
    """How many games each group has: half and half, and no empty one."""
    return [size for size in ((games + 1) // GROUPS, games // GROUPS) if size]


def group_seed(seed: int, group: int) -> int:
    """64 bits of which no other group and no neighbouring seed makes the same (Weyl sequence, golden ratio)."""
    return (seed + (group + 1) * 0x9E3779B97F4A7C15) % 2**64
