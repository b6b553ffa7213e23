"""What a run was asked for: its `config.yaml`, and where else that stands if the file is damaged or missing.

The last line of the file is a comment with the digest of the others.  The same text is in each line of `starts.jsonl`
and in the facts of each checkpoint.
"""

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import OmegaConf

from shusaku.common.checked_json import DamagedFileError
from shusaku.common.config.search import migrate_search
from shusaku.common.errors import ResumeError, UsageError
from shusaku.common.json_lines import read_json_lines
from shusaku.learner.checkpoints import load_latest

FILE, STARTS = "config.yaml", "starts.jsonl"
POLICIES_FOLDER = "policies"  # of a run directory: see deploy.run.value_policies
_DIGEST = "# sha256 "


class SavedConfig(NamedTuple):
    """The tree as data: nothing in it is resolved or instantiated."""

    tree: dict[str, Any]
    note: str = ""  # for the user: where it was found if config.yaml is not good


def config_text(tree: dict[str, Any]) -> str:
    """The text of `config.yaml` for this tree."""
    text = OmegaConf.to_yaml(OmegaConf.create(tree))
    return f"{text}{_DIGEST}{_digest(text)}\n"


def holds_run(run: Path) -> bool:
    """Whether a run was started in this directory."""
    return any((run / name).exists() for name in (FILE, STARTS, "checkpoints"))


def read_config(run: Path) -> dict[str, Any]:
    """The saved tree of a run directory; UsageError if it cannot be found."""
    return find_config(run).tree


def find_config(run: Path) -> SavedConfig:
    """The saved tree of a run directory, from its config.yaml or from what else says it; UsageError if nothing does."""
    path = run / FILE
    reason, unsigned = "missing", None
    try:
        text = path.read_bytes().decode()
        tree = _parse(text)
        if _is_signed(text):
            return SavedConfig(tree)
        unsigned, reason = tree, "damaged (it has no SHA-256)"
    except FileNotFoundError:
        pass
    except OSError as error:
        reason = f"not readable ({error.strerror})"
    except ValueError as error:
        reason = f"damaged ({str(error).splitlines()[0]})"
    for copy, source in _copies(run):
        try:
            note = f"{path} is {reason}; what the run was started with is taken from {source}"
            return SavedConfig(_parse(copy), note)
        except ValueError:
            continue
    if unsigned is not None:  # of an older program, which wrote no digest
        return SavedConfig(unsigned)
    raise UsageError(f"{path} is {reason}, and neither {STARTS} nor a checkpoint says what the run was started with; "
                     "put a good copy there, or choose another run.dir")


def _copies(run: Path) -> list[tuple[str, str]]:
    """Texts of config.yaml elsewhere with the names of their sources, newest first."""
    starts = [line.get("config") for line in read_json_lines(run / STARTS)]
    texts = [(text, STARTS) for text in reversed(starts) if isinstance(text, str)]
    try:
        found = load_latest(run / "checkpoints")
    except ResumeError:
        found = None
    if found is not None:
        texts.append((str(found.checkpoint.facts.get("driver", {}).get("config", "")), f"checkpoint {found.path.name}"))
    return texts


def _parse(text: str) -> dict[str, Any]:
    """ValueError, with the reason, unless it is the text of a whole configuration."""
    if _DIGEST in text and not _is_signed(text):
        raise DamagedFileError("its SHA-256 is not the stored one")
    try:
        tree = OmegaConf.to_container(OmegaConf.create(text), resolve=False)
    except Exception as error:  # of YAML and of OmegaConf
        raise DamagedFileError(str(error) or type(error).__name__) from None
    if not (isinstance(tree, dict) and tree.keys() >= {"game", "network", "search"}):
        raise DamagedFileError("no whole configuration")
    return migrate_search({str(key): value for key, value in tree.items()})


def _is_signed(text: str) -> bool:
    body, _, digest = text.rpartition(_DIGEST)
    return digest == f"{_digest(body)}\n"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
