"""The memory of a device: whose share is how much, and how it says that there is no more."""

import ctypes
import sys

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


def keep_freed_memory() -> None:
    """Lets this process keep what it frees, up to blocks of 32 MB, for what it allocates next; glibc only.

    A gradient step frees and allocates the same tens of megabytes again and again.  By its defaults glibc gives them
    back to the system, which clears each page anew when it is touched: 8,700 page faults in a step of 64 filters x 5
    blocks, and a fifth of its time.  32 MB is the most that glibc takes (malloc/malloc.c: HEAP_MAX_SIZE / 2).
    """
    if sys.platform != "linux":
        return
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if set_option is not None:
        for option, value in ((-3, 32 << 20), (-1, 1 << 30)):  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD
            set_option(option, value)


def is_out_of_memory(error: RuntimeError) -> bool:
    """Pinned memory, cuBLAS, cuDNN and the capture of a graph report it as plain RuntimeErrors."""
    return isinstance(error, torch.OutOfMemoryError) or any(
        text in str(error) for text in MEMORY_TEXTS)
