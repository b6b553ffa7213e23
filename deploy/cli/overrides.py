"""Command line -> Config: Hydra composes `configs/`, and every mistake becomes one line that names the way out.

Hydra accepts `+unknown.key=1` without a word and rejects a misspelt key without naming the right one, so each
override is looked at here before Hydra sees it.  `game.<parameter>` belongs to the game's own rules and is checked
against what the core says of them.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any, NamedTuple

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, Override, OverrideType
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from shusaku.common.config.rules import check, names_players
from shusaku.common.config.schema import Config, leaves, self_play_search
from shusaku.common.config.search import AUTO, DEFAULTS, PuctConfig, TreeConfig
from shusaku.common.errors import UsageError
from shusaku.common.external.entry import trust, trust_files
from shusaku.common.masking import MASK, mask_override, mask_tree
from shusaku.common.suggestions import nearest
from shusaku.deploy.cli.presets import Presets, literal, quote, read_run_settings
from shusaku.deploy.cli.search_settings import SECTIONS, check_policy, requested_settings, typed_setting, typed_tree
from shusaku.deploy.run.composed_config import ComposedConfig
from shusaku.deploy.run.game_parameters import (
    KINDS,
    check_search,
    format_value,
    game_choices,
    game_defaults,
    make_game,
    parameter_value,
)
from shusaku.deploy.run.noise_of_game import alpha_of
from shusaku.deploy.run.replay_urls import with_urls

DEFAULT_EXPERIMENT = "connect_four"
TRUST = "trust"  # trust=true: what files name may be run; only a command line says so
PLAIN = Presets()
_SWEEPS = ("choice", "glob", "interval", "range", "shuffle", "sort")  # what Hydra's grammar calls by a name
_AUTO = {"actors.count": 0, "actors.games_per_actor": 0, "inference.servers": 0, "inference.gpus_per_server": 0,
         "learner.gpus": 0, "learner.threads": 0, "match.engines": 0,
         **{f"{section}.expand_after": AUTO for section in SECTIONS}}  # what `auto` stands for
MOVED_SETTINGS = {  # settings of earlier versions -> their keys of today
    "inference.service_ms": "inference.simulated_gpu_batch_ms",
    "inference.batch_latency_ms": "inference.simulated_gpu_batch_ms",
}
# Other spellings of a setting; `from` is a keyword of Python, and no field of a dataclass can have that name.
SPELLINGS = {"policy.from": "reinforce.start"}


@dataclass(frozen=True)
class Job:
    """One composed configuration, and the overrides by which Hydra composes the same one."""

    config: ComposedConfig
    hydra_overrides: list[str]


def compose(argv: Sequence[str], presets: Presets = PLAIN) -> ComposedConfig:
    """The configuration that these overrides ask for; UsageError on anything that cannot be meant."""
    return compose_job(argv, presets).config


def compose_job(argv: Sequence[str], presets: Presets = PLAIN) -> Job:
    """As `compose`, with Hydra's overrides."""
    overrides = [_parse(text) for text in argv]
    for override in overrides:
        if override.is_sweep_override():
            text = override.input_line
            raise UsageError(f"{text}: several values make several runs; add --multirun, or quote the value")
    return _compose_job(overrides, [], presets)


def compose_jobs(argv: Sequence[str], presets: Presets = PLAIN) -> list[Job]:
    """One configuration for each combination of the swept values (`--multirun`), each with its own run.dir."""
    parsed = [_parse(text) for text in argv]
    choices = [list(_values(override, presets)) for override in parsed]
    jobs = []
    for combination in itertools.product(*choices):
        varied = [text for override, text in zip(parsed, combination, strict=True) if override.is_sweep_override()]
        jobs.append(_compose_job([_parse(text) for text in combination], varied, presets))
    return jobs


def to_config(tree: DictConfig, overrides: list[str], asked: frozenset[str]) -> ComposedConfig:
    """A composed tree as dataclasses; `overrides` and `asked` are what ComposedConfig remembers.

    `asked` also tells a process of a launcher what the user of the command trusts.
    """
    if TRUST in asked:
        trust_files()
    try:
        if "game.entry" in asked:
            trust(str(tree.game.params["entry"]))
        settings = requested_settings(tree.search)
        typed = typed_tree(tree, settings)
        resolved = OmegaConf.to_object(typed)
    except OmegaConfBaseException as error:
        raise UsageError(_first_line(error)) from None
    assert isinstance(resolved, Config)
    if "search" in asked or not names_players(resolved):  # else the policy is known when the run is read
        check_policy(settings, asked)
    _settle_noise(resolved, typed)
    config = ComposedConfig(**vars(resolved))
    config.replay = with_urls(config.replay)  # `unresolved` below keeps the tree without them
    container = OmegaConf.to_container(typed, resolve=False)
    assert isinstance(container, dict)
    config.overrides, config.asked = overrides, asked
    config.search_settings = {name: value for name, value in settings.items() if f"search.{name}" in asked}
    config.unresolved = {str(key): value for key, value in container.items()}
    return config


def _settle_noise(config: Config, tree: DictConfig) -> None:
    """Dirichlet's alpha of the game in place of 0, in the configuration and in the tree that is saved."""
    search = config.search
    if not isinstance(search, PuctConfig) or search.dirichlet_alpha:
        return
    alpha = alpha_of(make_game(config.game.name, config.game.params, "search.dirichlet_alpha=0"))
    search.dirichlet_alpha = tree.search.dirichlet_alpha = alpha


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
        override = OverridesParser.create().parse_override(_quote_value(text))
    except HydraException as error:
        reason = f": {_first_line(error)}; a value with , = ( ) [ ] {{ }} in it wants quotes" if "=" in text else ""
        raise UsageError(f"{mask_override(text)!r} is not an override{reason}; {_hint(text)}") from None
    if not override.key_or_group:
        raise UsageError(f"{mask_override(text)!r} is not an override: it has no key; write key=value")
    return override


def _hint(text: str) -> str:
    """How to write what was most likely meant by this word."""
    choices = Presets().choices()
    near = get_close_matches(text, [name for group in ("experiment", "game") for name in choices[group]], 1, 0.75)
    meant = [f"{group}={near[0]}" for group in ("experiment", "game") if near and near[0] in choices[group]]
    return f"write {' or '.join(meant)}" if meant else "write key=value"


def _quote_value(text: str) -> str:
    """Quotes the value of an override if Hydra's grammar needs it.

    A shell removes the quotes around `hex(board_size=5)`, which Hydra would then call; letters beyond ASCII are not in
    its grammar.
    """
    key, _, value = text.partition("=")
    is_game = key.lstrip("+") in ("game.name", "game.params.name") and value.partition("(")[0] not in _SWEEPS
    one = r"\w+(?:\([^()'\"]*\))?" if is_game else r"[^,'\"(){}\[\]$]+"
    if not is_game and (value.isascii() or not text.isprintable()):
        return text
    if re.fullmatch(f"{one}(,{one})*", value):  # several, for --multirun
        return f"{key}={re.sub(one, lambda found: _quote_if_needed(found[0]), value)}"
    return f"{key}={_quote_if_needed(value)}" if is_game and re.fullmatch(r"\w+\([^'\"]*\)", value) else text


def _quote_if_needed(value: str) -> str:
    return quote(value) if "(" in value or not value.isascii() else value


def _values(override: Override, presets: Presets) -> Iterator[str]:
    """The override once for each value it sweeps over, or itself."""
    if not override.is_sweep_override():
        yield override.input_line or ""
        return
    value = override.value()
    if isinstance(value, Glob):
        names = presets.choices().get(override.key_or_group)
        if names is None:
            key = override.key_or_group
            raise UsageError(f"{override.input_line}: glob chooses among the names of a group; {key} has none")
        texts = value.filter(names)
    else:
        texts = list(override.sweep_string_iterator())
    if not texts:
        raise UsageError(f"{override.input_line}: chooses nothing")
    yield from (f"{override.get_key_element()}={text}" for text in texts)


def _compose_job(overrides: list[Override], varied: list[str], presets: Presets) -> Job:
    files = [override for override in overrides if override.key_or_group == "config"]
    trusts = [override for override in overrides if override.key_or_group == TRUST]
    groups, leaves = _sort([override for override in overrides if override not in (*files, *trusts)], presets)
    asked_game, parameters, settings = _split_game(groups.get("game"), leaves)
    if asked_game is not None:
        groups["game"] = asked_game
    asked = frozenset([*groups, *(leaf.key for leaf in settings), *(f"game.{leaf.key}" for leaf in parameters),
                       *([TRUST] if _trusts_files(trusts) else [])])
    if TRUST in asked:
        trust_files()
    saved, saved_parameters = _settings_of_run(files, groups, settings)
    if not files and "experiment" not in groups and "game" not in groups:
        groups["experiment"] = DEFAULT_EXPERIMENT
    if groups.get("experiment") == "none":
        del groups["experiment"]
    _check_game(groups, presets)
    chosen = [  # what the user chose wins over what the experiment sets of its own
        _Leaf(f"{group}.{key}", value, f"{group}={groups[group]}") for group in ("search", "network")
        if group in groups for key, value in presets.settings_of(group, groups[group]).items()
    ]
    for leaf in (*saved, *settings):
        _check_setting(leaf)

    if files:  # the choice that sets nothing besides the policy of the file
        groups.setdefault("search", next((str(leaf.value) for leaf in saved if leaf.key == "search.policy"), "puct"))
    arguments = [f"{group}={choice}" for group, choice in groups.items()]
    arguments += [f"++{leaf.key}={literal(leaf.value)}" for leaf in (*saved, *chosen, *settings)]
    try:
        tree = presets.compose(arguments)
        _set_parameters(tree.game, saved_parameters, parameters)
        if not any(leaf.key == "run.dir" for leaf in settings):
            tree.run.dir = f"runs/{tree.experiment or _game_label(tree.game)}"
        others = [mask_override(text) for text in varied if not text.startswith("run.dir=")]
        if others:
            tree.run.dir = f"{tree.run.dir}/{','.join(others).replace('/', '_')}"
        params = OmegaConf.to_container(tree.game.params, resolve=False)
    except (HydraException, OmegaConfBaseException) as error:
        raise UsageError(_first_line(error)) from None
    config = to_config(tree, [override.input_line or "" for override in overrides], asked)
    check(config)
    _check_programs(config)
    if not names_players(config):
        _check_needs(config)
    run_dir = literal(config.unresolved["run"]["dir"])
    return Job(config, [*arguments, f"++game.params={literal(params)}", f"++run.dir={run_dir}"])


def _check_needs(config: Config) -> None:
    """What searches and labels need of the game: a key of positions, a board that fills up."""
    game, search = config.game, config.search
    if isinstance(search, PuctConfig) and search.graph:
        check_search(make_game(game.name, game.params, "search.graph=true"), search)
    searches = {"search": search, "learner": PuctConfig(solved_empties=config.learner.solved_empties)}
    if config.self_play.solved_empties >= 0:
        searches["self_play"] = self_play_search(search, config.self_play)
    for key, some in searches.items():
        if not isinstance(some, TreeConfig) or some.solved_empties == 0:
            continue
        text = f"{key}.solved_empties={some.solved_empties}"
        try:
            check_search(make_game(game.name, game.params, text), some)
        except UsageError as error:
            raise UsageError(str(error).replace(f"search.solved_empties={some.solved_empties}", text, 1)) from None


def _settings_of_run(
    files: list[Override], groups: dict[str, str], settings: list[_Leaf]
) -> tuple[list[_Leaf], list[_Leaf]]:
    """What `config=FILE` says: its game goes to `groups`, its settings and its game's parameters are returned."""
    if not files:
        return [], []
    text, name = files[-1].input_line or "", files[-1].value()
    if not isinstance(name, str) or not name:
        raise UsageError(f"{text}: must name a file, such as config=runs/first/config.yaml")
    if "experiment" in groups:
        raise UsageError(f"{text} experiment={groups['experiment']}: each is a whole configuration; leave one out")
    found = read_run_settings(name)
    leaves = [_Leaf(key, value, f"{text}: {key}={format_value(value)}") for key, value in found.items()]
    game = str(found.get("game.name", Config().game.name))
    if game not in game_choices():
        raise UsageError(f"{text}: game.name={game}: no such game; there are {', '.join(game_choices())}")
    if groups.setdefault("game", game) != game:
        raise UsageError(f"{text} game={groups['game']}: the file is a configuration of {game}; leave one of them out")
    typed = {leaf.key for leaf in settings}
    for leaf in leaves:
        if isinstance(leaf.value, str) and MASK in leaf.value and leaf.key not in typed:
            raise UsageError(f"{text}: the secret in {leaf.key} was not saved; add {leaf.key}=...")
    params = found.get("game.params") or {}
    known = _known_keys()
    saved = [leaf for leaf in leaves if not leaf.key.startswith("game.")]
    return ([leaf for leaf in saved if leaf.key not in known or leaf.value != known[leaf.key][1]],
            [_Leaf(str(key), value, f"{text}: game.{key}={value}") for key, value in params.items()])


def _trusts_files(overrides: list[Override]) -> bool:
    """Whether the command line says `trust=true`; in a file it is an unknown setting."""
    if not overrides:
        return False
    value = overrides[-1].value()
    if not isinstance(value, bool):
        raise UsageError(f"{overrides[-1].input_line}: must be true or false")
    return value


def _check_programs(config: ComposedConfig) -> None:
    """UsageError if a file, and not the command line, names a program to run."""
    for key, command in (("first.command", config.first.command), ("second.command", config.second.command)):
        if command and not config.asked & {key, TRUST}:
            raise UsageError(f"{key}: named by a file, and it would be run; if you trust it, add {key}='{command}' to "
                             "this command, or trust=true")


def _check_game(groups: dict[str, str], presets: Presets) -> None:
    """UsageError if both a preset and a game are chosen, and the preset is one of another game."""
    if "experiment" not in groups or "game" not in groups:
        return
    name, game = groups["experiment"], groups["game"]
    own = presets.compose([f"experiment={name}"]).game.name
    if own != game:
        raise UsageError(f"experiment={name} game={game}: this preset plays {own}; leave one of them out")


def _sort(overrides: list[Override], presets: Presets) -> tuple[dict[str, str], list[_Leaf]]:
    """Overrides -> choices of groups, and settings; UsageError on a key that does not exist."""
    known, groups = _known_keys(), presets.choices()
    chosen: dict[str, str] = {}
    leaves: list[_Leaf] = []
    for override in overrides:
        key, text = SPELLINGS.get(override.key_or_group, override.key_or_group), override.input_line or ""
        exists = key in known or key in groups or key.split(".")[0] == "game"
        if not exists:
            raise _unknown(text, key, [*known, *groups])
        if override.package is not None:
            raise UsageError(f"{text}: packages (@) are not used here; write {key}=...")
        if override.type == OverrideType.DEL:
            raise UsageError(f"{text}: settings cannot be removed; leave {key} out and it has its default")
        value = override.value()
        if known.get(key, (None, None))[0] is str and isinstance(value, int | float):
            value = text.partition("=")[2].strip()  # run.name=12e4 is a name, and no number
        if key not in groups:
            leaves += _flatten(_Leaf(key, value, text), presets)
        elif str(value) not in groups[key] or not isinstance(value, str):
            hint = f"; nearest: {nearest(str(value), groups[key])}" if isinstance(value, str) and value else ""
            raise UsageError(f"{text}: no such {key}{hint}; there are {', '.join(groups[key])}")
        else:
            chosen[key] = value
    return chosen, leaves


def _flatten(leaf: _Leaf, presets: Presets) -> list[_Leaf]:
    """`run={minutes: 3}` -> run.minutes, `first.search=gumbel` -> what search=gumbel sets, for the first player."""
    if leaf.key in SECTIONS[1:] and leaf.value in presets.choices()["search"]:
        return _flatten(leaf._replace(value=presets.settings_of("search", leaf.value)), presets)
    kind, _ = _known_keys().get(leaf.key, (None, None))
    if isinstance(leaf.value, dict) and kind is not dict:
        inner = [_Leaf(f"{leaf.key}.{key}", value, leaf.text) for key, value in leaf.value.items()]
        return [low for setting in inner for low in _flatten(setting, presets)]
    return [leaf._replace(value=_AUTO[leaf.key]) if leaf.value == "auto" and leaf.key in _AUTO else leaf]


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
        elif key == "params":
            raise UsageError(f"{leaf.text}: must be a map, such as game.params={{size: 9}}; or write game.size=9")
        else:
            parameters.append(leaf._replace(key=key.removeprefix("params.")))
    if name is not None:
        if asked is not None and asked != name.value:
            raise UsageError(f"{name.text}: game={asked} already says which game; leave one of them out")
        games = game_choices()
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
    section, _, name = leaf.key.rpartition(".")
    try:
        if section in SECTIONS:
            typed_setting(name, leaf.value)
        else:
            OmegaConf.update(OmegaConf.structured(Config), leaf.key, leaf.value)
    except OmegaConfBaseException:
        rule = f"{leaf.key} must be {KINDS[kind]}, such as its default {format_value(default)}"
        raise UsageError(f"{leaf.text}: {rule}") from None


def _set_parameters(game: DictConfig, saved: list[_Leaf], asked: list[_Leaf]) -> None:
    """Puts the parameters of the rules into game.params; UsageError on one that the game does not have or take."""
    if game.name == "python":  # only what was typed: a preset's entry is code of another author
        for leaf in asked:
            if leaf.key == "entry":
                trust(str(leaf.value))
    preset = [_Leaf(str(key), value, f"game.{key}={value}") for key, value in game.params.items()]
    leaves = [*preset, *saved, *asked]
    known = game_defaults(game.name, {leaf.key: leaf.value for leaf in leaves})
    game.params = {leaf.key: parameter_value(game.name, known, leaf.key, leaf.value, leaf.text) for leaf in leaves}
    text = " ".join(leaf.text for leaf in asked or preset) or f"game={game.name}"
    make_game(game.name, OmegaConf.to_container(game.params, resolve=True), text)


def _game_label(game: DictConfig) -> str:
    """The game's name for a directory; for one from outside the core, which one it is."""
    if game.name not in ("open_spiel", "python"):
        return str(game.name)
    which = game.params.get("name") or game.params.get("entry") or ""
    return f"{game.name}-{re.sub('[^A-Za-z0-9_.]+', '-', str(which)).strip('-')}".rstrip("-")


@cache
def _known_keys() -> dict[str, tuple[type | None, Any]]:
    """Dotted key -> type and default of every setting outside `game`; a section has neither."""
    known: dict[str, tuple[type | None, Any]] = {}
    for key, value in leaves(Config()):
        section, _, _ = key.rpartition(".")
        if section != "game" and key != "experiment":
            known |= {section: (None, None), key: (type(value), value)} if section else {key: (type(value), value)}
    for section in SECTIONS:
        known[section] = None, None
        known |= {f"{section}.{name}": (type(default), default) for name, default in DEFAULTS.items()}
    return known


def _unknown(text: str, key: str, known: Iterable[str]) -> UsageError:
    if key in MOVED_SETTINGS:
        return UsageError(f"{text}: {key} is called {MOVED_SETTINGS[key]} now")
    return UsageError(f"{text}: there is no setting {key}; nearest: {nearest(key, known)}")


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    if len(lines) > 1 and lines[0].endswith(":"):
        lines[0] = f"{lines[0]} {lines[1].strip()}"
    cause = error.__cause__
    reason = next(iter(str(cause).strip().splitlines()), "") if cause is not None and cause.args != (None,) else ""
    return ": ".join(part for part in (lines[0] if lines else type(error).__name__, reason) if part)
