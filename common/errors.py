"""The two errors that a user may see as one line: everything else is a defect of ours."""


class UsageError(ValueError):
    """The user asked for something impossible; the text names the value, the rule and the way out. Exit code 2."""


class ResumeError(RuntimeError):
    """A run cannot be resumed from what its directory holds; the text says what to do. Exit code 3."""
