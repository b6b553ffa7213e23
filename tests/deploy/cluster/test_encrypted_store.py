"""The store of a run whose own server encrypts."""

import time
from pathlib import Path

import psutil

from shusaku.common.config.schema import Config, ReplayConfig
from shusaku.common.tls.authority import RunAuthority
from shusaku.deploy.cluster.replay_store import ReplayStore
from shusaku.replay.stream.append import Appender

HOST = "127.0.0.1"


def test_a_store_grants_over_tls_and_restarts_a_killed_relay(tmp_path: Path) -> None:
    lines: list[str] = []
    config = Config(replay=ReplayConfig(encryption="tls"))
    store = ReplayStore(config, tmp_path, "mine", lines.append, RunAuthority())
    try:
        control = store.start(HOST)
        store.begin(lambda control: control.begin(0, capacity=1000, max_bytes=1 << 20, actors=1))
        assert store.actor_url.startswith("rediss://shusaku-mine-actor:")
        assert store.remote_url.startswith("rediss://:")
        appender = Appender(store.actor_url, "mine", actor=0, epoch=0, incarnation=0)
        appender.append([])
        next(child for child in psutil.Process().children() if child.name() == "shusaku-tls").kill()
        deadline = time.monotonic() + 20
        while (not store.check_health() or not store.restarts) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert store.restarts == 1
        assert lines == ["the relay that decrypts for the replay server ended; it is started again on the same port"]
        assert store.losses == 0
        Appender(store.actor_url, "mine", actor=0, epoch=0, incarnation=1).append([])
        control.close()
    finally:
        store.stop()
    assert not [child for child in psutil.Process().children() if child.name() == "shusaku-tls"]


def test_a_run_on_one_machine_has_nothing_to_encrypt(tmp_path: Path) -> None:
    store = ReplayStore(Config(replay=ReplayConfig(encryption="tls")), tmp_path, "mine", print, RunAuthority())
    try:
        store.start().close()
        assert store.actor_url.startswith("unix://")
    finally:
        store.stop()
