"""Files for a cluster of containers: users and URL of its replay server, and Ray's token.

    python -m shusaku.deploy.run.cluster_secrets DIRECTORY HOST:PORT

writes, readable by the user alone, `users.acl` for the server's `--aclfile`, `url` for `replay.url_file`, and
`ray_token` for RAY_AUTH_TOKEN_PATH.  The server then knows one user, who may use the keys of Shusaku's runs and make a
user for the actors of each.  If there is a `url` already, nothing is changed.
"""

import hashlib
import os
import secrets
import sys
from pathlib import Path

from shusaku.replay.stream.access import acl_rules

USER = "shusaku"
_MAKES_USERS = "+acl|setuser +acl|deluser"  # for the actors; it could give itself any right, too
_RUN = "any"


def write_secrets(directory: Path, server: str) -> bool:
    """Writes the three files for the server at HOST:PORT; returns whether there were none before."""
    if (directory / "url").exists():
        return False
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    password = secrets.token_hex(32)
    digest = hashlib.sha256(password.encode()).hexdigest()
    rules = acl_rules(_RUN)["learner"].replace(f"{{{_RUN}}}", "{*}")
    _write(directory / "users.acl", f"user default off\nuser {USER} on #{digest} {rules} {_MAKES_USERS}\n")
    _write(directory / "ray_token", secrets.token_hex(32))
    _write(directory / "url", f"redis://{USER}:{password}@{server}/0")  # last: with it, all are there
    return True


def _write(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)


if __name__ == "__main__":
    if len(sys.argv) != 3 or ":" not in sys.argv[2]:
        sys.exit("usage: python -m shusaku.deploy.run.cluster_secrets DIRECTORY HOST:PORT")
    print(f"{sys.argv[1]}: {'written' if write_secrets(Path(sys.argv[1]), sys.argv[2]) else 'there already'}")
