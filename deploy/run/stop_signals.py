"""Ctrl-C, SIGTERM and SIGHUP as a question that loops ask; the second one does not wait for an answer.

SIGHUP, the end of the terminal, is treated as SIGTERM, unless the command ignores it from the start (`nohup`).
"""

import signal
from types import FrameType
from typing import Any, Self

from shusaku.deploy.run.foreground_link import LINK


def termination_signals() -> list[signal.Signals]:
    """The signals that end a command as SIGTERM does."""
    return [n for n in (signal.SIGTERM, signal.SIGHUP) if n is signal.SIGTERM or signal.getsignal(n) != signal.SIG_IGN]


def exit_code_of(number: signal.Signals) -> int:
    """The exit code of a command that this signal ended."""
    return 130 if number == signal.SIGINT else 143


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP; code that handles Ctrl-C by saving and raising again handles this too."""


class StopSignals:
    """While it is entered, the first signal to end only makes `should_stop()` true; the second raises at once.

    A foreground process sends the first one alone, and ends this process by force at the second.
    """

    def __init__(self) -> None:
        self._received: signal.Signals | None = None
        self._is_requested = False
        self._previous: dict[int, object] = {}

    def should_stop(self) -> bool:
        """Whether a signal has come, or `request` was called."""
        return self._received is not None or self._is_requested

    def request(self) -> None:
        """Ends the command as if its time were used up: `raise_received` raises nothing for this."""
        self._is_requested = True

    def raise_received(self, *found: dict[str, Any]) -> None:
        """KeyboardInterrupt or Terminated for what was received; nothing where nothing was.

        `found`, the result so far, goes with it, and is what `--json` prints then.
        """
        if self._received is signal.SIGINT:
            raise KeyboardInterrupt(*found)
        if self._received is not None:
            raise Terminated(*found)

    def __enter__(self) -> Self:
        try:
            for number in (signal.SIGINT, *termination_signals()):
                self._previous[number] = signal.signal(number, self._receive)
        except ValueError:  # not the main thread: another thread handles signals
            pass
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _receive(self, number: int, frame: FrameType | None) -> None:
        is_second = self._received is not None
        self._received = signal.Signals(number)
        if is_second and not LINK.is_connected:
            self.raise_received()
