"""`shusaku`, and `python -m shusaku`: a signal is answered from the first moment, while the rest is being imported."""

import os
import signal
import sys
from types import FrameType

_ANSWERS = {signal.SIGINT: ("Ctrl-C", 130), signal.SIGTERM: ("SIGTERM", 143), signal.SIGHUP: ("SIGHUP", 143)}


def main() -> int:
    """Runs the command line; returns its exit code."""
    before = {number: signal.signal(number, _end) for number in _ANSWERS
              if signal.getsignal(number) is not signal.SIG_IGN}  # nohup ignores one
    from shusaku.deploy.cli.main import main as run  # here: it takes a tenth of a second, more on a busy machine

    for number, handler in before.items():
        signal.signal(number, handler)
    return run()


def _end(number: int, frame: FrameType | None) -> None:
    """Nothing was begun, so nothing has to be ended."""
    name, code = _ANSWERS[signal.Signals(number)]
    os.write(2, f"shusaku: {name}: ended before it began\n".encode())
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
