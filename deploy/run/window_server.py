"""The Redis server that holds the window of a run, also if the run does not go on."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from shusaku.common.config.schema import Config
from shusaku.common.errors import RunError, UsageError
from shusaku.deploy.run.run_directory import is_running
from shusaku.deploy.run.run_identity import RunIdentity
from shusaku.replay.stream.client import ReplayUnavailable
from shusaku.replay.stream.server import EmbeddedServer, server_url


@contextmanager
def window_server(config: Config, directory: Path) -> Iterator[str]:
    """The URL of the run's server, which is started for it if the run does not go on.

    UsageError if it is a server of the user's and not named; RunError if it does not answer in the block.
    """
    with ExitStack() as stack:
        url = config.replay.url or (server_url(directory / "redis") if is_running(directory) else "")
        if not url:
            if not (directory / "redis").is_dir():
                raise UsageError(f"run.dir={directory}: its games lie in a Redis of yours; give the replay.url of that")
            server = EmbeddedServer(directory / "redis", max_megabytes=config.replay.megabytes)
            server.start()
            stack.callback(server.stop)
            url = server.url
        try:
            yield url
        except ReplayUnavailable as error:
            raise RunError(f"run.dir={directory}: its games cannot be read now: {error}") from None


def known_identity(directory: Path) -> tuple[str, int]:
    """Name and driver term of the run in Redis; UsageError if run.json is missing."""
    if not (directory / "run.json").exists():
        raise UsageError(f"{directory / 'run.json'} is missing, so the run's games cannot be found in Redis; start the "
                         "run once, which makes it again")
    identity = RunIdentity.of(directory)
    return identity.run_id, identity.epoch
