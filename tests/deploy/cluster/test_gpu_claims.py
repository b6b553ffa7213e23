"""A machine with one GPU, pretended: Ray believes in it, the server's is simulated, the learner is behind its claim."""

from collections.abc import Callable
from typing import Any

import pytest
from cluster_process import ClusterProcess

Start = Callable[..., ClusterProcess]
pytestmark = [pytest.mark.faults, pytest.mark.timeout(400)]
ONE_GPU: dict[str, Any] = {"environment": {"RAY_OVERRIDE_RESOURCES": '{"GPU": 1}'}}
SHARED = ("inference.runtime=simulated_gpu", "inference.device=cuda", "inference.simulated_gpu_batch_ms=1",
          "learner.device=cpu", "learner.gpus=0.5")


def test_a_run_on_one_gpu_learns(start: Start) -> None:
    """The priors are pseudo-random: what the network knows after a while, it knows from the games' ends."""
    run = start(*SHARED, "search.simulations=64", "actors.games_per_actor=32", "strength.enabled=true",
                "strength.minutes=0.2", "strength.simulations=2", **ONE_GPU)
    state = run.until(lambda s: len(s["status"]["strength"]) >= 2, 200, "two measurements")
    first = state["status"]["strength"][0][1]
    assert state["devices"] == ("1 inference server with 50% of a GPU; the learner on CPUs, which holds 50% of a GPU; "
                                "of 1 in all")
    assert "a simulated GPU" in "".join(state["status"]["runtimes"])
    run.until(lambda s: s["status"]["strength"][-1][1] >= min(1.0, max(0.9, first + 0.03)), 200, "learning")
    run.check_games()


def test_a_gpu_that_fails_during_a_run_is_left(start: Start) -> None:
    """Its clients ask again, and the CPU answers them; the status says so, no process is replaced, no game is lost."""
    run = start(*SHARED, "inference.simulated_gpu_batches=300", "actors.count=2", **ONE_GPU)
    state = run.until(lambda s: any("was left" in line for line in s["status"]["troubles"]), 200, "the failure")
    assert "inference 0: the device failed and was left: the simulated GPU failed after 300 batches" in (
        state["status"]["troubles"])
    games, step = state["totals"]["games"], state["status"]["step"]
    state = run.until(lambda s: s["totals"]["games"] > games + 50 and s["status"]["step"] > step, 120, "games go on")
    started = {name: process["incarnation"] for name, process in state["processes"].items()}
    assert not any(started[name] for name in ("inference 0", "self_play 0", "self_play 1")), (started, run.text)
    assert "after 300 batches" in "".join(state["status"]["runtimes"])
    run.check_games()


def test_more_gpus_than_there_are_are_refused_before_anything_starts(start: Start) -> None:
    run = start("inference.device=cuda", "inference.runtime=simulated_gpu", "inference.servers=2",
                "inference.gpus_per_server=1", "learner.device=cpu", **ONE_GPU)
    assert run.process.wait(60) == 2
    assert "2 inference servers with 1 GPU each and a learner with 0 do not fit on the 1 GPUs" in run.text
