"""What a node of a cluster says of itself; Ray runs this there, for `deploy.ray_runtime.node_check`."""

import hashlib
import os
import platform
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import ray
import redis

from shusaku.common import _core
from shusaku.common.errors import UsageError
from shusaku.deploy.ray_runtime.auth import login_for_joining
from shusaku.replay.stream.client import connect, explain

REACH_SECONDS = 5.0  # for the replay server to answer
DIGITS = 12  # of a digest that is shown
PACKAGES = ("actors", "common", "configs", "deploy", "learner", "replay")
SUFFIXES = (".py", ".lua", ".yaml")


@dataclass(frozen=True)
class NodeFacts:
    """What has to be the same on all nodes; digests are of SHA-256, in hexadecimal digits."""

    shusaku: str  # version
    python: str
    ray: str
    code: str  # digest of the wheel's files, without the core
    core: str  # digest of the compiled core
    token: str  # digest of Ray's token; empty: there is none


class NodeProbe:
    """A Ray actor on the node that is asked."""

    def facts(self) -> NodeFacts:
        """Of this node."""
        return read_facts()

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def reach(self, url: str) -> str:
        """Why the replay server cannot be reached from here; empty if it can."""
        client = connect(url, REACH_SECONDS)
        try:
            client.ping()
            return ""
        except (redis.RedisError, OSError) as error:
            return explain(error)[0]
        finally:
            client.connection_pool.disconnect()


def read_facts() -> NodeFacts:
    """Of this machine."""
    code = hashlib.sha256()
    root = Path(_core.__file__).resolve().parents[1]
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*")):
            if path.suffix in SUFFIXES:
                code.update(f"{path.relative_to(root)}\0".encode())
                code.update(path.read_bytes())
    core = hashlib.sha256(Path(_core.__file__).read_bytes())
    return NodeFacts(metadata.version("shusaku"), platform.python_version(), ray.__version__,
                     code.hexdigest()[:DIGITS], core.hexdigest()[:DIGITS], _token_digest())


def _token_digest() -> str:
    """Of what new processes of this node would show; a digest of 256 random bits gives none of them away."""
    try:
        login = login_for_joining(os.environ)
        return hashlib.sha256(login.token().encode()).hexdigest()[:DIGITS] if login.has_token else ""
    except UsageError:
        return "unreadable"
