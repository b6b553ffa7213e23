"""The replay buffer of a cluster: Redis keeps the games, and the learner samples rows from its own memory.

A thread follows the stream of games, replays and checks each game once, and puts its rows into the ring of a
`RowWindow`; sampling never asks the server.  The learner tells the server after how many rows the actors have to pause.
"""

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Unpack

from shusaku.common._core import Game
from shusaku.common.codec import CodecError, decode_record
from shusaku.common.config.schema import ReplayConfig
from shusaku.common.messages import Control, GameRecord
from shusaku.replay.buffer import Batch, BufferOptions, ReplayStats, Sample
from shusaku.replay.game_queue import make_window
from shusaku.replay.row_window import translate_state_errors
from shusaku.replay.stream.actor_judge import ActorJudge
from shusaku.replay.stream.append import EncodedGame, append
from shusaku.replay.stream.client import ReplayUnavailable, connect, translate_redis_errors
from shusaku.replay.stream.control import RedisControl
from shusaku.replay.stream.keys import RunKeys
from shusaku.replay.stream.share_tail import ShareTail
from shusaku.replay.stream.tail import Entry, Reading, StreamTail
from shusaku.replay.validation import InvalidRecordError, Quarantine

IDLE_SECONDS = 0.05  # between two reads if nothing was new; throttled actors are told to go on as soon
FIRST_BACKOFF, LAST_BACKOFF = 0.1, 2.0  # seconds, while the server does not answer
START = "0-0"  # precedes all ids of the stream


class RedisBuffer:
    """Implements `replay.buffer.ReplayBuffer`: the learner's side, and for tests and tools the actors' side too.

    The driver makes the keys of the run (`RedisControl.begin`); before that, and whenever the server has lost them, the
    window is empty, and both playing and learning wait.  While the server does not answer, sampling continues with the
    rows in memory.

    With a `share` the games of the others are not read; they count by what their senders said.  Only the first one
    tells the server limits and counters; the others begin with the oldest game that the server holds.

    Any thread may call any method.  `append`, `control`, `fence` and `stop` ask the server and raise ReplayUnavailable;
    `sample`, `stats` and `record_version` do not, and a fault of the server raises nothing there.
    """

    def __init__(
        self, game: Game, config: ReplayConfig, *, url: str, run_id: str, epoch: int = 0,
        on_accept: Callable[[bytes], None] | None = None, background: bool = True, deadline: float = 5.0,
        **window: Unpack[BufferOptions],
    ) -> None:
        """See `BufferMaker`.

        The thread starts with `restore`, or with the first `sample` or `stats`.  Without `background` there is no
        thread: each call first reads what is new in the stream.
        """
        self._window = make_window(game, config, **window)
        self._url, self._epoch, self._on_accept = url, epoch, on_accept
        self._keys = RunKeys.of(run_id)
        self._client = connect(url, deadline)
        self._driver = RedisControl(url, run_id, deadline)
        share = self._window.share
        self._tail = StreamTail(url, run_id, deadline) if share.is_whole else ShareTail(url, run_id, deadline, share)
        self._lock = threading.Lock()  # guards the window and the next six
        self._boot = ""  # names the data that the window was read from; empty: none yet
        self._position = START  # id of the newest entry that was read
        self._number = 0  # of the newest game that was read
        self._counted = 0  # rows that the server had counted including that game
        self._total = 0  # the same for the newest game that was read since START
        self._refill_until = 0  # number of the last game that the window had held; 0: the refill is done
        self._skipped = self._losses = self._bad = 0
        self._judge = ActorJudge()
        self._fences: dict[int, int] = {}  # actor -> incarnation below which its games are to be refused
        self._tail_lock = threading.RLock()  # guards reading; taken before `_lock`
        self._newest: Reading | None = None
        self._refused_before: tuple[int, ...] | None = None  # the counts when this buffer was made
        self._trouble, self._troubled_since = "", 0.0
        self._is_background = background
        self._thread: threading.Thread | None = None
        self._wake, self._is_closing = threading.Event(), threading.Event()
        if not background:
            self._try(lambda: self._record_answer(self._read()))

    @property
    def quarantine(self) -> Quarantine:
        """The games that this buffer refused."""
        return self._window.quarantine

    # --- actors ------------------------------------------------------------------------------------------------------

    def append(self, record: GameRecord) -> Control:
        """See `ReplayWriter.append`; the game enters the window when it is read from the stream."""
        try:
            data = self._window.validation.encode(record)
        except InvalidRecordError as error:
            with self._tail_lock:
                self._refuse(None, str(error), b"")
            return self.control()
        epoch, actor, incarnation, sequence = record.game_id
        game = EncodedGame(sequence, record.num_rows, data)
        with translate_redis_errors(self._url):
            reply = append(self._client, self._keys, (epoch, actor, incarnation), [game], b"")
        if self._is_background:
            return reply.control
        self._read_all(raising=True)
        return self.control()

    def control(self) -> Control:
        """See `ReplayWriter.control`."""
        fields = ["stop", "version", "epoch", "actors", "limit"]
        with translate_redis_errors(self._url):
            values: Any = self._client.hmget(self._keys.control, fields)
            inserted: Any = self._client.hget(self._keys.counters, "inserted")
            stop, version, epoch, actors = (int(value or 0) for value in values[:4])
            limit = -1 if values[4] is None else int(values[4])
            return Control(0 <= limit <= int(inserted or 0), bool(stop), version, epoch, actors)

    # --- learner and driver ------------------------------------------------------------------------------------------

    def sample(self, batch_size: int, seed: int) -> Sample | None:
        """See `ReplayReader.sample`."""
        self._catch_up()
        with self._lock:
            was_throttled = self._window.limiter.is_throttled
            batch = self._window.sample(batch_size, seed)
            is_throttled = self._window.limiter.is_throttled
        if was_throttled and not is_throttled:
            self._wake.set()  # the report tells the actors to go on
        if batch is not None and not self._is_background:
            self._catch_up()
        return batch

    def peek(self, count: int, seed: int, *, of_tests: bool) -> Batch | None:
        """See `ReplayReader.peek`."""
        self._catch_up()
        with self._lock:
            return self._window.peek(count, seed, of_tests=of_tests)

    def stats(self) -> ReplayStats:
        """See `ReplayReader.stats`."""
        self._catch_up()
        with self._lock:
            reading, before = self._newest, self._refused_before or (0, 0, 0)
            duplicates, fenced, other_epoch = (
                now - then for now, then in zip(reading.refused if reading else before, before, strict=True)
            )
            trouble, since = self._trouble, self._troubled_since
            waits_for = self._window.limiter.waits_for()
            if trouble and waits_for:
                waits_for = f"{waits_for}; {trouble}"
            return self._window.stats(
                duplicates=duplicates, fenced=fenced, other_epoch=other_epoch, skipped=self._skipped,
                losses=self._losses, trouble=trouble, waits_for=waits_for, fenced_actors=dict(self._judge.fenced),
                unreachable_s=time.monotonic() - since if since else 0.0,
            )

    def record_version(self, version: int) -> None:
        """See `ReplayReader.record_version`."""
        with self._lock:
            self._window.record_version(version)
        self._wake.set()
        if not self._is_background:
            self._catch_up()

    def fence(self, actor: int, incarnation: int) -> None:
        """See `ReplayReader.fence`."""
        self._driver.fence(actor, incarnation)

    def stop(self) -> None:
        """See `ReplayReader.stop`."""
        self._driver.stop_actors()

    def state(self) -> dict[str, Any]:
        """See `ReplayReader.state`."""
        with self._lock:
            own = {"boot": self._boot, "number": self._number, "counted": self._counted}
            return self._window.state() | own

    def restore(self, state: dict[str, Any], records: Iterable[bytes] = ()) -> int:
        """See `ReplayReader.restore`; `records` are ignored, the games are in the stream.

        Games up to the one that the state names are not counted again, later ones are counted as new.  If the server
        does not answer, the window is refilled as soon as it does.
        """
        with translate_state_errors(state):
            boot, number, counted = state["boot"], int(state["number"]), int(state["counted"])
            if not (isinstance(boot, str) and number >= 0 and counted >= 0):
                raise ValueError(f"{number}, {counted}")
        with self._tail_lock:
            with self._lock:
                self._window.restore(state)
                self._boot, self._number, self._counted, self._refill_until = boot, number, counted, number
                if not boot:
                    self._window.end_refill()
            self._bad = 0
            self._read_all(raising=False, until_refilled=True)
            bad = self._bad
        self._catch_up()
        return bad

    def close(self) -> None:
        """Ends the thread; the window can still be sampled from."""
        self._is_closing.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        self._tail.close()
        self._driver.close()
        self._client.connection_pool.disconnect()

    # --- the tail ----------------------------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        """Reads what is new, or starts the thread that does so."""
        if not self._is_background:
            self._read_all(raising=False)
        elif self._thread is None and not self._is_closing.is_set():
            with self._tail_lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="replay-tail", daemon=True)
                    self._thread.start()

    def _run(self) -> None:
        backoff = FIRST_BACKOFF
        while not self._is_closing.is_set():
            is_more = self._try(self._step)
            if is_more is None:
                self._is_closing.wait(backoff)
                backoff = min(2 * backoff, LAST_BACKOFF)
                continue
            backoff = FIRST_BACKOFF
            if not is_more:
                self._wake.wait(IDLE_SECONDS)
                self._wake.clear()

    def _read_all(self, raising: bool, until_refilled: bool = False) -> None:
        """Reads until nothing is new, or until the refill is done; with `raising`, exceptions reach the caller."""
        is_more: bool | None = True
        while is_more:
            is_more = self._step() if raising else self._try(self._step)
            if until_refilled and not self._refill_until:
                return

    def _try(self, step: Callable[[], Any]) -> Any:
        """Returns the step's result, or None if it failed; the failure is recorded, as nothing may end the thread."""
        try:
            return step()
        except ReplayUnavailable as error:
            with self._lock:
                self._trouble = str(error)
                self._troubled_since = self._troubled_since or time.monotonic()
        except Exception as error:
            with self._lock:
                self._trouble = f"{type(error).__name__}: {error}"
        return None

    def _step(self) -> bool:
        """Reads from the server once; returns whether there may be more."""
        with self._tail_lock:
            reading = self._read()
            before = self._newest
            self._record_answer(reading)
            if reading.boot != self._boot:
                self._change_boot(reading.boot)
                return bool(reading.boot)
            if not reading.boot:
                return False
            if reading.number < self._number or reading.is_rewritten:
                self._go_back(reading)
                return True
            self._window.record_version(reading.version)
            if self._window.share.is_whole:
                is_more = self._take_all(reading, before)
            else:
                is_more = self._take_share(reading)
            while self._fences:
                actor, incarnation = next(iter(self._fences.items()))
                self._driver.fence(actor, incarnation)
                del self._fences[actor]
            return is_more

    def _read(self) -> Reading:
        with self._lock:
            limiter = self._window.limiter
            credit = limiter.credit()
            limit: int | None = -1 if credit is None else self._counted + credit
            if not self._window.share.is_first:
                limit = None
            counters = {"sampled": limiter.sampled, "ingested": limiter.inserted, "window": limiter.size}
            version, position, boot = self._window.version, self._position, self._boot
        return self._tail.read(position, boot, version, limit, counters)

    def _record_answer(self, reading: Reading) -> None:
        """Records that the server answered, and what it had counted."""
        with self._lock:
            self._trouble, self._troubled_since = "", 0.0
            if not reading.boot:
                self._trouble = "the replay waits for the driver to begin"
                if self._losses or self._boot:
                    self._trouble = "the replay's data was lost; it waits for the driver to begin anew"
            if self._refused_before is None:
                self._refused_before = reading.refused
            elif self._newest is not None and self._newest.boot != reading.boot:
                # The server counts from 0 again: keep what was counted before.
                pairs = zip(reading.refused, self._newest.refused, self._refused_before, strict=True)
                self._refused_before = tuple(now - (last - then) for now, last, then in pairs)
            self._newest = reading

    def _change_boot(self, boot: str) -> None:
        """Empties the window and resets the limiter: the keys were made, or the data was lost."""
        with self._lock:
            if self._boot:
                self._losses += 1
                self._window.begin_refill()
                self._window.end_refill()
                self._window.limiter.rebase(0)
            self._refill_until = 0
            self._boot, self._position, self._number, self._counted, self._total = boot, START, 0, 0, 0

    def _go_back(self, reading: Reading) -> None:
        """Reads the window anew: the server has lost its newest games, but not all."""
        with self._lock:
            self._losses += 1
            self._window.begin_refill()
            self._number = min(self._number, reading.number)  # later games are counted as new
            self._position, self._total, self._refill_until = START, 0, self._number
            self._counted = reading.inserted
            if not self._number:
                self._window.end_refill()

    def _end_refill(self) -> None:
        if self._refill_until:
            self._refill_until = 0
            self._window.end_refill()

    def _take_all(self, reading: Reading, before: Reading | None) -> bool:
        """Takes what was read; returns whether there may be more.  `before`: the reading before this one."""
        for entry in reading.entries:
            self._take(entry)
        with self._lock:
            if not reading.entries:
                self._end_refill()
                # All that the server had counted at the previous read has been read, or is gone for good.
                if before is not None and before.boot == reading.boot and before.inserted > self._counted:
                    self._skipped += before.inserted - self._counted
                    self._counted = before.inserted
        return bool(reading.entries)

    # --- with a share ------------------------------------------------------------------------------------------------

    def _take_share(self, reading: Reading) -> bool:
        """The same for the games of a share, and counts those of others that stand before and behind them."""
        before = self._place
        with self._lock:
            self._leave_out(reading)
        for entry in reading.entries:
            if entry.is_ours:
                with self._lock:
                    self._pass_by(entry.number - 1, entry.total - entry.rows)
            self._take(entry)
        with self._lock:
            if reading.read_to == reading.number:
                self._pass_by(reading.number, reading.inserted)
            else:
                self._position = f"{max(self._place, reading.read_to)}-0"
        return bool(reading.entries) or before < self._place < reading.number

    @property
    def _place(self) -> int:
        """Number of the newest game that was read since START, or counted because others hold it."""
        return int(self._position.partition("-")[0])

    def _leave_out(self, reading: Reading) -> None:
        """Passes over the games that have left the server before they were read."""
        is_new, last = self._position == START, reading.oldest - 1
        if self._place < min(last, self._refill_until):
            self._total = reading.gone if last < self._refill_until else min(self._counted, reading.gone)
            self._position = f"{min(last, self._refill_until)}-0"
        if last >= self._refill_until:
            self._end_refill()
        if self._place < last and last > self._number:
            if is_new and not self._window.share.is_first:
                self._window.begin_after(reading.gone)
            else:
                self._skipped += max(0, reading.gone - self._counted)
            self._position, self._number, self._total = f"{last}-0", last, reading.gone
            self._counted = max(self._counted, reading.gone)

    def _pass_by(self, number: int, total: int) -> None:
        """Counts the games of others up to this number, with which the server had counted so many rows."""
        old = min(number, self._refill_until)
        if self._place < old:
            until = total if old == number else min(self._counted, total)
            self._window.refill_elsewhere(*_games_elsewhere(until - self._total, old - self._place))
            self._position, self._total = f"{old}-0", until
        if number >= self._refill_until:
            self._end_refill()
        if self._place < number:
            games = _games_elsewhere(total - self._counted, number - self._place)
            self._window.accept_elsewhere(*games)
            self._position, self._number, self._total = f"{number}-0", number, total
            self._counted = max(self._counted, total)

    def _take(self, entry: Entry) -> None:
        """Puts one entry of the stream into the window, or into quarantine."""
        is_old = 0 < entry.number <= self._refill_until
        if entry.is_ours and not is_old and entry.total - entry.rows < self._total:
            entry = entry._replace(is_ours=False)  # the script's totals never go back
        record, reason = self._decode(entry)
        with self._lock:
            self._advance(entry, is_old)
            if record is not None:
                reason = self._insert(record, is_old)
            if entry.number == self._refill_until:
                self._end_refill()
            if not is_old:
                self._count_for_sender(entry, reason)
        if reason:
            self._bad += 1
            self._refuse(entry, reason, entry.data)
        elif not is_old and self._on_accept is not None:
            self._on_accept(entry.data)

    def _count_for_sender(self, entry: Entry, reason: str) -> None:
        """Fences the sender of the entry if most of its games are refused."""
        if entry.sender is None or entry.sender[0] != self._epoch:
            return
        _, actor, incarnation = entry.sender
        if self._judge.record(actor, incarnation, reason):
            self._fences[actor] = incarnation + 1

    def _decode(self, entry: Entry) -> tuple[GameRecord | None, str]:
        """The record, or None and why the entry holds none of this run."""
        if not entry.is_ours:
            return None, "source: not an entry of the append script"
        try:
            record = decode_record(entry.data)
            self._window.validation.check_game(record)
            if entry.rows != record.num_rows:
                return None, f"rows: the record has {record.num_rows}, its sender says {entry.rows}"
            is_of_this_term = entry.sender is not None and entry.sender[0] == self._epoch
            if is_of_this_term and entry.sender != record.game_id[:3]:
                return None, f"game_id: the record is of {record.game_id[:3]}, its sender is {entry.sender}"
            return record, ""
        except CodecError as error:
            return None, f"format: {error}"
        except InvalidRecordError as error:
            return None, str(error)

    def _advance(self, entry: Entry, is_old: bool) -> None:
        """Moves the place of reading behind this entry, unless another program wrote it: ours may get smaller ids."""
        if not entry.is_ours:
            return
        self._position = entry.id
        self._total = entry.total
        if not is_old:
            self._end_refill()
            self._skipped += max(0, entry.total - entry.rows - self._counted)
            self._number, self._counted = entry.number, entry.total

    def _insert(self, record: GameRecord, is_old: bool) -> str:
        """Puts the rows into the window; returns why the record is refused, or nothing."""
        try:
            if is_old:
                self._window.refill(record)
            else:
                # Games of an earlier driver term may have been played under another configuration.
                is_earlier = record.game_id.epoch < self._epoch
                self._window.validation.check_origin(record, self._window.version, not is_earlier)
                self._window.accept(record)
        except InvalidRecordError as error:
            return str(error)
        return ""

    def _refuse(self, entry: Entry | None, reason: str, data: bytes) -> None:
        with self._lock:
            self._window.quarantine.add(reason, data)
        self._tail.quarantine(entry, reason, data[: Quarantine.MAX_DATA])


def _games_elsewhere(rows: int, numbers: int) -> tuple[int, int]:
    """Rows and games, of which no more are counted than have rows: numbers may be left out."""
    rows = max(0, rows)
    return rows, min(rows, numbers)
