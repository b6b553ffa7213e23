"""The games of a run in one process: those that are open, those of the unfinished turn, and the record log."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack

from shusaku.actors.open_games import OpenGames
from shusaku.actors.policy_games.paired_games import PairedGames
from shusaku.actors.self_play import SelfPlay
from shusaku.common.codec import decode_record, encode_record
from shusaku.common.messages import GameId, GameRecord
from shusaku.common.open_game_codec import encode_open_game
from shusaku.common.own_files import mark, marked_data
from shusaku.deploy.records.imported_games import ImportedGames
from shusaku.deploy.records.training_records import IMPORT_ACTOR
from shusaku.learner.checkpoints import load_latest
from shusaku.replay.buffer import ReplayBuffer
from shusaku.replay.record_log import LogPosition, RecordLog
from shusaku.replay.stream.open_games import TakenGames
from shusaku.replay.validation import Validation

MAX_WAITING_GAMES = 20_000  # finished ones that the disk does not take


def epoch_of(checkpoints: Path) -> int:
    """The driver term of the newest good checkpoint: 0 unless a cluster has played before."""
    found = load_latest(checkpoints)
    return int(found.checkpoint.facts["local"]["epoch"]) if found else 0


class LocalGames:
    """What a checkpoint of `shusaku local` holds beside the learner; see `learner.training_loop.SelfPlayState`.

    The buffer's `on_accept` appends to `accepted`: the games that wait to be written to the log.
    """

    def __init__(
        self, actors: Sequence[SelfPlay | PairedGames], buffer: ReplayBuffer, log: RecordLog, accepted: list[bytes],
        epoch: int, validation: Validation, imported: ImportedGames, kept_rows: int = 0,
    ) -> None:
        """`epoch`: driver term that signs the games; see `epoch_of`.  `validation`: of open games.

        `kept_rows`: that the log keeps about, even if they have left the window.
        """
        self._kept_rows = kept_rows
        self.log, self._epoch, self._validation = log, epoch, validation
        self._imported = imported
        self.stored = 0  # games, over the life of the run
        self.rows_left: list[int] = []  # of the turn of playing that was stopped, for each actor
        self._actors, self._buffer, self._accepted = actors, buffer, accepted
        self._turn: list[list[GameRecord]] = [[] for _ in actors]  # finished games of the running turn
        self._left: list[int] = []  # next numbers of the games of actors that the run had once: they may come back

    def end_turn(self, played: Sequence[Sequence[GameRecord]], shares: Sequence[int]) -> bool:
        """Takes the games of each actor; once its share of rows is there, all go into the window and the log.

        False if the turn was stopped before; the next one completes it.  OSError if too many games wait for the disk.
        """
        for turn, records in zip(self._turn, played, strict=True):
            turn += records
        left = [max(0, rows - sum(r.num_rows for r in records)) for rows, records in zip(shares, played, strict=True)]
        self.rows_left = left if any(left) else []
        if self.rows_left:
            return False
        self._append_turn()
        return True

    def append_imported(self, rows: int) -> bool:
        """Puts the next imported games into the window, as many as have so many rows; False if there are none left."""
        first = self._imported.taken
        records = self._imported.take(rows)
        for number, record in enumerate(records, start=first):
            self._buffer.append(replace(record, game_id=GameId(self._epoch, IMPORT_ACTOR, 0, number)))
        return bool(records)

    def store(self) -> str:
        """Writes the accepted games to the log; what is wrong with the disk, which costs nothing but time at first."""
        try:
            self.log.append(self._accepted)
        except OSError as error:
            if len(self._accepted) > MAX_WAITING_GAMES:
                raise
            return f"{len(self._accepted):,} games could not be written: {error}; they wait for the next turn"
        self.stored += len(self._accepted)
        self._accepted.clear()
        return ""

    def trim_log(self) -> None:
        """Drops the games that no checkpoint needs; older ones may need a little more than the window of now."""
        stats = self._buffer.stats()
        kept = self._kept_rows * self.stored // max(1, stats.inserted)  # games
        self.log.trim(self.log.segment_holding(max(stats.games * 3 // 2, kept)))

    def save(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """See `SelfPlayState.save`."""
        trouble = self.store()
        if trouble:
            raise OSError(trouble)
        facts = {"epoch": self._epoch, "records": list(self.log.sync()), "games": self.stored,
                 "rows_left": self.rows_left, "sequences": [*(actor.sequence for actor in self._actors), *self._left],
                 "imported": self._imported.taken}
        files = {f"games_{number}": mark(actor.snapshot()) for number, actor in enumerate(self._actors)}
        for number, actor in enumerate(self._actors):  # for actors whose searches or number of games are others
            files[f"open_{number}"] = msgpack.packb(
                [[game.open_id, encode_open_game(game)] for game in actor.open_games()])
        files["turn"] = msgpack.packb([[encode_record(record) for record in records] for records in self._turn])
        return facts, files

    def open_window(self, facts: dict[str, Any] | None) -> Iterable[bytes]:
        """See `SelfPlayState.open_window`."""
        self.log.truncate_to(LogPosition(*facts["records"]) if facts else LogPosition(0, 0))
        return self.log.iterate()

    def restore(self, facts: dict[str, Any], files: dict[str, bytes]) -> list[str]:
        """See `SelfPlayState.restore`."""
        notes = [f"{d.path}, byte {d.offset}: {d.reason}; records behind it are lost" for d in self.log.damage]
        self.stored, self.rows_left = int(facts["games"]), list(facts["rows_left"])
        self._imported.taken = int(facts.get("imported", 0))
        sequences, lost, resumed = facts["sequences"], 0, 0
        self._left = sequences[len(self._actors):]
        for number, actor in enumerate(self._actors):
            try:
                # The core trusts what is inside, so it must be our own: else the games go on without their trees.
                actor.restore(marked_data(files[f"games_{number}"]))
            except (KeyError, ValueError):
                lost += 1
                actor.begin_anew(sequences[number] if number < len(sequences) else 0)
                resumed += self._resume(actor, files.get(f"open_{number}", msgpack.packb([])))
        self._turn = [[decode_record(data) for data in records] for records in msgpack.unpackb(files["turn"])]
        if lost or len(self._actors) != len(self._turn):
            self.rows_left = []  # the turn cannot be completed: its finished games go into the window as they are
            self._append_turn()
            self._turn = [[] for _ in self._actors]
            others = f"; {resumed:,} games go on from their moves, without their trees" if resumed else ""
            notes.append(f"the open games of {lost} actors begin anew, because actors or search changed, or another "
                         f"user saved them{others}")
        return notes

    def _resume(self, actor: SelfPlay | PairedGames, saved: bytes) -> int:
        """Goes on with games without their trees; how many."""
        games = OpenGames(actor, self._validation, seconds=math.inf, take=lambda: TakenGames({}, 0),
                          put=lambda sequence, games: None)
        try:
            games.resume([(str(name), bytes(data)) for name, data in msgpack.unpackb(saved)])
        except (ValueError, TypeError, msgpack.UnpackException):
            return 0  # not what this program writes
        return games.restored

    def _append_turn(self) -> None:
        """In the order of the actors: the window depends on no thread's timing."""
        for records in self._turn:
            for record in records:
                self._buffer.append(record)
            records.clear()
