"""The errors that a user sees as one line; any other exception is a defect."""

from typing import Any


class UsageError(ValueError):
    """The user asked for something impossible; the text names the value, the rule and the way out. Exit code 2."""


class ResumeError(RuntimeError):
    """A run cannot be resumed from its directory; the text names the way out. Exit code 3."""


class RunError(RuntimeError):
    """A run cannot go on, for a reason that is neither a mistake nor a defect; the text is the diagnosis. Exit code 1.

    `result` is what the command would have returned, if there is something to show.
    """

    def __init__(self, text: str, result: dict[str, Any] | None = None) -> None:
        super().__init__(text)
        self.result = result


class GameError(UsageError):
    """An external game broke its contract; the text names method, rule, value and the moves so far."""
