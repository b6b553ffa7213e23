"""Which part of a run gets which GPU: every number of GPUs trains, and what does not fit is refused."""

import math
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shusaku.common.config.schema import Config, InferenceConfig, LearnerConfig
from shusaku.common.errors import UsageError
from shusaku.common.hardware import GpuMemory, gpu_memory
from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.cluster.layout import layout_of
from shusaku.deploy.cluster.room import Node
from shusaku.deploy.run import devices
from shusaku.deploy.run.devices import devices_of


@pytest.mark.parametrize(
    ("cpus", "gpus", "inference", "learner", "servers", "each", "share"),
    [
        (2, 0, "cpu", "cpu", 1, 0, 0),
        (16, 1, "cuda", "cuda", 1, 0.5, 0.5),
        (4, 1, "cuda", "cuda", 1, 0.5, 0.5),
        (16, 2, "cuda", "cuda", 1, 1, 1),
        (64, 8, "cuda", "cuda", 7, 1, 1),
        (3, 8, "cuda", "cuda", 3, 1, 1),  # three actors ask three servers at most
    ],
)
def test_every_machine_has_a_layout_that_trains(
    cpus: int, gpus: int, inference: str, learner: str, servers: int, each: float, share: float
) -> None:
    layout = layout_of(compose([]), [Node("", cpus)], gpus)
    found = layout.devices
    assert (found.inference, found.learner, found.servers) == (inference, learner, servers)
    assert (found.gpus_per_server, found.learner_gpus) == (each, share)
    assert layout.placement == ("server" if gpus else "actor")
    assert layout.actors == cpus
    settled = found.settle(compose([]))
    assert (settled.inference.device, settled.learner.device) == (inference, learner)
    assert settled.inference.servers == servers
    assert (settled.inference.gpus_per_server, settled.learner.gpus) == (found.gpus_per_server, found.learner_gpus)


@pytest.mark.parametrize(
    ("overrides", "gpus", "inference", "learner", "servers", "each", "share"),
    [
        ("inference.device=cuda learner.device=cpu", 1, "cuda", "cpu", 1, 1, 0),
        ("inference.device=cpu", 1, "cpu", "cuda", 1, 0, 1),
        ("inference.device=cpu learner.device=cpu", 4, "cpu", "cpu", 1, 0, 0),
        ("inference.servers=2", 1, "cuda", "cuda", 2, 0.25, 0.5),
        ("inference.servers=2 inference.gpus_per_server=0.25", 1, "cuda", "cuda", 2, 0.25, 0.5),
        ("inference.servers=7 inference.gpus_per_server=0.25", 2, "cuda", "cuda", 7, 0.25, 0.25),
        ("inference.servers=3", 2, "cuda", "cuda", 3, 0.5, 0.5),
        ("inference.gpus_per_server=0.7", 1, "cuda", "cuda", 1, 0.7, 0.3),
        ("learner.gpus=0.25", 1, "cuda", "cuda", 1, 0.75, 0.25),
        ("learner.enabled=false", 2, "cuda", "cpu", 2, 1, 0),
        ("inference.placement=actor", 1, "cpu", "cuda", 1, 0, 1),
        ("inference.runtime=simulated_gpu", 1, "cpu", "cuda", 1, 0, 1),
        # One that pretends: its claims are those of a GPU, and the learner behind its claim computes on the CPU.
        ("inference.runtime=simulated_gpu inference.device=cuda learner.device=cpu learner.gpus=0.5", 1,
         "cuda", "cpu", 1, 0.5, 0.5),
        ("experiment=alphago_9x9_imitation", 1, "cpu", "cuda", 1, 0, 1),
        ("experiment=alphago_9x9_reinforce policy.from=runs/a", 1, "cpu", "cuda", 1, 0, 1),
    ],
)
def test_what_is_asked_for_is_kept(
    overrides: str, gpus: int, inference: str, learner: str, servers: int, each: float, share: float
) -> None:
    found = devices_of(compose(overrides.split()), gpus)
    assert (found.inference, found.learner, found.servers) == (inference, learner, servers)
    assert (found.gpus_per_server, found.learner_gpus) == (each, pytest.approx(share))


@pytest.mark.parametrize(
    ("overrides", "gpus", "here", "why"),
    [
        ("inference.device=cuda", 0, 0, "inference.device=cuda: there is no GPU; use inference.device=cpu, or auto"),
        ("learner.device=cuda", 0, 0, "learner.device=cuda: there is no GPU; use learner.device=cpu, or auto"),
        ("learner.gpus=1", 0, 0, "a learner with 1 do not fit on the 0 GPUs that there are"),
        ("inference.device=cuda inference.servers=2 inference.gpus_per_server=1", 1, 1,
         "2 inference servers with 1 GPU each and a learner with 0.5 do not fit on the 1 GPUs"),
        ("inference.gpus_per_server=0.6 learner.gpus=0.6", 1, 1, "with 0.6 GPU each and a learner with 0.6 do not fit"),
        ("inference.servers=3 inference.gpus_per_server=0.7 learner.device=cpu", 2, 2, "3 inference servers with 0.7 "),
        ("learner.ranks=4", 2, 2,
         "learner.ranks=4: each needs a GPU to itself, and there are 2; use learner.ranks=2 at most"),
        ("learner.ranks=2 inference.servers=1 inference.gpus_per_server=1", 2, 2,
         "and 2 ranks with 1 do not fit on the 2"),
        ("inference.precision=int8", 1, 1, "inference.precision=int8: a GPU computes in bf16, fp16 or fp32 here"),
        ("gating=win_rate inference.gpus_per_server=0.15", 1, 1, "the gate takes 0.1 of a server's GPU; use at least"),
        ("experiment=alphago_9x9_imitation dataset.records=games learner.device=cuda", 4, 0,
         "this learner reads files of the machine where the command began, which has 0 GPUs"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_numbers(overrides: str, gpus: int, here: int, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        devices_of(compose(overrides.split()), gpus, here)


def test_the_learner_goes_where_a_gpu_is() -> None:
    found = devices_of(compose([]), 4, 0)
    assert (found.inference, found.learner, found.servers, found.learner_gpus) == ("cuda", "cuda", 3, 1)
    assert not found.learner_is_here
    assert found.reason.endswith("; the learner on another machine")
    assert devices_of(compose([]), 4, 1).learner_is_here
    held = devices_of(compose(["learner.device=cpu", "learner.gpus=1"]), 2, 0)
    assert (held.learner, held.learner_is_here) == ("cpu", False), "a claim alone leads it there, too"


@pytest.mark.parametrize("overrides", [
    ["experiment=alphago_9x9_imitation", "dataset.records=games"], ["replay.url=redis://127.0.0.1:6379/0"],
    ["replay.url=unix:///run/redis.sock"],
])
def test_a_learner_that_needs_this_machine_stays_here(overrides: list[str]) -> None:
    found = devices_of(compose(overrides), 4, 0)
    assert (found.learner, found.learner_is_here) == ("cpu", True)
    with pytest.raises(UsageError, match=r"this learner rea.* the machine where the command began, which has 0 GPUs"):
        devices_of(compose([*overrides, "learner.device=cuda"]), 4, 0)


@given(st.integers(0, 9), st.integers(0, 12), st.integers(1, 40), st.sampled_from(["auto", "cpu"]),
       st.sampled_from(["auto", "cpu"]))
def test_a_layout_fits_on_its_gpus_or_is_refused(
    gpus: int, servers: int, most: int, inference: str, learner: str
) -> None:
    config = Config(inference=InferenceConfig(device=inference, servers=servers), learner=LearnerConfig(device=learner))
    found = devices_of(config, gpus, most_servers=most)
    free = [1.0] * gpus
    claims = [found.learner_gpus, *[found.gpus_per_server] * found.servers]  # as Ray packs them: largest first
    for claim in sorted(filter(None, claims), reverse=True):
        place = next((place for place, left in enumerate(free) if left >= claim - 1e-9), None)
        assert place is not None, found
        free[place] -= claim
    assert found.servers == (servers or max(1, min(most, found.servers)))
    if inference == "auto" and gpus:
        assert found.gpus_per_server > 0
        assert servers or found.servers == min(most, max(1, gpus - (found.learner_gpus == 1)))


def test_one_process_says_that_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "visible_gpus", lambda: 0)
    for section in ("inference", "learner"):
        with pytest.raises(UsageError, match=f"{section}.device=cuda: torch finds no GPU that it can use"):
            devices.settle_here(compose([f"{section}.device=cuda"]))
    assert devices.settle_here(compose([])).learner.device == "cpu"
    monkeypatch.setattr(devices, "visible_gpus", lambda: 4)
    settled = devices.settle_here(compose([]))
    assert (settled.inference.device, settled.inference.servers, settled.learner.device) == ("cuda", 1, "cuda")
    assert (settled.inference.gpus_per_server, settled.learner.gpus) == (0, 0), "one process, one memory"


@pytest.mark.parametrize("gpus", [1, 2, 8])
def test_what_was_settled_for_a_cluster_can_be_measured_by_one_process(
    gpus: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`shusaku plan`: several servers with a whole GPU each, of which one process measures one on the first GPU."""
    monkeypatch.setattr(devices, "visible_gpus", lambda: gpus)
    config = devices_of(compose([]), gpus).settle(compose([]))
    settled = devices.settle_here(config)
    assert (settled.inference.device, settled.inference.servers, settled.inference.gpus_per_server) == ("cuda", 1, 0)


@pytest.mark.parametrize(("free", "overrides", "is_refused"), [
    (79, "", False), (10, "", True), (10, "inference.device=cpu learner.device=cpu", False),
    (30, "inference.device=cpu learner.gpus=0.5", False), (0.5, "inference.device=cpu learner.gpus=0.01", True),
])
def test_memory_that_others_hold_is_refused(free: float, overrides: str, is_refused: bool) -> None:
    found = devices_of(compose(overrides.split()), 1)
    memory = [GpuMemory(int(free * 2**30), 80 << 30)]
    if is_refused:
        with pytest.raises(UsageError, match=r"GPU 0: .* of 80.0 GB of its memory are free"):
            devices.check_memory(found, memory)
    else:
        devices.check_memory(found, memory)
    devices.check_memory(found, [])  # nvidia-smi is not there


def test_nvidia_smi_says_what_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho '0, GPU-aa, 1000, 8000'\necho '1, GPU-bb, 2000, 16000'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    first, second = GpuMemory(1000 << 20, 8000 << 20), GpuMemory(2000 << 20, 16_000 << 20)
    assert gpu_memory() == [first, second]
    for chosen, expected in (("1", [second]), ("GPU-bb,0", [second, first]), ("7", [])):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
        assert gpu_memory() == expected
    program.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed'; exit 9\n")
    assert gpu_memory() == []
    program.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpu_memory() == []


def test_more_gpus_never_mean_fewer_servers() -> None:
    counts = [devices_of(compose([]), gpus).servers for gpus in range(1, 17)]
    assert all(fewer <= more for fewer, more in pairwise(counts))
    assert counts[-1] == 15
    assert math.isclose(devices_of(compose([]), 16).learner_gpus, 1)


def test_a_runtime_that_is_not_installed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"inference\.runtime=openvino: the package openvino is not installed"):
        devices_of(compose(["inference.runtime=openvino"]), 0)
    assert devices_of(compose([]), 0).inference == "cpu"
