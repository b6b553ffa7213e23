"""Options of the small commands that take no configuration."""

import argparse
from typing import NoReturn

from common.errors import UsageError


class PlainOptions(argparse.ArgumentParser):
    """An argument parser whose complaints are one line like everybody else's."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; usage: {' '.join(self.format_usage().split()[1:])}")
