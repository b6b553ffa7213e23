"""The positions of several requests as one batch, and the check of its answer."""

from collections.abc import Sequence

import numpy as np

from shusaku.common._core import Game
from shusaku.common.messages import Leaves


def concat_leaves(parts: Sequence[Leaves]) -> Leaves:
    """The leaves of all parts in order; new arrays unless there is only one part."""
    if len(parts) == 1:
        return parts[0]
    offsets = np.zeros(1 + sum(map(len, parts)), np.int32)
    begin = 0
    for part in parts:
        end = begin + len(part)
        np.add(part.offsets[1:], offsets[begin], out=offsets[begin + 1 : end + 1])
        begin = end
    return Leaves(
        np.concatenate([part.packed for part in parts]),
        np.concatenate([part.uniform for part in parts]),
        offsets,
        np.concatenate([part.actions for part in parts]),
    )


def sample_leaves(game: Game, count: int) -> Leaves:
    """The first position of the game, `count` times."""
    position = game.start()
    planes = position.observation()  # [C, H, W], binary planes first
    binary = len(planes) - game.num_uniform_planes
    packed = np.packbits(planes[:binary].reshape(-1) > 0, bitorder="little")
    legal = np.array(position.legal_actions, np.uint16)
    return Leaves(
        np.tile(packed, (count, 1)),
        np.tile(planes[binary:, 0, 0].astype(np.float32), (count, 1)),
        np.arange(count + 1, dtype=np.int32) * np.int32(len(legal)),
        np.tile(legal, count),
    )
