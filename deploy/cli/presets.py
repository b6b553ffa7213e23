"""Where the choices of the groups lie: `configs/`, a directory of the user's own, or a run's `config.yaml`.

A file is data: it names settings and values, never code.  `hydra.…` in a file would (launchers and loggers are made of
what stands there), so only the command line may set it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.types import Quote, QuotedString
from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from yaml import YAMLError

from shusaku import configs
from shusaku.common.config.search import migrate_search
from shusaku.common.errors import UsageError
from shusaku.deploy.cli.search_settings import schema_tree
from shusaku.deploy.run.game_parameters import game_choices

CONFIGS = Path(configs.__file__).parent
GROUPS = ("experiment", "game", "network", "search")
# No files and no lines of Hydra's own.
QUIET = ["hydra/hydra_logging=none", "hydra/job_logging=none", "hydra.output_subdir=null"]
_OF_ONE_RUN = ("run.dir", "run.name", "run.resume", "checkpoint", "resume_from")  # no part of the next run


@dataclass(frozen=True)
class Presets:
    """The groups' choices; `directory`, if given, is laid out like `configs/` and adds to them."""

    directory: Path | None = None

    @classmethod
    def read(cls, name: str) -> "Presets":
        """Those of `--config-dir NAME`; UsageError unless it holds a choice of a group and repeats none of ours."""
        directory = Path(name)
        if not directory.is_dir():
            raise UsageError(f"--config-dir {name}: no such directory")
        found = {group: _names(directory / group) for group in GROUPS if group != "game"}
        if not any(found.values()):
            raise UsageError(f"--config-dir {name}: holds no preset; put one at {directory}/experiment/NAME.yaml and "
                             "choose it with experiment=NAME")
        for group, names in found.items():
            if taken := next((choice for choice in names if choice in cls().choices()[group]), ""):
                raise UsageError(f"--config-dir {name}: {group}/{taken}.yaml has the name of a preset that there is "
                                 "already; give it another name")
        return cls(directory)

    def choices(self) -> dict[str, list[str]]:
        """Group -> the names that it takes: files, and the games that there are."""
        found = {group: sorted([*_names(CONFIGS / group), *(_names(self.directory / group) if self.directory else [])])
                 for group in GROUPS}
        return {**found, "experiment": [*found["experiment"], "none"], "game": game_choices()}

    def settings_of(self, group: str, choice: str) -> dict[str, Any]:
        """What the file of a choice says: section `group` of the tree."""
        path = CONFIGS / group / f"{choice}.yaml"
        if self.directory is not None and not path.exists():
            path = self.directory / group / f"{choice}.yaml"
        return read_settings(path)

    def compose(self, overrides: list[str]) -> DictConfig:
        """The tree that Hydra composes; UsageError if a preset reaches beyond our settings."""
        with self.session():
            if self.directory is None:
                return hydra_compose("config", overrides=overrides)
            own = self.hydra_overrides()
            plain = hydra_compose("config", overrides=own, return_hydra_config=True)
            try:
                tree = hydra_compose("config", overrides=[*own, *overrides], return_hydra_config=True)
            except YAMLError as error:
                raise UsageError(f"--config-dir {self.directory}: {' '.join(str(error).split())}") from None
        if _settings_of_hydra(plain) != _settings_of_hydra(tree):
            raise UsageError(f"--config-dir {self.directory}: a preset sets hydra.…, which may name code to run; give "
                             "it on the command line instead")
        with read_write(tree), open_dict(tree):
            del tree["hydra"]
        return tree

    @contextmanager
    def session(self) -> Iterator[Any]:
        """Hydra with our groups: what is behind `--info`, completion and `--multirun`."""
        store = ConfigStore.instance()
        store.store(name="schema", node=schema_tree())
        for name in game_choices():
            store.store(group="game", name=name, node={"name": name})
        with initialize_config_dir(config_dir=str(CONFIGS.absolute()), version_base="1.3", job_name="shusaku"):
            yield GlobalHydra.instance().hydra

    def hydra_overrides(self) -> list[str]:
        """What Hydra is told besides the settings: where else presets lie, and to write nothing of its own."""
        if self.directory is None:
            return QUIET
        return [f"hydra.searchpath=[{quote(f'file://{self.directory.absolute()}')}]", *QUIET]


def read_run_settings(name: str) -> dict[str, Any]:
    """`config=NAME` -> dotted key -> value: what a run's config.yaml says, without what belongs to that run alone."""
    tree = migrate_search(read_settings(Path(name)))
    settings = {key: value for key, value in _flatten(tree, "") if key not in _OF_ONE_RUN}
    settings.pop("experiment", None)  # whose values the file holds already
    return settings


def read_settings(path: Path) -> dict[str, Any]:
    """The tree in a file, interpolations unresolved; UsageError if it cannot be read."""
    try:
        tree = OmegaConf.to_container(OmegaConf.load(path), resolve=False)
    except Exception as error:  # of the file system, of YAML, of OmegaConf
        reason = getattr(error, "strerror", None) or next(iter(str(error).splitlines()), type(error).__name__)
        raise UsageError(f"{path}: cannot be read ({reason}); name a file like the config.yaml of a run") from None
    if not isinstance(tree, dict):
        raise UsageError(f"{path}: is no configuration; name a file like the config.yaml of a run")
    return {str(key): value for key, value in tree.items()}


def literal(value: Any) -> str:
    """A value in Hydra's grammar, so that an override sets exactly this value."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        return f"[{','.join(map(literal, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{_escape(str(key))}:{literal(one)}' for key, one in value.items())}}}"
    return quote(value) if isinstance(value, str) else repr(value)


def quote(text: str) -> str:
    """Text in quotation marks, as Hydra reads it."""
    return QuotedString(text, Quote.single).with_quotes()


def _escape(key: str) -> str:
    return "".join(f"\\{letter}" if letter in "\\()[]{}:=, \t" else letter for letter in key)


def _flatten(tree: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict) and value and f"{prefix}{key}" != "game.params":
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _names(folder: Path) -> list[str]:
    return sorted(file.stem for file in folder.glob("*.yaml"))


def _settings_of_hydra(tree: DictConfig) -> dict[str, Any]:
    """Section `hydra` without what Hydra notes there about the command line."""
    section = OmegaConf.to_container(tree.hydra, resolve=False)
    assert isinstance(section, dict)
    return {str(key): value for key, value in section.items() if key not in ("overrides", "runtime", "job")} | {
        f"job.{key}": value for key, value in section["job"].items() if key not in ("override_dirname", "config_name")
    }
