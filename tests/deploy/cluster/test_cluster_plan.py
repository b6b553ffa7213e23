"""Who would run where, on made-up clusters."""

import pytest

from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.cluster.cluster_plan import describe, who_runs_where
from shusaku.deploy.cluster.layout import layout_of
from shusaku.deploy.cluster.room import Node

HEAD = Node("h", 2, host="10.0.0.1")
PLAYERS = [Node("a", 4, host="10.0.0.2"), Node("b", 4, host="10.0.0.3")]
GPU = Node("g", 8, gpus=1, host="10.0.0.4")


def lines(*overrides: str, nodes: list[Node], growing_cpus: float = 0.0) -> list[str]:
    config = compose(list(overrides))
    here = next(node.gpus for node in nodes if node.id == "h")
    layout = layout_of(config, nodes, sum(node.gpus for node in nodes), here, growing_cpus=growing_cpus)
    roles = who_runs_where(layout.devices.settle(config), nodes, layout, "h", growing_cpus=growing_cpus)
    return describe(nodes, roles)


def test_actors_are_spread_and_leave_the_driver_alone() -> None:
    assert lines("actors.count=6", nodes=[HEAD, *PLAYERS]) == [
        "node 10.0.0.1: 2 CPUs: driver, learner", "node 10.0.0.2: 4 CPUs: 3 actors", "node 10.0.0.3: 4 CPUs: 3 actors"]


def test_learner_and_server_are_where_the_gpu_is() -> None:
    found = lines("actors.count=8", nodes=[HEAD, *PLAYERS, GPU])
    assert found == ["node 10.0.0.1: 2 CPUs: driver", "node 10.0.0.2: 4 CPUs: 4 actors",
                     "node 10.0.0.3: 4 CPUs: 4 actors", "node 10.0.0.4: 8 CPUs, 1 GPU: learner, 1 inference server"]


@pytest.mark.parametrize(("there", "waiting"), [([Node("h", 0, host="head")], 3), ([Node("h", 1, host="head")], 2)])
def test_who_waits_for_the_autoscaler_is_said(there: list[Node], waiting: int) -> None:
    assert lines("actors.count=3", nodes=there, growing_cpus=3)[-1] == f"waiting for a node: {waiting} actors"
