"""A run on Ray and Redis grows its network: all parts go on with the larger one, and no game is lost or doubled."""

from collections.abc import Callable

import pytest
from cluster_process import START_S, ClusterProcess

from shusaku.common.network.weights import load_weights


@pytest.mark.timeout(400)
def test_all_parts_go_on_with_the_larger_network(start: Callable[..., ClusterProcess]) -> None:
    run = start("network.filters=8", "network.blocks=1", "run.grow=[0.1:12x2]")
    run.until(lambda s: "the network grows after" in run.text, START_S, "growth")
    grown = run.newest_checkpoint()[0]
    run.until(lambda s: s["status"]["step"] > grown + 40, START_S, "learning on")
    assert run.check_games() > 100
    assert run.stop() == 143
    weights = load_weights(run.run_dir / "weights.safetensors")
    assert weights.step > grown
    assert (weights.network["filters"], weights.network["blocks"]) == (12, 2)
    assert run.newest_checkpoint()[0] > grown
