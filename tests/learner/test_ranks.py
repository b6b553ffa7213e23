"""Several ranks make the steps of one learner that has all rows: the same loss, gradient, statistics, network."""

import contextlib
import dataclasses
import gc
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from shusaku.common import _core
from shusaku.common._core import Game
from shusaku.common.config.schema import Config, LearnerConfig, NetworkConfig
from shusaku.common.network.network import Network, named_tensors
from shusaku.learner import collectives, shared_table
from shusaku.learner.collectives import Collectives, Store, open_store
from shusaku.learner.follower import Follower
from shusaku.learner.global_norm import GlobalNorm, share_norms
from shusaku.learner.learner import Learner
from shusaku.learner.ranks import RankedLearner
from shusaku.learner.state_copy import Diverged

GAME = Game("connect_four")
CONFIG = LearnerConfig(precision="fp32", warmup_steps=5, batch_size=24, max_bad_steps=3, max_grad_norm=0.5)
NETWORK = NetworkConfig(filters=8, blocks=2, value_hidden=16)

pytestmark = pytest.mark.usefixtures("one_thread")


@dataclass
class Rows:
    observations: NDArray[Any]
    policy: NDArray[Any]
    outcome: NDArray[Any]
    weight: NDArray[Any]

    def share(self, rank: int, size: int) -> "Rows":
        return Rows(**{name: column[rank::size] for name, column in vars(self).items()})


def rows(seed: int, count: int = 24, dtype: Any = np.float32) -> Rows:
    random = np.random.default_rng(seed)
    return Rows(
        observations=(random.random((count, *GAME.observation_shape)) < 0.4).astype(dtype),
        policy=random.dirichlet(np.full(GAME.num_actions, 0.3), count).astype(dtype),
        outcome=random.integers(-1, 2, count).astype(dtype),
        weight=random.uniform(0.5, 2, count).astype(dtype),
    )


@pytest.fixture(autouse=True, params=["shared memory", "gloo"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How the ranks of the test talk: as those of one host, or as those of several."""
    if request.param == "gloo":
        monkeypatch.setattr(collectives, "open_table", lambda *_: None)
    elif not hasattr(_core, "SharedTable"):
        pytest.skip("ranks share memory on Linux only")
    return str(request.param)


@pytest.fixture
def stores() -> Callable[..., list[Store]]:
    """Makes the meeting place of a new group: one end for each of `size` ranks."""
    def make(size: int = 2) -> list[Store]:
        first = open_store("127.0.0.1")
        return [first, *(open_store("127.0.0.1", first.port) for _ in range(size - 1))]

    return make


def in_ranks(stores: list[Store], job: Callable[[Collectives], Any], seconds: float = 30.0) -> list[Any]:
    """What the job returns in each rank, which is a thread here."""
    with ThreadPoolExecutor(len(stores)) as pool:
        return list(pool.map(lambda rank: job(Collectives(stores[rank], rank, len(stores), seconds=seconds)),
                             range(len(stores))))


def parameters(learner: Learner) -> torch.Tensor:
    return torch.cat([tensor.detach().flatten() for _, tensor in named_tensors(learner.network)])


def network(dtype: torch.dtype = torch.float32, config: NetworkConfig = NETWORK) -> Network:
    return Network(GAME.observation_shape, GAME.num_actions, config, seed=2).to(dtype)


def difference(one: torch.Tensor, other: torch.Tensor) -> float:
    """The relative L2 error."""
    return float((one - other).norm() / one.norm())


@pytest.mark.parametrize(("dtype", "optimizer", "bound", "size"), [
    (np.float64, "adamw", 1e-8, 2), (np.float64, "adamw", 1e-8, 3), (np.float32, "sgd", 1e-3, 2),
    (np.float64, "muon", 1e-8, 2)])
def test_a_hundred_steps_are_those_of_one_learner_with_all_rows(
    stores: Any, dtype: Any, optimizer: str, bound: float, size: int
) -> None:
    """Clipped by the norm of the whole gradient.  In fp32, AdamW turns the rounding of a sum into whole steps."""
    config = dataclasses.replace(CONFIG, optimizer=optimizer)
    precision = torch.float64 if dtype is np.float64 else torch.float32
    batches = [rows(seed, dtype=dtype) for seed in range(100)]
    alone = Learner(network(precision), GAME, config)
    begin = parameters(alone).clone()
    for batch in batches:
        assert alone.step(batch)  # type: ignore[arg-type]

    def learn(ranks: Collectives) -> tuple[torch.Tensor, dict[str, float]]:
        learner = RankedLearner(network(precision), GAME, config, ranks)
        for batch in batches:
            assert learner.step(batch.share(ranks.rank, size))  # type: ignore[arg-type]
        return parameters(learner), learner.metrics()

    (first, metrics), *others = in_ranks(stores(size), learn)
    assert all(torch.equal(first, other) for other, _ in others), "the ranks have the same bits"
    assert difference(parameters(alone), first) <= bound
    assert difference(parameters(alone), begin) > 100 * bound, "a test of steps that change nothing proves nothing"
    expected = alone.metrics()
    for name in ("loss/total", "loss/policy", "loss/value", "grad_norm"):
        assert metrics[name] == pytest.approx(expected[name], rel=1e-5)


def test_a_shared_norm_is_the_batch_norm_of_all_rows(stores: Any) -> None:
    x = torch.randn(12, 5, 3, 4, dtype=torch.float64) * 3 + 100  # a mean that a sum of squares would drown in
    x = x.contiguous(memory_format=torch.channels_last)
    weights = torch.randn(12, 5, 3, 4, dtype=torch.float64)
    own = torch.nn.BatchNorm2d(5).double()
    own.num_batches_tracked = None
    with torch.no_grad():
        own.weight.uniform_(0.5, 2)
        own.bias.uniform_(-1, 1)
    state = {name: tensor.detach().clone() for name, tensor in named_tensors(own)}
    expected = x.clone().requires_grad_()
    (own(expected) * weights).sum().backward()

    def run(ranks: Collectives) -> tuple[Any, ...]:
        norm = torch.nn.Sequential(torch.nn.BatchNorm2d(5).double())
        norm[0].num_batches_tracked = None
        for name, tensor in named_tensors(norm[0]):
            tensor.data.copy_(state[name])
        share_norms(norm, ranks)
        assert type(norm[0]) is GlobalNorm
        part = x[ranks.rank::2].clone().requires_grad_()
        y = norm(part)
        (y * weights[ranks.rank::2]).sum().backward()
        return y.detach(), part.grad, norm[0].weight.grad, norm[0].bias.grad, norm[0].running_mean, norm[0].running_var

    one, two = in_ranks(stores(), run)
    own.eval()
    for rank, (_, gradient, _, _, mean, variance) in enumerate((one, two)):
        assert torch.allclose(gradient, expected.grad[rank::2], rtol=1e-9, atol=1e-12)  # type: ignore[index]
        assert torch.allclose(mean, own.running_mean, rtol=1e-12)  # type: ignore[arg-type]
        assert torch.allclose(variance, own.running_var, rtol=1e-9)  # type: ignore[arg-type]
    assert torch.allclose(one[2] + two[2], own.weight.grad, rtol=1e-9)  # type: ignore[arg-type]
    assert torch.allclose(one[3] + two[3], own.bias.grad, rtol=1e-9)  # type: ignore[arg-type]


def test_bf16_activations_have_statistics_in_fp32(stores: Any) -> None:
    x = (torch.randn(64, 4, 6, 7) + 30).to(torch.bfloat16).contiguous(memory_format=torch.channels_last)

    def run(ranks: Collectives) -> torch.Tensor:
        norm = torch.nn.Sequential(torch.nn.BatchNorm2d(4))
        norm[0].num_batches_tracked = None
        share_norms(norm, ranks)
        y: torch.Tensor = norm(x[ranks.rank::2])
        assert y.dtype == torch.bfloat16
        assert norm[0].running_mean.dtype == torch.float32
        return y

    parts = in_ranks(stores(), run)
    together = torch.stack(parts, 1).flatten(0, 1).float()
    assert together.mean((0, 2, 3)).abs().max() < 0.02
    assert (together.std((0, 2, 3)) - 1).abs().max() < 0.02


def test_a_step_that_one_rank_finds_not_finite_is_skipped_by_all(stores: Any) -> None:
    def learn(ranks: Collectives) -> tuple[bool, int, torch.Tensor, torch.Tensor]:
        learner = RankedLearner(network(), GAME, CONFIG, ranks)
        learner.step(rows(1).share(ranks.rank, 2))  # type: ignore[arg-type]
        before, batch = parameters(learner).clone(), rows(2).share(ranks.rank, 2)
        if ranks.rank == 1:
            batch.observations[0] = np.nan
        done = learner.step(batch)  # type: ignore[arg-type]
        return done, learner.skipped_steps, before, parameters(learner)

    for done, skipped, before, after in in_ranks(stores(), learn):
        assert (done, skipped) == (False, 1)
        assert torch.equal(before, after)


class Source:
    """The buffer of a follower: its share of the same batches, the first of which come late."""

    def __init__(self, batches: list[Rows], rank: int, late: int) -> None:
        self._batches, self._rank, self._late, self._next = batches, rank, late, 0

    def sample(self, batch_size: int, seed: int) -> Rows | None:
        if self._late:
            self._late -= 1
            return None
        self._next += 1
        return self._batches[self._next - 1].share(self._rank, 2) if self._next <= len(self._batches) else None


def with_follower(
    stores: Any, batches: list[Rows], lead: Callable[[RankedLearner], Any], config: LearnerConfig = CONFIG,
    late: int = 0,
) -> tuple[Any, RankedLearner]:
    """What `lead` returns in rank 0, and the learner of rank 1 that has followed it."""
    ends = stores()
    followers = []

    def follow() -> None:
        ranks = Collectives(ends[1], 1, 2)
        other = network(config=dataclasses.replace(NETWORK))
        with torch.no_grad():
            for parameter in other.parameters():
                parameter.mul_(3)  # rank 0 sends what it has
        learner = RankedLearner(other, GAME, config, ranks)
        followers.append(learner)
        buffer: Any = Source(batches, 1, late)
        Follower(Config(learner=dataclasses.replace(config, prefetch=0)), learner, buffer).run()

    thread = threading.Thread(target=follow)
    thread.start()
    learner = RankedLearner(network(), GAME, config, Collectives(ends[0], 0, 2))
    try:
        result = lead(learner)
    finally:
        learner.end()
        thread.join(30)
    assert not thread.is_alive()
    return result, followers[0]


def test_the_others_begin_with_the_state_of_rank_0_and_take_its_rate(stores: Any) -> None:
    batches = [rows(seed) for seed in range(6)]

    def lead(learner: RankedLearner) -> RankedLearner:
        for number, batch in enumerate(batches):
            learner.run_share = number / 6  # which the others do not know
            while not learner.may_step():
                pass
            learner.run_share = 0.99  # a heartbeat came between the order and the step
            assert learner.step(batch.share(0, 2))  # type: ignore[arg-type]
        return learner

    config = dataclasses.replace(CONFIG, schedule="cooldown", cooldown_share=1.0)
    leader, follower = with_follower(stores, batches, lead, config)
    assert torch.equal(parameters(leader), parameters(follower))
    assert follower.step_count == leader.step_count == 6


def test_no_rank_steps_before_all_have_rows(stores: Any) -> None:
    batches = [rows(1), rows(2)]

    def lead(learner: RankedLearner) -> list[bool]:
        answers = [learner.may_step() for _ in range(4)]
        assert learner.step(batches[0].share(0, 2))  # type: ignore[arg-type]
        return answers

    answers, follower = with_follower(stores, batches, lead, late=3)
    assert answers == [False, False, False, True]
    assert follower.step_count == 1


def test_after_a_rollback_all_go_on_from_the_same_state(stores: Any) -> None:
    batches = [rows(seed) for seed in range(8)]
    for batch in batches[2:5]:
        batch.observations[:] = np.nan

    def lead(learner: RankedLearner) -> RankedLearner:
        saved = None
        for batch in batches:
            assert learner.may_step()
            try:
                learner.step(batch.share(0, 2))  # type: ignore[arg-type]
            except Diverged:
                assert saved is not None
                learner.restore(saved)
                learner.rate_factor = 0.5
            saved = saved or learner.state()
        return learner

    leader, follower = with_follower(stores, batches, lead)
    assert leader.skipped_steps == 3
    assert torch.equal(parameters(leader), parameters(follower))
    assert leader.step_count == follower.step_count == 1 + 3


def test_a_rank_that_has_ended_is_an_error_of_the_others(stores: Any) -> None:
    def run(ranks: Collectives) -> str:
        if ranks.rank == 1:
            return ""
        with pytest.raises(RuntimeError):
            ranks.sum(torch.ones(3))
        return "raised"

    assert in_ranks(stores(), run, seconds=3.0) == ["raised", ""]


def test_a_rank_that_does_not_come_is_an_error_in_time(stores: Any) -> None:
    waiting = threading.Event()

    def run(ranks: Collectives) -> str:
        if ranks.rank == 1:
            waiting.wait(30)
            return ""
        with pytest.raises(RuntimeError):
            ranks.sum(torch.ones(3))
        waiting.set()
        return "raised"

    assert in_ranks(stores(), run, seconds=1.0) == ["raised", ""]


def test_tensors_of_any_size_are_added_and_gathered_in_the_order_of_the_ranks(stores: Any, way: str) -> None:
    """Larger ones go through shared memory in parts."""
    def run(ranks: Collectives) -> tuple[torch.Tensor, torch.Tensor, int]:
        assert ranks.way == way
        own = torch.arange(700_001, dtype=torch.float32) * (ranks.rank + 1)
        assert ranks.sum(own) is own
        table = ranks.gather(torch.full((2, 3), float(ranks.rank), dtype=torch.float64))
        return own, table, ranks.least(7 - ranks.rank)

    expected = torch.arange(700_001, dtype=torch.float32) * 6
    for total, table, least in in_ranks(stores(3), run):
        assert torch.equal(total, expected)
        assert torch.equal(table, torch.arange(3, dtype=torch.float64)[:, None, None].expand(3, 2, 3))
        assert least == 5


def join_and_die(port: int) -> None:
    ranks = Collectives(open_store("127.0.0.1", port), 1, 2)
    ranks.sum(torch.ones(3))
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("way", ["shared memory"], indirect=True)  # of the other process, too
def test_a_rank_that_is_killed_is_missed_at_once() -> None:
    store = open_store("127.0.0.1")
    process = multiprocessing.get_context("spawn").Process(target=join_and_die, args=(store.port,))
    process.start()
    ranks = Collectives(store, 0, 2)
    assert ranks.sum(torch.ones(3)).tolist() == [2, 2, 2]
    process.join(30)
    begin = time.monotonic()
    with pytest.raises(RuntimeError, match="rank 1 has ended"):
        ranks.sum(torch.ones(3))
    assert time.monotonic() - begin < 2


def open_files() -> list[str]:
    names = []
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            names.append(os.readlink(path))
    return names


@pytest.mark.parametrize("way", ["shared memory"], indirect=True)
@pytest.mark.parametrize("place", ["", "{}", "not JSON", "of another host", "of another file"])
def test_ranks_that_cannot_share_memory_talk_by_gloo(place: str, stores: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = shared_table._place

    def say(descriptor: int) -> dict[str, Any]:
        facts = found(descriptor)
        if place == "of another host":
            facts["boot"] = "another"
        elif place == "of another file":
            facts["inode"] += 1
        return facts

    monkeypatch.setattr(shared_table, "_place", say)
    if "another" not in place:
        monkeypatch.setattr(shared_table.json, "dumps", lambda _: place)
    found_ways = in_ranks(stores(), lambda ranks: (ranks.way, ranks.sum(torch.ones(2)).tolist()))
    assert found_ways == [("gloo", [2, 2])] * 2
    gc.collect()
    assert not [name for name in open_files() if "shusaku-ranks" in name], "nothing stays open"
