"""NVIDIA's Multi-Process Service: where it runs, kernels of several processes run side by side on one GPU.

Without it the driver gives the processes turns.
Source: NVIDIA, "Multi-Process Service", appendix "Tools and Interface Reference", environment variables.
"""

import os
from pathlib import Path

# Of its share, which the learner takes: half of the threads would double the time of a batch that players wait for.  A
# lower priority (CUDA_MPS_CLIENT_PRIORITY) is no way: beside a server that is always busy it learned nothing at all.
YIELDS = 0.8
PIPES = "/tmp/nvidia-mps"  # unless CUDA_MPS_PIPE_DIRECTORY names another directory


def mps_runs() -> bool:
    """Whether its daemon runs on this machine."""
    return (Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY") or PIPES) / "control").exists()


def yield_to_others(share: float) -> None:
    """Leaves other processes on the GPU more than all but `share` of its threads, and their kernels run beside its own.

    Nothing happens unless MPS runs, or to a process with a GPU of its own.  Called before CUDA is first used; what the
    user has set stays.
    """
    if mps_runs() and 0 < share < 1:
        os.environ.setdefault("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", f"{100 * YIELDS * share:.0f}")
