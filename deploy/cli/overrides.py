"""Command line -> Config: Hydra composes `configs/`, and every mistake becomes one line that names the way out.

Hydra accepts `+unknown.key=1` without a word and rejects a misspelt key without naming the right one, so each
override is looked at here before Hydra sees it.  `game.<parameter>` belongs to the game's own rules and is checked
against what the core says of them.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, Override, OverrideType
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from shusaku import configs
from shusaku.common.config.rules import check, names_players
from shusaku.common.config.schema import Config, GameConfig
from shusaku.common.errors import UsageError
from shusaku.common.external.entry import trust
from shusaku.common.suggestions import nearest
from shusaku.deploy.run.composed_config import ComposedConfig
from shusaku.deploy.run.game_parameters import (
    KINDS,
    check_search,
    format_value,
    game_defaults,
    make_game,
    parameter_value,
)
from shusaku.deploy.run.masking import mask_tree

CONFIGS = Path(configs.__file__).parent
DEFAULT_EXPERIMENT = "connect_four"
_SWEEPS = ("choice", "glob", "interval", "range", "shuffle", "sort")  # what Hydra's grammar calls by a name
_ZERO_IS_AUTO = ("actors.count", "actors.games_per_actor", "learner.threads", "match.engines")
MOVED_SETTINGS = {  # settings of earlier versions -> their keys of today
    "inference.service_ms": "inference.batch_latency_ms",
}
_PLAYER_SEARCHES = ("first.search", "second.search")  # sections that take the choices of the group `search`


def compose(argv: Sequence[str]) -> ComposedConfig:
    """The configuration that these overrides ask for; UsageError on anything that cannot be meant."""
    overrides = [_parse(text) for text in argv]
    for override in overrides:
        if override.is_sweep_override():
            text = override.input_line
            raise UsageError(f"{text}: several values make several runs; add --multirun, or quote the value")
    return _compose_job(overrides, varied=[])


def compose_jobs(argv: Sequence[str]) -> list[ComposedConfig]:
    """One configuration for each combination of the swept values (`--multirun`), each with its own run.dir."""
    parsed = [_parse(text) for text in argv]
    choices = [list(_values(override)) for override in parsed]
    jobs = []
    for combination in itertools.product(*choices):
        varied = [text for override, text in zip(parsed, combination, strict=True) if override.is_sweep_override()]
        jobs.append(_compose_job([_parse(text) for text in combination], varied))
    return jobs


def as_yaml(config: Config) -> str:
    """The resolved tree without its secrets, as `--cfg job` prints it."""
    return OmegaConf.to_yaml(OmegaConf.create(mask_tree(asdict(config))))


class _Leaf(NamedTuple):
    """One value that an override sets."""

    key: str
    value: Any
    text: str  # how the user wrote it, for the error


def _parse(text: str) -> Override:
    try:
        override = OverridesParser.create().parse_override(_quoted_game(text))
    except HydraException as error:
        reason = f": {_first_line(error)}; a value with , = ( ) [ ] {{ }} in it wants quotes" if "=" in text else ""
        raise UsageError(f"{text!r} is not an override{reason}; write key=value") from None
    if not override.key_or_group:
        raise UsageError(f"{text!r} is not an override: it has no key; write key=value")
    return override


def _quoted_game(text: str) -> str:
    """`game.name=hex(board_size=5)` as Hydra takes it, to which that would be a call: a shell eats the quotes."""
    key, _, value = text.partition("=")
    if key.lstrip("+") not in ("game.name", "game.params.name") or value.partition("(")[0] in _SWEEPS:
        return text
    one = r"\w+(?:\([^()'\"]*\))?"
    if re.fullmatch(f"{one}(,{one})*", value):  # several, for --multirun
        return f"{key}={re.sub(one, lambda found: _quoted(found[0]), value)}"
    return f"{key}={_quoted(value)}" if re.fullmatch(r"\w+\([^'\"]*\)", value) else text


def _quoted(value: str) -> str:
    return f"'{value}'" if "(" in value else value


def _values(override: Override) -> Iterator[str]:
    """The override once for each value it sweeps over, or itself."""
    if not override.is_sweep_override():
        yield override.input_line or ""
        return
    value = override.value()
    if isinstance(value, Glob):
        names = group_choices().get(override.key_or_group)
        if names is None:
            key = override.key_or_group
            raise UsageError(f"{override.input_line}: glob chooses among the names of a group; {key} has none")
        texts = value.filter(names)
    else:
        texts = list(override.sweep_string_iterator())
    if not texts:
        raise UsageError(f"{override.input_line}: chooses nothing")
    yield from (f"{override.get_key_element()}={text}" for text in texts)


def _compose_job(overrides: list[Override], varied: list[str]) -> ComposedConfig:
    groups, leaves = _sort(overrides)
    asked_game, parameters, settings = _split_game(groups.get("game"), leaves)
    if asked_game is not None:
        groups["game"] = asked_game
    asked = frozenset([*groups, *(leaf.key for leaf in settings), *(f"game.{leaf.key}" for leaf in parameters)])
    if "experiment" not in groups and "game" not in groups:
        groups["experiment"] = DEFAULT_EXPERIMENT
    if groups.get("experiment") == "none":
        del groups["experiment"]
    for leaf in settings:
        _check_setting(leaf)

    try:
        tree = _hydra_tree([f"{group}={choice}" for group, choice in groups.items()])
        for group in ("search", "network"):  # what the user chose wins over what the experiment sets of its own
            if group in groups:
                tree[group].merge_with(OmegaConf.load(CONFIGS / group / f"{groups[group]}.yaml"))
        for leaf in settings:
            OmegaConf.update(tree, leaf.key, leaf.value, merge=False, force_add=isinstance(leaf.value, dict))
        _set_parameters(tree.game, parameters)
        if not any(leaf.key == "run.dir" for leaf in settings):
            tree.run.dir = f"runs/{tree.experiment or _game_label(tree.game)}"
        others = [text for text in varied if not text.startswith("run.dir=")]
        if others:
            tree.run.dir = f"{tree.run.dir}/{','.join(others).replace('/', '_')}"
        resolved = OmegaConf.to_object(tree)
    except (HydraException, OmegaConfBaseException) as error:
        raise UsageError(_first_line(error)) from None
    assert isinstance(resolved, Config)
    check(resolved)
    if resolved.search.graph and not names_players(resolved):
        check_search(make_game(resolved.game.name, resolved.game.params, "search.graph=true"), resolved.search)

    config = ComposedConfig(**{field.name: getattr(resolved, field.name) for field in fields(resolved)})
    config.overrides = [override.input_line or "" for override in overrides]
    config.asked = asked
    container = OmegaConf.to_container(tree, resolve=False)
    assert isinstance(container, dict)
    config.unresolved = {str(key): value for key, value in container.items()}
    return config


def _sort(overrides: list[Override]) -> tuple[dict[str, str], list[_Leaf]]:
    """Overrides -> choices of groups, and settings; UsageError on a key that does not exist."""
    known, groups = _known_keys(), group_choices()
    chosen: dict[str, str] = {}
    leaves: list[_Leaf] = []
    for override in overrides:
        key, text = override.key_or_group, override.input_line or ""
        exists = key in known or key in groups or key.split(".")[0] == "game"
        if not exists:
            raise _unknown(text, key, [*known, *groups])
        if override.package is not None:
            raise UsageError(f"{text}: packages (@) are not used here; write {key}=...")
        if override.type == OverrideType.DEL:
            raise UsageError(f"{text}: settings cannot be removed; leave {key} out and it has its default")
        value = override.value()
        if key not in groups:
            leaves += _flatten(_Leaf(key, value, text))
        elif str(value) not in groups[key] or not isinstance(value, str):
            hint = f"; nearest: {nearest(str(value), groups[key])}" if isinstance(value, str) and value else ""
            raise UsageError(f"{text}: no such {key}{hint}; there are {', '.join(groups[key])}")
        else:
            chosen[key] = value
    return chosen, leaves


def _flatten(leaf: _Leaf) -> list[_Leaf]:
    """`run={minutes: 3}` -> run.minutes, `first.search=gumbel` -> what search=gumbel sets, for the first player."""
    if leaf.key in _PLAYER_SEARCHES and leaf.value in group_choices()["search"]:
        choice = OmegaConf.to_container(OmegaConf.load(CONFIGS / "search" / f"{leaf.value}.yaml"))
        return _flatten(leaf._replace(value=choice))
    kind, _ = _known_keys().get(leaf.key, (None, None))
    if isinstance(leaf.value, dict) and kind is not dict:
        inner = [_Leaf(f"{leaf.key}.{key}", value, leaf.text) for key, value in leaf.value.items()]
        return [low for setting in inner for low in _flatten(setting)]
    return [leaf._replace(value=0) if leaf.value == "auto" and leaf.key in _ZERO_IS_AUTO else leaf]


def _split_game(asked: str | None, leaves: list[_Leaf]) -> tuple[str | None, list[_Leaf], list[_Leaf]]:
    """Settings -> the game if one is named, the parameters of its rules, and everything else."""
    parameters: list[_Leaf] = []
    settings: list[_Leaf] = []
    name: _Leaf | None = None
    for leaf in leaves:
        section, _, key = leaf.key.partition(".")
        if section != "game":
            settings.append(leaf)
        elif key == "name" and not (asked and "name" in game_defaults(asked)):
            name = leaf
        elif key != "params":
            parameters.append(leaf._replace(key=key.removeprefix("params.")))
    if name is not None:
        if asked is not None and asked != name.value:
            raise UsageError(f"{name.text}: game={asked} already says which game; leave one of them out")
        games = group_choices()["game"]
        if name.value not in games:
            raise UsageError(f"{name.text}: no such game; there are {', '.join(games)}; one of OpenSpiel's is "
                             f"game=open_spiel {name.text}")
        asked = str(name.value)
    if asked is None and (entry := next((leaf for leaf in parameters if leaf.key == "entry"), None)) is not None:
        raise UsageError(f"{entry.text}: says which class game=python is; add game=python")
    return asked, parameters, settings


def _check_setting(leaf: _Leaf) -> None:
    """UsageError unless the key exists and its type takes the value."""
    known = _known_keys()
    if leaf.key not in known:
        raise _unknown(leaf.text, leaf.key, known)
    kind, default = known[leaf.key]
    if kind is None:
        raise UsageError(f"{leaf.text}: {leaf.key} is a section; its settings are "
                         f"{', '.join(key for key in known if key.startswith(f'{leaf.key}.'))}")
    if isinstance(leaf.value, str) and "${" in leaf.value:
        return  # an interpolation is checked when it is resolved
    try:
        OmegaConf.update(OmegaConf.structured(Config), leaf.key, leaf.value)
    except OmegaConfBaseException:
        rule = f"{leaf.key} must be {KINDS[kind]}, such as its default {format_value(default)}"
        raise UsageError(f"{leaf.text}: {rule}") from None


def _set_parameters(game: DictConfig, asked: list[_Leaf]) -> None:
    """Puts the parameters of the rules into game.params; UsageError on one that the game does not have or take."""
    if game.name == "python":  # only what was typed: a preset's entry is code of somebody else
        for leaf in asked:
            if leaf.key == "entry":
                trust(str(leaf.value))
    preset = [_Leaf(str(key), value, f"game.{key}={value}") for key, value in game.params.items()]
    leaves = [*preset, *asked]
    known = game_defaults(game.name, {leaf.key: leaf.value for leaf in leaves})
    game.params = {leaf.key: parameter_value(game.name, known, leaf.key, leaf.value, leaf.text) for leaf in leaves}
    said = " ".join(leaf.text for leaf in asked or preset) or f"game={game.name}"
    make_game(game.name, OmegaConf.to_container(game.params, resolve=True), said)


def _game_label(game: DictConfig) -> str:
    """The game's name for a directory; for one from outside the core, which one it is."""
    if game.name not in ("open_spiel", "python"):
        return str(game.name)
    which = game.params.get("name") or game.params.get("entry") or ""
    return f"{game.name}-{re.sub('[^A-Za-z0-9_.]+', '-', str(which)).strip('-')}".rstrip("-")


def _hydra_tree(choices: list[str]) -> DictConfig:
    store = ConfigStore.instance()
    store.store(name="schema", node=Config)
    for name in group_choices()["game"]:
        store.store(group="game", name=name, node={"name": name})
    with initialize_config_dir(config_dir=str(CONFIGS.absolute()), version_base="1.3"):
        return hydra_compose("config", overrides=choices)


def group_choices() -> dict[str, list[str]]:
    """Choices of every group: the files of `configs/`, and the games that the core has."""
    from shusaku.common._core import external_names, game_names

    found = {
        folder.name: sorted(file.stem for file in folder.glob("*.yaml"))
        for folder in sorted(CONFIGS.iterdir())
        if folder.is_dir() and any(folder.glob("*.yaml"))
    }
    return {**found, "experiment": [*found["experiment"], "none"], "game": [*game_names(), *external_names()]}


def _known_keys() -> dict[str, tuple[type | None, Any]]:
    """Dotted key -> type and default of every setting outside `game`; a section has neither."""
    return dict(_walk(Config(), ""))


def _walk(node: Any, prefix: str) -> Iterator[tuple[str, tuple[type | None, Any]]]:
    for field in fields(node):
        value = getattr(node, field.name)
        key = f"{prefix}{field.name}"
        if isinstance(value, GameConfig) or key == "experiment":
            continue
        if is_dataclass(value):
            yield key, (None, None)
            yield from _walk(value, f"{key}.")
        else:
            yield key, (type(value), value)


def _unknown(text: str, key: str, known: Iterable[str]) -> UsageError:
    if key in MOVED_SETTINGS:
        return UsageError(f"{text}: {key} is called {MOVED_SETTINGS[key]} now")
    return UsageError(f"{text}: there is no setting {key}; nearest: {nearest(key, known)}")


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    cause = error.__cause__
    reason = next(iter(str(cause).strip().splitlines()), "") if cause is not None and cause.args != (None,) else ""
    return ": ".join(part for part in (lines[0] if lines else type(error).__name__, reason) if part)
