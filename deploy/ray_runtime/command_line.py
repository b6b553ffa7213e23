"""Masks the secrets in the command line of this process, which `ps` and Ray's dashboard show."""

import ctypes
import os
from pathlib import Path

from shusaku.common.masking import mask_override

ARG_START, ARG_END = 48 - 3, 49 - 3  # proc_pid_stat(5) counts from 1, and we read behind the second field


def mask_command_line() -> None:
    """Overwrites each secret where the kernel reads the command line; `sys.argv` keeps it."""
    fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    address, end = int(fields[ARG_START]), int(fields[ARG_END])
    for word in ctypes.string_at(address, end - address).split(b"\0"):
        text = os.fsdecode(word)
        masked = mask_override(text)
        if masked != text:
            ctypes.memmove(address, os.fsencode(masked).ljust(len(word))[:len(word)], len(word))
        address += len(word) + 1
