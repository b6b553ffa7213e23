"""Rounding to 8 bits: what evaluators carry out, and the learner measures the error of."""

import numpy as np
from numpy.typing import NDArray

INPUT_STEPS = 255  # of the input of a convolution, from 0 to its scale
KERNEL_STEPS = 127  # of a kernel, from 0 to the largest of its output channel, and as many below 0


def rounded_kernel(kernel: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """[O, I, 3, 3] in whole steps, and the size of a step of each output channel [O, 1, 1, 1]."""
    largest = np.maximum(np.abs(kernel).max((1, 2, 3), keepdims=True), 1e-12).astype(np.float32)
    step = largest / np.float32(KERNEL_STEPS)
    return np.round(kernel / step).astype(np.int8), step
