"""What the disk refuses while a run goes on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class DiskTroubles:
    """Logs a refusal when it begins and when it is over; until then `lines` says it for the status."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self._current: dict[str, str] = {}  # what could not be written -> the line

    @property
    def lines(self) -> tuple[str, ...]:
        """What cannot be written now."""
        return tuple(self._current.values())

    @contextmanager
    def watch(self, what: str) -> Iterator[None]:
        """The block writes `what`; an OSError in it is kept for the user, and costs that write only."""
        try:
            yield
        except OSError as error:
            if what not in self._current:
                self._log(f"{what} could not be written: {error}; it is tried again")
            self._current[what] = f"{what} could not be written: {error}"
        else:
            if self._current.pop(what, ""):
                self._log(f"{what} can be written again")
