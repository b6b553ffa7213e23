"""The errors that a user may see as one line: everything else is a defect of ours."""

from typing import Any


class UsageError(ValueError):
    """The user asked for something impossible; the text names the value, the rule and the way out. Exit code 2."""


class ResumeError(RuntimeError):
    """A run cannot be resumed from what its directory holds; the text says what to do. Exit code 3."""


class RunFailed(RuntimeError):
    """A run cannot go on, for a reason that is neither a mistake nor a defect; the text is the diagnosis. Exit code 1.

    `result` is what the command would have returned, where there is something to show all the same.
    """

    def __init__(self, text: str, result: dict[str, Any] | None = None) -> None:
        super().__init__(text)
        self.result = result


class GameError(UsageError):
    """A game from outside the core broke its contract; the text names method, rule, value and the moves so far."""
