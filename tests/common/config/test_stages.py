"""What `run.grow` may say."""

import pytest

from shusaku.common.config.stages import Stage, read_stages
from shusaku.common.errors import UsageError
from shusaku.deploy.cli.overrides import compose


def test_stages_are_minutes_and_sizes() -> None:
    assert read_stages(["0.5:8x2", "20:8x5", "120:96x5"]) == [Stage(0.5, 8, 2), Stage(20, 8, 5), Stage(120, 96, 5)]
    assert read_stages([]) == []


@pytest.mark.parametrize(("grow", "said"), [
    ("[20]", r"must be MINUTES:FILTERSxBLOCKS each, such as 20:64x5, and 20 is not"),
    ("[20:64]", r"and 20:64 is not"),
    ("[-1:64x5]", r"and -1:64x5 is not"),
    ("[20:64x5x6]", r"and 20:64x5x6 is not"),
    ("[0:64x5]", r"minutes must be above 0"),
    ("[20:5000x5]", r"filters 1 to 4096"),
    ("[20:64x300]", r"blocks at most 256"),
    ("[20:64x5,20:96x5]", r"20:96x5 must be later than the one before"),
    ("[20:64x5,40:64x5]", r"40:64x5 must be later than the one before, and larger"),
    ("[20:64x5,40:96x4]", r"40:96x4 must be later"),
    ("[20:32x4]", r"must begin with a network larger than that of the start, network.filters=32 network.blocks=4"),
    ("[20:16x8]", r"smaller in neither"),
])
def test_what_cannot_grow_is_refused_before_anything_starts(grow: str, said: str) -> None:
    with pytest.raises(UsageError, match=rf"^run\.grow=.*{said}"):
        compose(["network.filters=32", "network.blocks=4", f"run.grow={grow}"])


def test_players_of_one_size_do_not_grow() -> None:
    with pytest.raises(UsageError, match=r"run\.grow=.*gating=win_rate compares networks of one size"):
        compose(["network.filters=32", "network.blocks=4", "run.grow=[20:64x5]", "gating=win_rate"])
