"""Options of the small commands that take no configuration."""

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from shusaku.common.errors import UsageError


class PlainOptions(argparse.ArgumentParser):
    """An argument parser whose errors are one line, as those of every command."""

    def parse_args(self, args: Sequence[str], namespace: Any = None) -> argparse.Namespace:  # type: ignore[override]
        """UsageError for what is no option, no value, or no text at all."""
        for argument in args:
            try:
                argument.encode()
            except UnicodeEncodeError:  # lone surrogates stand for such bytes (PEP 383)
                raise UsageError(f"{argument!r}: these bytes are no text in UTF-8") from None
            if argument.startswith("--") and argument.endswith("=--"):  # of which argparse makes an empty list
                raise UsageError(f"{argument}: -- is no value; after the = stands what the option is to be")
        asked: argparse.Namespace = super().parse_args(args, namespace)
        return asked

    def error(self, message: str) -> NoReturn:
        """Raises UsageError with the message."""
        raise UsageError(f"{message}; usage: {' '.join(self.format_usage().split()[1:])}")
