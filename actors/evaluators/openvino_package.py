"""OpenVINO, without the usage data that its wheels send.

`import openvino` posts an event to Google Analytics from a forked process, unless the package openvino-telemetry is
missing (openvino/tools/ovc/telemetry_utils.py).  A run must ask nothing of the network; and a fork of a process with
threads can wait for a lock forever, so that the process never ends.
"""

import sys

sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]  # as if it was missing

import openvino as ov  # noqa: E402  (after the line above)
from openvino import opset13 as op  # noqa: E402

__all__ = ["op", "ov"]
