"""NVIDIA's Multi-Process Service: where it runs, kernels of several processes run side by side on one GPU.

Without it the driver gives the processes turns.
Source: NVIDIA, "Multi-Process Service", appendix "Tools and Interface Reference", environment variables.
"""

import os
from pathlib import Path

# What a learner takes of its share: half of the threads would double the time of a batch that players wait for.  A
# lower priority (CUDA_MPS_CLIENT_PRIORITY) is no way: beside a server that is always busy it made no step at all.
OF_ITS_SHARE = 0.8
PIPES = "/tmp/nvidia-mps"  # unless CUDA_MPS_PIPE_DIRECTORY names another directory


def mps_runs() -> bool:
    """Whether its daemon runs on this machine."""
    return (Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY") or PIPES) / "control").exists()


def yield_to_others(share: float) -> None:
    """Takes four fifths of its `share` of the GPU's threads and leaves the rest to other processes on it.

    Nothing happens unless MPS runs, or to a process with a GPU of its own.  Called before CUDA is first used; what the
    user has set stays.
    """
    if mps_runs() and 0 < share < 1:
        os.environ.setdefault("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", f"{100 * OF_ITS_SHARE * share:.0f}")
