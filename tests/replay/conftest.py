"""Records of random play."""

import itertools
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shusaku.common._core import Game
from shusaku.common.messages import EndedBy, GameId, GameRecord, RowKind
from shusaku.replay.stream.server import EmbeddedServer

MakeRecord = Callable[..., GameRecord]
MakeRun = Callable[[], str]
MEMORY = Path("/dev/shm")


@pytest.fixture(scope="session", params=["tic_tac_toe", "connect_four"])
def game(request: pytest.FixtureRequest) -> Game:
    return Game(request.param)


@pytest.fixture(scope="session")
def make_record() -> MakeRecord:
    return random_record


@pytest.fixture(scope="session")
def redis_server() -> Iterator[EmbeddedServer]:
    """A server shared by all tests that do not harm it; each test uses runs of its own.

    Its files lie in memory where they can: what a slow disk does to a run is for test_faults.py.
    """
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None, prefix="shusaku-test-") as folder:
        server = EmbeddedServer(Path(folder), max_megabytes=256, bind="127.0.0.1")
        server.start()
        yield server
        server.stop()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """A server that the test may damage, kill and freeze."""
    server = EmbeddedServer(tmp_path / "redis", max_megabytes=32, bind="127.0.0.1")
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def make_run() -> MakeRun:
    """Run names that are new."""
    numbers = itertools.count()
    return lambda: f"test-{os.getpid()}-{next(numbers)}"


def random_record(game: Game, sequence: int = 0, *, weight: float = 1.0, **header: Any) -> GameRecord:
    """A game of random moves to its end, with a random policy in each row; the same for the same `sequence`."""
    rng = np.random.default_rng(sequence)
    position = game.start()
    actions: list[int] = []
    offsets, policy_actions, policy_shares = [0], [], []
    while not position.is_terminal:
        legal = position.legal_actions
        shares = np.diff([0, *np.sort(rng.integers(0, 65_536, len(legal) - 1)), 65_535])  # [L], summing to 65,535
        policy_actions += legal
        policy_shares += shares.tolist()
        offsets.append(len(policy_actions))
        actions.append(int(rng.choice(legal)))
        position.play(actions[-1])
    plies = len(actions)
    fields: dict[str, Any] = {
        "game": game.name,
        "params": game.params,
        "game_id": GameId(0, 0, 0, sequence),
        "config_hash": "c0ffee",
        "outcome": position.outcome if position.to_play == 0 else -position.outcome,
        "score": math.nan,
        "ended_by": EndedBy.RULES,
        "actions": np.array(actions, np.uint16),
        "policy_offsets": np.array(offsets, np.uint32),
        "policy_actions": np.array(policy_actions, np.uint16),
        "policy_shares": np.array(policy_shares, np.uint16),
        "root_values": rng.uniform(-1, 1, plies).astype(np.float32),
        "raw_values": rng.uniform(-1, 1, plies).astype(np.float32),
        "versions": np.zeros(plies, np.uint32),
        "kind": np.full(plies, RowKind.FULL, np.uint8),
        "row_weight": np.full(plies, weight, np.float32),
        "surprise": np.zeros(plies, np.float32),
    }
    return GameRecord(**(fields | header))
