"""How a device says that it computes no more: unlike a batch that fails, everything after it fails as well."""


class DeviceFailedError(RuntimeError):
    """A device that pretends, or is scripted, has failed."""


# What CUDA, cuDNN and cuBLAS say after an illegal access, a launch that failed, an uncorrectable memory error (Xid 48,
# 63, 94) or a GPU that fell off the bus (Xid 79): the context of the process is lost.
TEXTS = ("CUDA error", "CUDNN_STATUS_EXECUTION_FAILED", "CUDNN_STATUS_INTERNAL_ERROR", "NVML_ERROR_GPU_IS_LOST")
MEMORY_TEXTS = ("out of memory", "ALLOC_FAILED")  # a smaller batch may still fit


def is_device_failure(error: BaseException) -> bool:
    """Whether no later call on this device can succeed in this process."""
    text = str(error)
    if isinstance(error, DeviceFailedError):
        return True
    return isinstance(error, RuntimeError) and any(one in text for one in TEXTS) and not any(
        one in text for one in MEMORY_TEXTS)


def first_line(error: BaseException) -> str:
    """What a device or a compiler says, without the traces behind it."""
    return str(error).strip().partition("\n")[0]
