"""Planes in the order and the numbers of a network's input."""

import numpy as np
import torch

from shusaku.actors.evaluators.channels_last import channels_last, input_type


def test_the_order_and_the_rounding_are_torchs() -> None:
    planes = np.random.default_rng(1).standard_normal((3, 5, 2, 4)).astype(np.float32)  # [B, C, H, W]
    planes[0, 0, 0, :3] = [1 + 2**-8, 1 + 3 * 2**-8, -(1 + 2**-8)]  # half-way: to even
    expected = torch.from_numpy(planes).permute(0, 2, 3, 1).contiguous()  # [B, H, W, C]
    same = channels_last(planes, np.empty(0, input_type("fp32")))
    assert same.dtype == np.float32
    np.testing.assert_array_equal(same, expected.numpy())
    half = channels_last(planes, np.empty(0, input_type("bf16")))
    assert half.dtype == np.uint16
    np.testing.assert_array_equal(half.view(np.int16), expected.bfloat16().view(torch.int16).numpy())
