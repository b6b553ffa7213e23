"""The memory of a device: whose share is how much, and how it says that there is no more."""

import torch

from shusaku.common.device_failure import MEMORY_TEXTS
from shusaku.common.mps import mps_runs


def limit_memory(share: float, device: torch.device) -> str:
    """Bounds what this process may take of a GPU's memory, where it has a share of the GPU alone; says so.

    A process that shares a GPU must not take what the other one begins with later: torch keeps what it has freed.
    """
    if device.type != "cuda" or not 0 < share < 1:
        return ""
    index = torch.cuda.current_device() if device.index is None else device.index
    torch.cuda.set_per_process_memory_fraction(share, index)
    turns = "beside others by MPS" if mps_runs() else "in turns with others"
    return f", at most {100 * share:.0f} % of its memory, {turns}"


def is_out_of_memory(error: RuntimeError) -> bool:
    """Pinned memory, cuBLAS, cuDNN and the capture of a graph report it as plain RuntimeErrors."""
    return isinstance(error, torch.OutOfMemoryError) or any(
        text in str(error) for text in MEMORY_TEXTS)
