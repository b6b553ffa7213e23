"""Self-play: a batch of parallel games in C++, whose leaves are evaluated in one call; finished games as records."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgpack
import numpy as np

from shusaku.actors.evaluators.evaluator import Runtime
from shusaku.actors.evaluators.network import NetworkEvaluator
from shusaku.common._core import Game, GameBatch
from shusaku.common.config.schema import SelfPlayConfig, self_play_search
from shusaku.common.config.search import SearchConfig
from shusaku.common.messages import (
    EndedBy,
    Evaluation,
    GameId,
    GameRecord,
    Leaves,
    OpenGame,
    RowKind,
    own_komi,
    with_planes,
)
from shusaku.common.resignation import NEVER_RESIGN
from shusaku.common.search import Evaluate, search_options, self_play_options
from shusaku.common.stage_timer import StageTimer


@dataclass(frozen=True, slots=True)
class ActorIdentity:
    """The actor's part of `common.messages.GameId`."""

    actor: int
    epoch: int = 0
    incarnation: int = 0


class SelfPlay:
    """Plays a batch of `games` parallel games against itself; a finished game is replaced by a new one.

    Game k of game index i depends on the randomness of (seed, i, k) alone, and on game k - 1 of the same index if it
    branches off from that.  With the same evaluations the same games come out, whatever the other games do, whatever
    the cache holds, and wherever the program was stopped and resumed.
    """

    def __init__(
        self, game: Game, search: SearchConfig, self_play: SelfPlayConfig, evaluate: Evaluate, *,
        games: int, seed: int, identity: ActorIdentity, config_hash: str = "", timer: StageTimer | None = None,
        resign_value: float = NEVER_RESIGN, first_index: int = 0,
    ) -> None:
        """`timer`: shared with the evaluator if the evaluator charges its own stages.

        `resign_value`: threshold to begin with, of the run before, until enough games were played to the end;
        `first_index`: of these games among those of the actor.
        """
        self.evaluate = evaluate
        self.timer = timer or StageTimer()
        self._game = game
        self._identity = identity
        self._config_hash = config_hash
        self.sequence = 0  # of the next finished game
        self._options = search_options(self_play_search(search, self_play), symmetries=True)
        self._self_play = self_play_options(self_play)
        self.size, self._seed = games, seed
        self._first_index = first_index
        self._resumed: dict[int, tuple[int, str]] = {}  # index -> number and name of a game that was resumed there
        self._name, self._params = game.name, dict(game.params)
        self._runtime = _attachable(evaluate, games)
        self._batch = self._games(seed, resign_value)

    @property
    def resign_value(self) -> float:
        """A player to move who sees less resigns."""
        return self._batch.resign_value

    @property
    def description(self) -> str:
        """What evaluates, as text for the user."""
        return str(getattr(self.evaluate, "description", ""))

    def step(self) -> list[GameRecord]:
        """One round: selects a leaf in every game and evaluates the leaves in one call; the games that ended."""
        version, runtime = self.evaluate.version, self._runtime
        if runtime is not None and version >= 0:
            return self._step_attached(runtime, version)
        leaves = self.begin_step()
        evaluation = None if leaves is None else self.evaluate(leaves)
        self.timer.charge("network")  # next to nothing if the evaluator shares the timer
        return self.end_step(evaluation)

    def begin_step(self) -> Leaves | None:
        """The first half of a step: selects a leaf in every game.

        None if the cache or the rules had all answers: call `end_step(None)` then.  The arrays are valid until the
        next call.
        """
        leaves = Leaves(*self._batch.select(max(0, self.evaluate.version)))
        self.timer.charge("select")
        return leaves if len(leaves) else None

    def end_step(self, evaluation: Evaluation | None) -> list[GameRecord]:
        """The second half, with the answer to what `begin_step` returned: the games that ended."""
        if evaluation is not None:
            self._batch.expand_and_backup(evaluation.logits, evaluation.values, evaluation.version)
        self.timer.charge("expand")
        return self._take_finished()

    def _step_attached(self, runtime: Runtime, version: int) -> list[GameRecord]:
        """A step without arrays between C++ and Python: Python is slow after a network has emptied the CPU's caches."""
        batch, charge = self._batch, self.timer.charge
        rows = batch.select_attached(version)
        charge("select")
        if rows:
            batch.encode_attached()
            charge("encode")
            runtime.run(rows)
            charge("network")
        finished = batch.expand_attached(version)
        charge("expand")
        return self._take_finished() if finished else []

    def _take_finished(self) -> list[GameRecord]:
        records = []
        for columns in self._batch.take_finished():
            records.append(self._record(columns))
            self.sequence += 1
        self.timer.charge("record")
        return records

    def play(self, rows: int, should_stop: Callable[[], bool] = lambda: False) -> list[GameRecord]:
        """Plays until games with at least `rows` rows have ended, or until `should_stop()`; the games that ended."""
        self.timer.charge("wait")  # while the caller asked for no step
        return play_rows(self.step, rows, should_stop)

    def counters(self) -> dict[str, int]:
        """Totals since this object was made: simulations, searches, evaluations, cache_hits, terminals, games, ..."""
        return self._batch.counters()

    def snapshot(self) -> bytes:
        """The state of every unfinished game, between two steps."""
        packed: bytes = msgpack.packb(
            {"rules": self._rules(), "config_hash": self._config_hash, "sequence": self.sequence, "seed": self._seed,
             "games": self._batch.snapshot()})
        return packed

    def restore(self, snapshot: bytes) -> None:
        """Continues from a snapshot.  ValueError unless it is of the same game, settings and number of games."""
        try:
            state = msgpack.unpackb(snapshot)
            sequence, seed, games = int(state["sequence"]), int(state["seed"]), bytes(state["games"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"the snapshot of the open games cannot be read: {error}") from None
        check_rules(state.get("rules"), self._rules(), "open games")
        if state.get("config_hash", self._config_hash) != self._config_hash:
            raise ValueError("the open games were played with other settings of search or self-play")
        batch = self._games(seed, self.resign_value)
        batch.restore(games)
        self._batch, self._seed, self.sequence = batch, seed, sequence
        self._resumed.clear()

    def open_games(self) -> list[OpenGame]:
        """The games that go on and have had a search, without the search of the position that each has reached."""
        games = []
        for index in range(self.size):
            columns = self._batch.open_game(index)
            if np.any(columns["kind"] != RowKind.OPENING):  # else it has cost nothing yet
                state = {name: columns.pop(name) for name in ("policy_plies", "avoided", "may_resign")}
                record = self._record({**columns, "outcome": 0, "ended_by": EndedBy.PLY_LIMIT})
                games.append(OpenGame(record.open_id, record, **state))
        return games

    def resume(self, index: int, game: OpenGame) -> None:
        """Goes on with this game in place of the one with this index; only before the first step.

        ValueError unless its moves are legal and it is not over.
        """
        record = game.record
        self._batch.resume(index, record, komi=own_komi(record.params, self._params), policy_plies=game.policy_plies,
                           avoided=game.avoided, may_resign=game.may_resign)
        self._resumed[index] = (self._batch.open_game(index)["number"], game.open_id)

    def begin_anew(self, sequence: int) -> None:
        """Starts new games, numbered from `sequence` and with another seed, because the unfinished ones were lost."""
        self.sequence = sequence
        self._seed = (self._seed + sequence + 1) % 2**64
        self._batch = self._games(self._seed, self.resign_value)
        self._resumed.clear()

    def _games(self, seed: int, resign_value: float) -> GameBatch:
        batch = GameBatch(self._game, self._options, self.size, seed, self._self_play)
        batch.begin_with_resign_value(resign_value)
        if self._runtime is not None:
            batch.attach(self._runtime.inputs, self._runtime.policy, self._runtime.values)
        return batch

    def _rules(self) -> list[object]:
        return [self._name, self._params]

    def _record(self, columns: dict[str, Any]) -> GameRecord:
        identity = self._identity
        game_id = GameId(identity.epoch, identity.actor, identity.incarnation, self.sequence)
        open_id = self._open_id(columns.pop("index"), columns.pop("number"))
        params: dict[str, Any] = dict(self._params)
        if "komi" in columns:  # of this game alone
            params["komi"] = columns.pop("komi")
        columns["ended_by"] = EndedBy(str(columns["ended_by"]))
        return GameRecord(
            game=self._name, params=params, game_id=game_id, config_hash=self._config_hash, open_id=open_id,
            **columns,
        )

    def _open_id(self, index: int, number: int) -> str:
        resumed_number, name = self._resumed.get(index, (-1, ""))
        if number == resumed_number:
            return name
        return f"{self._identity.epoch}.{self._identity.incarnation}.{self._first_index + index}.{number}"


def check_rules(saved: Any, ours: list[Any], what: str) -> None:
    """ValueError unless a snapshot is of our game, parameters and whatever follows them in the list."""
    known = saved
    if isinstance(saved, list) and len(saved) > 1 and isinstance(saved[1], dict):
        known = [saved[0], with_planes(saved[1], ours[1]), *saved[2:]]
    if known != ours:
        raise ValueError(f"the {what} were played by other rules: {saved}, not {ours}")


def play_rows(
    step: Callable[[], list[GameRecord]], rows: int, should_stop: Callable[[], bool]
) -> list[GameRecord]:
    """Steps until games with at least `rows` rows have ended, or until `should_stop()`; the games that ended."""
    finished: list[GameRecord] = []
    while rows > 0 and not should_stop():
        records = step()
        finished += records
        rows -= sum(record.num_rows for record in records)
    return finished


def _attachable(evaluate: Evaluate, games: int) -> Runtime | None:
    """The runtime of a plain network evaluator, if its batch holds a leaf of every game."""
    return evaluate.runtime if type(evaluate) is NetworkEvaluator and evaluate.size >= games else None
