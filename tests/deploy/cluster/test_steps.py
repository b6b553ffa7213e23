"""`learner.steps` ends a run on Ray: with a checkpoint of the last step, the summary, and exit 0."""

from collections.abc import Callable

import pytest
from cluster_process import START_S, ClusterProcess

from shusaku.common.network.weights import load_weights
from shusaku.learner.checkpoints import newest_step


@pytest.mark.faults
@pytest.mark.timeout(800)
def test_a_run_ends_by_its_steps_and_a_larger_number_goes_on(start: Callable[..., ClusterProcess]) -> None:
    for steps in (50, 50, 75):  # 50 is no multiple of learner.publish_every=20; the second run has nothing left to do
        run = start("actors.count=1", "actors.cpus=0.5", f"learner.steps={steps}")
        assert run.process.wait(START_S + 60) == 0, run.text[-3000:]
        assert f"all {steps} steps are made, go on with learner.steps={2 * steps}" in run.text
        assert newest_step(run.run_dir / "checkpoints") == steps
        assert load_weights(run.run_dir / "weights.safetensors").step == steps
        assert run.left() == []
