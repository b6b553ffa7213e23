"""The finished games of a run, wherever they lie."""

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from shusaku.common.config.schema import Config
from shusaku.deploy.run.change_over import is_of_one_process
from shusaku.deploy.run.window_copy import read_window
from shusaku.deploy.run.window_server import known_identity, window_server
from shusaku.replay.record_log import RecordLog


@contextmanager
def games_of_run(config: Config, newest: int = 0) -> Iterator[Iterable[bytes]]:
    """The encoded games of the window of `run.dir`, oldest first; of the `newest` ones only, unless that is 0.

    They are to be read inside the block.  UsageError or RunError if its server cannot be reached.
    """
    directory = Path(config.run.dir)
    is_local = is_of_one_process(directory)
    if is_local is None:  # no checkpoint yet
        is_local = not (directory / "redis").is_dir() and not config.replay.url
    with ExitStack() as stack:
        data: Iterable[bytes]
        if is_local:
            data = RecordLog(directory / "records").iterate()
        else:
            url = stack.enter_context(window_server(config, directory))
            data = read_window(url, known_identity(directory)[0], newest)
        yield deque(data, maxlen=newest) if newest else data
