"""`run.grow`: the larger networks that a run goes on with, each from a moment of its training time on.

    run.grow=[20:64x5,120:96x6]     from 20 minutes on 64 filters and 5 blocks, from 120 on 96 and 6
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

_STAGE = re.compile(r"(\d{1,6}(?:\.\d{1,6})?):(\d{1,4})x(\d{1,3})")
MOST_FILTERS, MOST_BLOCKS = 4096, 256


class Stage(NamedTuple):
    """A size of the network, and the minutes of training from which it holds."""

    minutes: float
    filters: int
    blocks: int


def read_stages(texts: Sequence[str]) -> list[Stage]:
    """ValueError, which says what is expected, unless each is later than the one before, and larger."""
    stages = []
    for text in texts:
        found = _STAGE.fullmatch(str(text))
        if found is None:
            raise ValueError(f"must be MINUTES:FILTERSxBLOCKS each, such as 20:64x5, and {text} is not")
        stage = Stage(float(found[1]), int(found[2]), int(found[3]))
        if stage.minutes == 0 or not 1 <= stage.filters <= MOST_FILTERS or stage.blocks > MOST_BLOCKS:
            raise ValueError(f"{text}: minutes must be above 0, filters 1 to {MOST_FILTERS}, blocks at most "
                             f"{MOST_BLOCKS}")
        stages.append(stage)
    for before, stage in pairwise(stages):
        if stage.minutes <= before.minutes or not is_larger(stage, before):
            raise ValueError(f"{stage.minutes:g}:{stage.filters}x{stage.blocks} must be later than the one before, and "
                             "larger in filters or blocks and smaller in neither")
    return stages


def check_first(stages: Sequence[Stage], filters: int, blocks: int) -> None:
    """ValueError unless the first stage is larger than the network that the run begins with."""
    if stages and not is_larger(stages[0], Stage(0, filters, blocks)):
        raise ValueError(f"must begin with a network larger than that of the start, network.filters={filters} "
                         f"network.blocks={blocks}, and smaller in neither")


def is_larger(stage: Stage, before: Stage) -> bool:
    """In filters or blocks, and smaller in neither."""
    return (stage.filters >= before.filters and stage.blocks >= before.blocks
            and (stage.filters, stage.blocks) != (before.filters, before.blocks))
