"""How a device says that it has no more memory."""

import torch


def is_out_of_memory(error: RuntimeError) -> bool:
    """Pinned memory, cuBLAS, cuDNN and the capture of a graph report it as plain RuntimeErrors."""
    return isinstance(error, torch.OutOfMemoryError) or any(
        text in str(error) for text in ("out of memory", "ALLOC_FAILED"))
