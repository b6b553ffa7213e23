"""The actor of a cluster with two fixed policies, beside a real Redis but without Ray: it waits for no learner."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgpack
import numpy as np
import pytest

from shusaku.actors import remote
from shusaku.actors.remote import ActorPlan, SelfPlayActor
from shusaku.common.codec import decode_record
from shusaku.common.config.schema import config_hash
from shusaku.common.external.configured_game import configured_game
from shusaku.common.messages import GameRecord, RowKind
from shusaku.common.network.weights import random_weights
from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.run.window_copy import read_window
from shusaku.replay.stream.control import RedisControl
from shusaku.replay.stream.server import EmbeddedServer

SETTINGS = [
    "experiment=alphago_9x9_value", "game.size=5", "value.last_switch=12", "value.supervised=random",
    "value.reinforced=random", "actors.games_per_actor=8", "network.filters=8", "network.blocks=1",
]
RUN = "value"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    server = EmbeddedServer(tmp_path / "redis", max_megabytes=64)
    server.start()
    yield server
    server.stop()


def plan(url: str, incarnation: int) -> ActorPlan:
    config = compose(SETTINGS)
    game = configured_game(config.game)
    policies = tuple(random_weights(game, config.network, seed, version=40 + seed) for seed in (1, 2))
    return ActorPlan(config, config_hash(config), 0, 1, incarnation, 5 + incarnation, 8, url, RUN, False,
                     policies=policies)


def play(plan: ActorPlan, until: Callable[[], bool]) -> str:
    """Runs an actor until that; why it ended."""
    actor, reasons = SelfPlayActor(plan), []
    thread = threading.Thread(target=lambda: reasons.append(actor.run()))
    thread.start()
    deadline = time.monotonic() + 120
    while not until():
        assert time.monotonic() < deadline, "the actor does not play"
        assert thread.is_alive(), reasons
        time.sleep(0.05)
    actor.stop()
    thread.join(60)
    (reason,) = reasons
    return reason


def test_an_actor_plays_with_its_policies_alone_and_its_successor_goes_on(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote.ray, "get", lambda references: references)
    monkeypatch.setattr(remote, "lower_priority", lambda nice: None)  # of this process
    control = RedisControl(server.url, RUN)
    control.begin(1, capacity=10_000, max_bytes=1 << 28, actors=1, fences={0: 0})
    games = lambda: control.counters().get("games", 0)  # noqa: E731
    assert play(plan(server.url, 0), lambda: games() >= 60) == "the actor was stopped"
    before = games()
    control.fence(0, 1)

    def restored() -> int:
        """Games that the successor has said it goes on with."""
        data = control.actor_metrics()[0].metrics
        return int(msgpack.unpackb(data)["restored_games"]) if data else 0

    assert play(plan(server.url, 1), lambda: games() >= before + 60 and restored() > 0) == "the actor was stopped"
    assert 10 <= restored() <= 16, "the open games in which a policy had moved"
    records: list[GameRecord] = [decode_record(data) for data in read_window(server.url, RUN)]
    assert len(records) == games() >= before + 60
    assert control.quarantined() == {}
    for record in records:
        (random,) = np.flatnonzero(record.kind == RowKind.OPENING)
        assert np.flatnonzero(record.row_weight).tolist() == [random + 1]
        assert not record.versions.any()
    assert {record.game_id.incarnation for record in records} == {0, 1}
