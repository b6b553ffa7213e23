"""A thread's share of the processor."""

import time

import pytest

from shusaku.common.cpu_share import CpuShare


class Machine:
    """Its clock goes on while somebody works or waits."""

    def __init__(self) -> None:
        self.used = self.now = 5.0
        self.waits: list[float] = []

    def work(self, seconds: float, beside_others: float = 0.0) -> None:
        self.used += seconds
        self.now += seconds + beside_others

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    def share(self, share: float) -> CpuShare:
        return CpuShare(share, self.wait, used=lambda: self.used, clock=lambda: self.now)


def test_it_rests_until_the_share_is_kept() -> None:
    machine = Machine()
    share = machine.share(0.1)
    for _ in range(50):
        machine.work(0.3)
        share.rest()
        assert machine.used - 5 == pytest.approx(0.1 * (machine.now - 5))
    assert machine.waits == pytest.approx([2.7] * 50)


def test_it_does_not_rest_where_others_leave_it_less() -> None:
    machine = Machine()
    share = machine.share(0.1)
    for _ in range(50):
        machine.work(0.3, beside_others=4.0)
        share.rest()
    assert machine.waits == []


def test_the_whole_of_a_core_needs_no_rest() -> None:
    machine = Machine()
    share = machine.share(1.0)
    machine.work(3.0)
    share.rest()
    assert machine.waits == []


def test_a_real_thread() -> None:
    """Less than the share if the machine is busy."""
    share, begin, used = CpuShare(0.2, time.sleep), time.monotonic(), time.thread_time()
    while time.monotonic() < begin + 1.0:
        until = time.thread_time() + 0.02
        while time.thread_time() < until:
            pass
        share.rest()
    assert (time.thread_time() - used) / (time.monotonic() - begin) < 0.25
