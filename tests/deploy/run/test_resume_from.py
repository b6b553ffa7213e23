"""`resume_from=STEP` goes back to a kept checkpoint on purpose, in both wirings."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from runs_in_process import WIRINGS, config_of

from shusaku.common.errors import ResumeError, UsageError
from shusaku.common.json_lines import read_json_lines
from shusaku.common.network.weights import load_weights
from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.run.run_directory import RunDirectory
from shusaku.learner.checkpoints import kept_steps, load_checkpoint, load_latest


def versions_of(directory: Path) -> list[int]:
    return [int(line["version"]) for line in read_json_lines(directory / "versions.jsonl")]


def trained(wiring: str, directory: Path) -> tuple[list[int], int]:
    """A run of two starts: the steps of its checkpoints, newest first, and the rows of its window."""
    for _ in range(2):
        run = WIRINGS[wiring]("connect_four", directory)
        run.play_and_learn(150)
        rows = run.buffer.stats().rows
        run.close()
    return kept_steps(directory / "checkpoints"), rows


@pytest.mark.parametrize("wiring", WIRINGS)
def test_it_goes_back_to_a_kept_checkpoint(wiring: str, tmp_path: Path, one_thread: None) -> None:
    """The learner is that of then; the window stays, no version is used again, later checkpoints never win again."""
    directory = tmp_path / "run"
    (newest, old), rows = trained(wiring, directory)
    then = load_checkpoint(directory / "checkpoints" / f"{old:09d}").checkpoint
    versions = versions_of(directory)
    run = WIRINGS[wiring]("connect_four", directory, f"resume_from={old}")
    try:
        assert run.training.learner.step_count == old
        state = run.training.learner.state()
        for part in ("network", "average", "optimizer"):
            for name, array in then.tensors[part].items():
                np.testing.assert_array_equal(state.tensors[part][name], array)
        assert run.buffer.stats().rows == rows
        assert run.lost_games == 0
        said = [line for line in run.lines if "resume_from" in line]
        assert len(said) == 1
        assert f"{newest:09d}.later" in said[0]
        assert load_weights(directory / "weights.safetensors").version == then.facts["version"]
        run.play_and_learn(60)
    finally:
        run.close()
    assert versions_of(directory) == sorted(set(versions_of(directory)))
    assert versions_of(directory)[: len(versions)] == versions
    again = WIRINGS[wiring]("connect_four", directory)
    try:
        found = load_latest(directory / "checkpoints")
        assert found is not None
        assert again.training.learner.step_count == found.checkpoint.step > old
        assert again.buffer.stats().rows > rows
    finally:
        again.close()
    assert (directory / "checkpoints" / f"{newest:09d}.later").is_dir()
    assert "resume_from" not in (directory / "config.yaml").read_text()


def test_a_step_that_is_not_kept_is_refused_with_those_that_are(tmp_path: Path, one_thread: None) -> None:
    directory = tmp_path / "run"
    (newest, old), _ = trained("local", directory)
    with pytest.raises(UsageError, match=rf"^resume_from=7777: .* keeps no checkpoint .*; there are {newest}, {old}$"):
        WIRINGS["local"]("connect_four", directory, "resume_from=7777")
    assert kept_steps(directory / "checkpoints") == [newest, old]
    file = directory / "checkpoints" / f"{old:09d}" / "average.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(ResumeError, match=r"average\.safetensors has .* use another checkpoint"):
        WIRINGS["local"]("connect_four", directory, f"resume_from={old}")
    shutil.rmtree(directory / "checkpoints")
    with pytest.raises(UsageError, match="there is none at all"):
        RunDirectory(config_of("connect_four", directory, f"resume_from={old}"))
    with pytest.raises(UsageError, match=r"resume_from=-2: must be at least -1"):
        compose(["resume_from=-2"])
