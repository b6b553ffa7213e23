"""The replay buffers that exist, by name.  `tests/replay/test_buffers.py` runs over all of them."""

from typing import Any

from shusaku.common._core import Game
from shusaku.common.config.schema import ReplayConfig
from shusaku.common.errors import UsageError
from shusaku.replay.buffer import BufferMaker, ReplayBuffer
from shusaku.replay.memory_buffer import MemoryBuffer


def _make_redis_buffer(game: Game, config: ReplayConfig, **options: Any) -> ReplayBuffer:
    from shusaku.replay.stream.buffer import RedisBuffer  # here: a run without Redis does not load its client

    return RedisBuffer(game, config, **options)


BUFFERS: dict[str, BufferMaker] = {"memory": MemoryBuffer, "redis": _make_redis_buffer}


def make_buffer(kind: str, game: Game, config: ReplayConfig, **options: Any) -> ReplayBuffer:
    """Makes the buffer of that name; the options are those of `BufferMaker` and the backend's own."""
    if kind not in BUFFERS:
        raise UsageError(f"unknown replay buffer {kind!r}: expected one of {', '.join(BUFFERS)}")
    return BUFFERS[kind](game, config, **options)
