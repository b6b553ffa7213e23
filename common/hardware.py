"""The number formats that the processor computes in, and the GPUs; no numeric library is imported where none is."""

import contextlib
import math
import os
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import NamedTuple

# Linux names of the instructions that multiply bfloat16: x86 (AVX512-BF16, AMX) and ARMv8.6.
BF16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
# The same for sums of products of 8-bit numbers: AVX512-VNNI, AVX-VNNI, AMX, ARMv8.2's dot products.
INT8_FLAGS = frozenset({"avx512_vnni", "avx_vnni", "amx_int8", "asimddp"})
WIDE_FLAGS = frozenset({"avx2", "avx512f"})

# Set in the environment before torch is first imported: how its threads wait for each other (libgomp's manual).  If
# they spin, they take cores from other processes: beside another load, learning on two cores fell to a seventh.  If
# they sleep at once, waking costs more than two threads gain (32 filters x 4: 7,500 rows/s, one thread 10,000).  A spin
# of about 50 microseconds avoids both: 14,400 rows/s, and as many beside another load.
THREADS_WAIT = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "10000"}


NVIDIA_DRIVER = (Path("/proc/driver/nvidia"), Path("/dev/nvidiactl"), Path("/dev/dxg"))  # the last one: WSL


class Precision(NamedTuple):
    """A number format and why it was taken."""

    name: str  # fp32 | bf16 | fp16 | int8
    reason: str  # one clause for the log, without a full stop


def cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """The instruction set extensions that Linux lists; empty if that file cannot be read."""
    try:
        text = cpuinfo.read_text(encoding="ascii", errors="replace")
    except OSError:
        return frozenset()
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def processor_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """As Linux names it, with what it can compute; processors of one name may be set up differently."""
    try:
        text = cpuinfo.read_text(encoding="ascii", errors="replace")
    except OSError:
        text = ""
    name = next((line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")),
                platform.machine())
    return " ".join([name, *sorted(cpu_flags(cpuinfo) & (BF16_FLAGS | INT8_FLAGS | WIDE_FLAGS))])


@cache
def cpu_has_bf16() -> bool:
    """Whether this processor multiplies bfloat16 in hardware; AVX-512 alone does not."""
    return bool(cpu_flags() & BF16_FLAGS)


@cache
def cpu_has_int8() -> bool:
    """Whether this processor multiplies 8-bit numbers faster than others."""
    return bool(cpu_flags() & INT8_FLAGS)


@cache
def core_floats_are_fastest() -> bool:
    """Whether the core's towers of floats are taken to be the fastest on this processor: AVX2 without AVX-512.

    Measured on an AMD EPYC of the first generation (`benchmarks.speed.core_towers`); their registers and the products
    that they spare are those of all such processors.  With AVX-512 others use registers of twice the size, the core's
    towers do not.
    """
    return "avx2" in cpu_flags() and "avx512f" not in cpu_flags()


def choose_precision(wanted: str, device: str, key: str, *, half: str = "fp16") -> Precision:
    """The format to compute in, given `auto`, `fp32`, `bf16`, `fp16` or `int8` and the device `cpu` or `cuda`.

    A format that the device would emulate is replaced by the next best one, and the reason names the setting `key`.
    `half`: what a GPU without bf16 computes in; a learner's gradients need the range of fp32.
    """
    if wanted == "fp32":
        return Precision("fp32", f"{key}=fp32")
    if device != "cpu":
        rejected = f"{key}=int8 is for CPUs; " if wanted == "int8" else ""
        if wanted == "fp16":
            return Precision("fp16", f"{key}=fp16")
        if gpu_has_bf16():
            return Precision("bf16", f"{rejected}the {device} device computes in bf16")
        return Precision(half, f"{rejected}the {device} device does not compute in bf16")
    if wanted == "fp16":
        chosen = choose_precision("auto", device, key)
        return Precision(chosen.name, f"{key}=fp16 is for GPUs; {chosen.reason}")
    if wanted == "int8" and cpu_has_int8():
        return Precision("int8", f"{key}=int8")
    rejected = f"{key}=int8 would be slow on this {platform.machine()} CPU; " if wanted == "int8" else ""
    if cpu_has_bf16():
        return Precision("bf16", f"{rejected}the CPU computes in bf16")
    if wanted == "bf16":
        return Precision("fp32", f"{key}=bf16 would be slow on this {platform.machine()} CPU")
    return Precision("fp32", f"{rejected}this CPU does not compute in bf16")


def visible_gpus() -> int:
    """GPUs that torch can use on this machine; torch is imported only where the driver of one is loaded."""
    if not any(path.exists() for path in NVIDIA_DRIVER):
        return 0
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


@cache
def gpu_has_bf16() -> bool:
    """Whether the first GPU multiplies bfloat16 in hardware: Ampere and later; torch emulates it on older ones."""
    import torch

    return not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] >= 8


class GpuMemory(NamedTuple):
    """Of one GPU, in bytes."""

    free: int
    total: int


def gpu_memory() -> list[GpuMemory]:
    """Of the GPUs that this process may use, as nvidia-smi says; empty where it is not, as without a GPU.

    No context is made on a GPU for this, which would take memory itself.
    """
    command = ["nvidia-smi", "--query-gpu=index,uuid,memory.free,memory.total", "--format=csv,noheader,nounits"]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
        rows = [[word.strip() for word in line.split(",")] for line in asked.stdout.splitlines()]
        found = {name: GpuMemory(int(free) << 20, int(total) << 20)
                 for index, uuid, free, total in rows for name in (index, uuid)}
    except (OSError, subprocess.SubprocessError, ValueError):
        return []
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [name.strip() for name in chosen.split(",")] if chosen else [index for index, *_ in rows]
    return [found[name] for name in names if name in found]


def nice_of_share(nice: int, cpus: float) -> int:
    """The niceness of a process that claims so many CPUs, where one that claims one has `nice`: 0 to 19.

    A tenth of a CPU gets a tenth of the weight, for which a level stands for a factor of 1.25 (Linux,
    kernel/sched/core.c: sched_prio_to_weight).  So many small actors leave the others as much as few large ones do.
    """
    return min(19, nice + round(-math.log(min(cpus, 1.0), 1.25)))


def lower_priority(nice: int) -> None:
    """Gives every thread of this process this niceness, 0 to 19; on Linux it belongs to threads, not to processes."""
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(ProcessLookupError, PermissionError):  # the thread has ended, or is nicer already
            os.setpriority(os.PRIO_PROCESS, int(task.name), nice)
