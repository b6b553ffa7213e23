"""Which sockets a run on one machine listens at, as its operator would ask the system."""

import contextlib
import ipaddress
from pathlib import Path

import psutil
import pytest
from cluster_process import ClusterProcess


def listening(pid: int) -> dict[tuple[str, int], str]:
    """(address, port) of the sockets of the process and its descendants, TCP that listens and all UDP -> who has it."""
    found = {}
    for process in [parent := psutil.Process(pid), *parent.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            for connection in process.net_connections("inet"):
                if connection.status in (psutil.CONN_LISTEN, psutil.CONN_NONE) and connection.laddr:
                    found[connection.laddr.ip, connection.laddr.port] = " ".join(process.cmdline())[:80]
    return found


def is_loopback(text: str) -> bool:
    address = ipaddress.ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


@pytest.mark.faults
@pytest.mark.timeout(200)
def test_a_run_on_one_machine_listens_at_loopback_only(tmp_path: Path) -> None:
    """Ray with its dashboard and metrics, Redis, actors, learner and server: no exception is left."""
    run = ClusterProcess(tmp_path / "run", "actors.count=1", "inference.placement=server", "cluster.dashboard=true")
    try:
        run.until_learning()
        sockets = listening(run.process.pid)
        assert len(sockets) > 8, "Ray's are among them"
        assert {place: name for place, name in sockets.items() if not is_loopback(place[0])} == {}
        assert "open to other machines" not in run.text
        assert not [name for name in sockets.values() if "valkey" in name or "redis-server" in name], "it has no port"
    finally:
        run.close()


def test_the_addresses_are_told_apart() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "::ffff:10.0.0.1")))
