"""Fuzzes all that reads bytes of others: records, files of games, what Redis holds, checkpoints, shared memory.

    .venv/bin/python -m pip install -c constraints.txt atheris            # the extra [fuzz] of pyproject.toml
    .venv/bin/python tests/fuzz/fuzz_bytes.py record -runs=1000000        # a target, and options of libFuzzer
    .venv/bin/python tests/fuzz/fuzz_bytes.py record runs/fuzz_record/crash-...    # the same bytes again

A target takes bytes and raises only if what reads them does something that its docstring rules out: any exception but
the one it names, or a value that a second reading contradicts.  `make fuzz` runs each 10,000,000 times.
"""

import json
import os
import select
import shutil
import socket
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from record_seeds import NOTATION_SEEDS

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "fixtures" / "golden"
INSTRUMENTED = ("shusaku.common.codec", "shusaku.common.leaves_codec", "shusaku.common.network.weights",
                "shusaku.learner.checkpoints", "shusaku.replay.stream.tail", "shusaku.replay.stream.control",
                "shusaku.replay.stream.open_games", "shusaku.replay.validation", "shusaku.replay.row_window",
                "shusaku.deploy.cluster.actor_totals", "shusaku.actors.inference.shm_segment",
                "shusaku.actors.inference.shm_server", "shusaku.common.open_game_codec",
                "shusaku.deploy.records.files", "shusaku.deploy.records.game_record", "shusaku.deploy.records.sgf",
                "shusaku.deploy.records.sgf_tree", "shusaku.deploy.records.pgn", "shusaku.deploy.records.kif",
                "shusaku.deploy.records.csa", "shusaku.deploy.records.json_lines", "shusaku.deploy.records.shogi_board",
                "shusaku.deploy.records.search_comment", "shusaku.deploy.records.parameters")


class Target(NamedTuple):
    """Something that reads bytes."""

    read: Callable[[bytes], None]
    seeds: list[bytes]
    max_len: int = 4096


def record_target() -> Target:
    """A record is refused with CodecError or InvalidRecordError, or it is a game of this run."""
    from shusaku.common._core import Game
    from shusaku.common.codec import CodecError, decode_record, encode_record
    from shusaku.common.config.schema import ReplayConfig
    from shusaku.replay.record_log import RecordLog
    from shusaku.replay.row_window import RowWindow
    from shusaku.replay.validation import InvalidRecordError

    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(GOLDEN / "records", Path(folder) / "records")
        log = RecordLog(Path(folder) / "records")
        seeds = list(log.iterate())
        log.close()
    config = ReplayConfig(window="fixed", capacity=500, minimum=20)
    window = RowWindow(Game("tic_tac_toe"), config, batch_size=16)
    window.record_version(100)

    def read(data: bytes) -> None:
        try:
            record = decode_record(data)
        except CodecError as error:
            assert_one_line(error)
            return
        assert decode_record(encode_record(record)).game_id == record.game_id
        try:
            window.validation.check_game(record)
            window.validation.check_origin(record, window.version)
            window.accept(record)
        except InvalidRecordError as error:
            assert_one_line(error)
        assert 0 <= window.limiter.size <= config.capacity + len(record)

    return Target(read, seeds)


def redis_target() -> Target:
    """What stands in Redis is read, or is ReplayUnavailable; nothing else, whoever wrote it."""
    from shusaku.deploy.cluster.actor_totals import ActorTotals
    from shusaku.replay.stream.append import read_reply
    from shusaku.replay.stream.client import ReplayUnavailable, translate_redis_errors
    from shusaku.replay.stream.control import RedisControl
    from shusaku.replay.stream.tail import Entry, parse_entries

    control = RedisControl("unix:///nowhere", "fuzz")
    real = control._client
    calls: list[Callable[[], Any]] = [
        control.newest_epoch, control.newest_version, control.desired_actors, control.is_run_stop_requested,
        control.counters, control.quarantined, control.status,
    ]

    def read(data: bytes) -> None:
        parts = data.split(b"\n")
        fields = [part for line in parts for part in line.split(b"\t")]
        answers = Stored(fields)
        control._client = answers  # type: ignore[assignment]
        with refusal(ReplayUnavailable):
            calls[len(data) % len(calls)]()
        totals = ActorTotals()
        with refusal(ReplayUnavailable):
            totals.update(control.actor_metrics(), {})
        with refusal(ReplayUnavailable), translate_redis_errors("unix:///nowhere"):
            read_reply(fields[:8])
        numbers = struct.unpack("<QQ", data[:16].ljust(16, b"\0"))
        for place in (numbers[0], 5):
            id = f"{place}-{numbers[1] if place != 5 else 0}".encode()
            [entry] = parse_entries([(id, fields[: 2 * min(10, len(fields) // 2)])], 9, 1000)
            assert isinstance(entry, Entry)
            assert entry.rows >= 0
            assert not entry.is_ours or entry.number <= 9
        control._client = real

    entry = b"d\tdata\tr\t4\tn\t9\ta\t1:2:3"
    metrics = bytes.fromhex("82a567616d6573cd1000a772756e74696d65a3637075")
    heartbeat = b"0\t1700000000000:3\n0\t" + metrics
    return Target(read, [entry, b"1\t2\t3\t4\t5\t6\t7\t8", heartbeat, b"-1", b"1e9", metrics])


class Stored:
    """A client of Redis that answers every command with the same bytes, in the shape of that command."""

    def __init__(self, fields: list[bytes]) -> None:
        self._fields = fields

    def hget(self, *key: str) -> bytes:
        return self._fields[0]

    get = hget

    def hgetall(self, key: str = "") -> dict[bytes, bytes]:
        return dict(zip(self._fields[::2], self._fields[1::2], strict=False))

    def pipeline(self, transaction: bool) -> "Stored":
        return self

    def time(self) -> None:
        pass

    def execute(self) -> list[Any]:
        return [(1_700_000_000, 0), self.hgetall(), self.hgetall()]


def checkpoint_target() -> Target:
    """A weights file is refused with UsageError, the files of a checkpoint as damaged; or they are read."""
    import shusaku.learner.checkpoints as checkpoints
    from shusaku.common._core import Game
    from shusaku.common.config.schema import NetworkConfig
    from shusaku.common.errors import UsageError
    from shusaku.common.network.weights import random_weights, weights_from_bytes, weights_to_bytes

    game = Game("tic_tac_toe")
    weights = random_weights(game, NetworkConfig(filters=1, blocks=0, value_hidden=1), 1, version=1)
    file = weights_to_bytes(weights)
    facts = json.dumps({"version": 1, "game": "tic_tac_toe"}).encode()
    manifest = json.dumps({"format": 1, "step": 3, "files": {"facts.json": {"bytes": len(facts), "sha256": "0"}}})

    def read(data: bytes) -> None:
        with refusal(UsageError):
            found = weights_from_bytes(data, "file")
            assert weights_from_bytes(weights_to_bytes(found), "file").version == found.version
        cut = int.from_bytes(data[:2], "little")
        files = {"facts.json": data[2:cut + 2], "network.safetensors": data[cut + 2:]}
        for one in (files, {"network.safetensors": file}, {**files, "network.safetensors": file}):
            with refusal(checkpoints._Damaged):
                checkpoints.parse_files(Path("000000003"), one)
        text = checkpoints._difference(data, manifest.encode())
        assert len(text.splitlines()) == 1, text

    both = len(facts).to_bytes(2, "little") + facts
    return Target(read, [file, both + file, manifest.encode(), facts], max_len=len(file) + 512)


def shared_memory_target() -> Target:
    """A client's handshake, slots and requests are accepted or refused with the errors that the server expects."""
    from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
    from shusaku.actors.inference.pipeline import new_inputs
    from shusaku.actors.inference.protocol import Status
    from shusaku.actors.inference.shm_segment import HANDSHAKE, HANDSHAKE_MARK, Segment
    from shusaku.actors.inference.shm_server import _read_handshake
    from shusaku.common._core import FireRule, Game, RequestPort, RequestQueue
    from shusaku.common.codec import CodecError
    from shusaku.common.leaves_codec import LeavesCodec, decode_evaluation, to_half
    from shusaku.common.messages import Leaves

    game = Game("tic_tac_toe")
    codec = LeavesCodec(game)
    evaluator = PseudoRandomEvaluator(game, 1)
    start = game.start()
    packed = np.zeros((1, game.packed_bytes), np.uint8)
    uniform = np.zeros((1, game.num_uniform_planes), np.float32)
    actions = np.array(start.legal_actions, np.uint16)
    leaves = Leaves(packed, uniform, np.array([0, len(actions)], np.int32), actions)
    request = codec.encode(leaves)
    answer = evaluator(leaves)
    halves = to_half(answer.values).tobytes() + to_half(answer.logits).tobytes()
    reply = struct.pack("<4sIII", b"SLA1", 1, len(actions), 1) + halves
    segment = Segment.create(2, 4096)
    queue = RequestQueue(codec.rules, FireRule(8, 0.0), 64, 5.0)
    port, inputs = RequestPort(queue), new_inputs(game, 8)
    threading.Thread(target=port.run, daemon=True).start()
    served, client = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    port.attach_memory(served.detach(), os.dup(segment.descriptor), 2, 4096, 0)

    def settle() -> None:
        """Whatever lies in a slot is answered or refused."""
        client.send(b"\0")
        while not select.select([client], [], [], 0)[0]:
            if gathered := queue.gather(inputs, True, True, 0.0, time.monotonic() + 0.001):
                batch, columns = gathered
                assert codec.encode(Leaves(*columns))  # type: ignore[arg-type]
                queue.answer(batch, np.zeros(batch.actions, np.float32), np.zeros(batch.rows, np.float32), 1)
        assert client.recv(2) == b"\0"
        assert segment.read(0).status is not Status.REQUEST

    def read(data: bytes) -> None:
        with refusal(CodecError):
            asked = codec.decode(data)
            assert codec.encode(asked) == data
        with refusal(CodecError):
            decode_evaluation(data, 1, len(actions))
        size = min(len(data), 4096)
        segment._map[:size] = data[:size]  # a client may write anything at any time
        with refusal(ValueError):
            body = segment.read(0)
            assert isinstance(body.status, Status)
            assert len(body.data) <= segment.slot_bytes
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with closing(theirs), closing(ours):
            descriptors = [segment.descriptor] * (len(data) % 3)
            socket.send_fds(theirs, [data[:100] or b"\0"], descriptors)
            with refusal(ValueError, EOFError, OSError):
                _read_handshake(ours)[1].close()
        settle()

    hello = HANDSHAKE.pack(HANDSHAKE_MARK, 7, 2, 4096)
    return Target(read, [request, reply, hello, hello + b"\1", struct.pack("<IId", 0, len(request), 1.0) + request])


def tcp_target() -> Target:
    """Whatever comes after the handshake is answered, refused, or ends the connection, and nothing waits for ever."""
    from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
    from shusaku.actors.inference.pipeline import new_inputs
    from shusaku.actors.inference.tcp_handshake import ANSWER_HEAD, REQUEST_HEAD
    from shusaku.common._core import FireRule, Game, RequestPort, RequestQueue
    from shusaku.common.leaves_codec import LeavesCodec
    from shusaku.common.messages import Leaves

    game = Game("tic_tac_toe")
    codec = LeavesCodec(game)
    actions = np.array(game.start().legal_actions, np.uint16)
    request = codec.encode(Leaves(np.zeros((1, game.packed_bytes), np.uint8),
                                  np.zeros((1, game.num_uniform_planes), np.float32),
                                  np.array([0, len(actions)], np.int32), actions))
    assert len(PseudoRandomEvaluator(game, 1)(codec.decode(request)).values) == 1
    queue = RequestQueue(codec.rules, FireRule(8, 0.0), 64, 5.0)
    port, inputs = RequestPort(queue), new_inputs(game, 8)
    threading.Thread(target=port.run, daemon=True).start()

    def read(data: bytes) -> None:
        served, client = socket.socketpair()
        port.attach_tcp(served.detach(), 0)
        with closing(client):
            half = len(data) // 2
            with suppress(OSError):  # the first half has ended the connection
                client.sendall(data[:half])
                client.sendall(data[half:])
                client.shutdown(socket.SHUT_WR)
            heard = bytearray()
            while True:
                if gathered := queue.gather(inputs, True, True, 0.0, time.monotonic() + 0.001):
                    batch, _ = gathered
                    queue.answer(batch, np.zeros(batch.actions, np.float32), np.zeros(batch.rows, np.float32), 1)
                if select.select([client], [], [], 0)[0]:
                    try:
                        part = client.recv(1 << 16)
                    except ConnectionError:
                        break
                    if not part:
                        break
                    heard += part
        while len(heard) >= ANSWER_HEAD.size:  # whole answers, but for the last one, which the end may have cut
            size, _, status = ANSWER_HEAD.unpack_from(heard)
            assert status in (1, 2, 3), status
            del heard[: ANSWER_HEAD.size + size]

    frame = REQUEST_HEAD.pack(len(request), 3) + request
    return Target(read, [frame, 2 * frame, frame[:-1], REQUEST_HEAD.pack(4, 1) + b"SLQ1" + frame, 20 * frame])


def assert_one_line(error: Exception) -> None:
    assert len(str(error).splitlines()) <= 1, repr(error)


@contextmanager
def refusal(*kinds: type[Exception]) -> Iterator[None]:
    """These errors, in one line, are the refusal that the reader promises."""
    try:
        yield
    except kinds as error:
        assert_one_line(error)


def notation_target(notation: str) -> Target:
    """A file of games is read into games and rejects of one line; what was read comes back as it was."""
    from shusaku.deploy.records.files import read_records, write_records

    name = f"x.{notation}"

    def read(data: bytes) -> None:
        games = read_records(data, name)
        for reject in games.rejects:
            assert len(str(reject).splitlines()) == 1, reject
        for record in games.records:
            text = write_records([record], name, comments=True)
            again = read_records(text, name)
            assert again.rejects == [], (text, again.rejects)
            assert [one.actions for one in again.records] == [record.actions], text
            assert [one.outcome for one in again.records] == [record.outcome], text

    return Target(read, [seed.encode() for seed in NOTATION_SEEDS[notation]])


TARGETS: dict[str, Callable[[], Target]] = {
    "record": record_target, "redis": redis_target, "checkpoint": checkpoint_target,
    "shared_memory": shared_memory_target, "tcp": tcp_target,
    **{notation: partial(notation_target, notation) for notation in NOTATION_SEEDS},
}


def fuzz(name: str, arguments: list[str]) -> None:
    try:
        import atheris  # here: tests/fuzz/test_fuzz_bytes.py needs none
    except ImportError:
        sys.exit("there is no atheris: .venv/bin/python -m pip install -c constraints.txt atheris")

    with atheris.instrument_imports(include=list(INSTRUMENTED)):
        target = TARGETS[name]()
    folder = ROOT / "runs" / f"fuzz_{name}"
    names_a_place = any(not word.startswith("-") for word in arguments)
    if not names_a_place:
        corpus = folder / "corpus"
        corpus.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(target.seeds):
            (corpus / f"seed_{number}").write_bytes(seed)
        defaults = [f"-artifact_prefix={folder}/", f"-max_len={target.max_len}", "-timeout=10"]
        arguments = [*defaults, *arguments, str(corpus)]
    atheris.Setup([sys.argv[0], *arguments], target.read)
    atheris.Fuzz()


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in TARGETS:
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        fuzz(sys.argv[1], sys.argv[2:])
    else:
        sys.exit(f"usage: fuzz_bytes.py {'|'.join(TARGETS)} [-runs=N] [-max_total_time=SECONDS] [FILE]")
