"""Each search policy has the settings that it reads, with one default each, and the C++ core has the same names."""

from dataclasses import asdict, fields, replace
from typing import Any

import numpy as np
import pytest

from shusaku.common._core import SearchOptions, SelfPlayOptions
from shusaku.common.config.schema import Config, SelfPlayConfig, config_hash
from shusaku.common.config.search import (
    DEFAULTS,
    POLICIES,
    UNREAD,
    AlphaGoConfig,
    GumbelConfig,
    MctsConfig,
    PolicyOnlyConfig,
    PuctConfig,
    SearchConfig,
    change_search,
    make_search,
    policies_with,
    search_rules,
    without_exploration,
)
from shusaku.common.errors import UsageError
from shusaku.common.search import search_options, self_play_options
from shusaku.deploy.cli.overrides import compose


def names_of(options: type) -> set[str]:
    return {name for name in dir(options) if not name.startswith("_")}


def values_of(options: Any, names: Any) -> dict[str, Any]:
    return {name: getattr(options, name) for name in names}


def in_core(values: dict[str, Any]) -> dict[str, Any]:
    """The values as the core holds them: its numbers have 32 bits."""
    return {name: float(np.float32(value)) if isinstance(value, float) else value for name, value in values.items()}


OF_THE_SEARCH = {"solved_empties"}  # a setting of self-play that changes its search


def test_the_core_has_the_settings_of_the_dataclasses() -> None:
    assert names_of(SearchOptions) == {*DEFAULTS, "symmetries", "asks_policy"}
    assert names_of(SelfPlayOptions) == {field.name for field in fields(SelfPlayConfig)} - OF_THE_SEARCH
    with pytest.raises(AttributeError):
        SearchOptions().c_put = 1.0


@pytest.mark.parametrize("options", [SearchOptions, SelfPlayOptions])
def test_the_core_has_no_defaults_of_its_own(options: type) -> None:
    assert not any(values_of(options(), names_of(options)).values())


@pytest.mark.parametrize("policy", POLICIES)
def test_the_core_receives_every_value(policy: str) -> None:
    config = make_search(policy)
    received = values_of(search_options(config, symmetries=True), DEFAULTS)
    assert received == in_core(UNREAD | vars(config))
    changed = replace(config, **{name: other_value(value) for name, value in vars(config).items() if name != "policy"})
    assert all(getattr(changed, name) != value for name, value in vars(config).items() if name != "policy")
    received = values_of(search_options(changed, symmetries=False), vars(changed))
    assert received == in_core(vars(changed))


def test_the_core_receives_every_value_of_self_play() -> None:
    config = SelfPlayConfig(**{name: other_value(value) for name, value in vars(SelfPlayConfig()).items()})
    values = {name: value for name, value in vars(config).items() if name not in OF_THE_SEARCH}
    assert values_of(self_play_options(config), values) == in_core(values)


def other_value(value: Any) -> Any:
    return not value if isinstance(value, bool) else f"{value}x" if isinstance(value, str) else value + 1


def test_a_setting_has_one_default() -> None:
    for name in DEFAULTS.keys() - {"policy"}:
        assert len({repr(vars(make_search(policy))[name]) for policy in policies_with(name)}) == 1, name


def test_a_policy_knows_its_name() -> None:
    assert {name: make_search(name).policy for name in POLICIES} == {name: name for name in POLICIES}
    assert [*POLICIES.values()] == [PuctConfig, GumbelConfig, MctsConfig, PolicyOnlyConfig, AlphaGoConfig]


@pytest.mark.parametrize("policy", POLICIES)
def test_the_defaults_hold_to_the_rules(policy: str) -> None:
    assert all(holds for _, _, holds, _ in search_rules(make_search(policy), "search"))
    assert all(holds for _, _, holds, _ in search_rules(without_exploration(make_search(policy)), "search"))


def test_a_search_for_strength_draws_nothing_at_random() -> None:
    explores = PuctConfig(temperature_half_life=9.0, forced_playouts=2.0, reuse=True, prune_policy=True)
    plain = without_exploration(explores)
    assert isinstance(plain, PuctConfig)
    assert (plain.noise, plain.temperature, plain.temperature_plies, plain.reuse) == (False, 0.0, 0, False)
    assert without_exploration(GumbelConfig(simulations=5)) == GumbelConfig(simulations=5, gumbel_scale=0.0)


def test_another_policy_keeps_what_both_read() -> None:
    search: SearchConfig = PuctConfig(simulations=12, c_puct=2.5, cache=7, leaves=3)
    assert change_search(search, {"policy": "gumbel"}, "search") == GumbelConfig(simulations=12, c_puct=2.5, cache=7)
    assert change_search(search, {"leaves": 4}, "search") == replace(search, leaves=4)
    with pytest.raises(UsageError, match=r"^search.gumbel_scale=0: puct does not read it; .* use search=gumbel$"):
        change_search(search, {"gumbel_scale": 0}, "search")
    with pytest.raises(UsageError, match=r"^search.policy=uct: must be one of puct, gumbel, .*, alphago$"):
        change_search(search, {"policy": "uct"}, "search")


# What `experiment=go_19x19_zero` was at that commit.
GO_ZERO_AT_1E2D214 = [
    "game=go", "game.size=19", "game.komi=7.5", "game.rules=chinese", "search=puct", "search.simulations=1600",
    "search.reuse=true", "search.dirichlet_alpha=0.03",
]


@pytest.mark.parametrize(("argv", "digest"), [
    (["experiment=connect_four", "search.proven_results=false"], "bcf65733c219920f"),  # the preset as it was then
    (["game=tic_tac_toe"], "c0bfe7e9782b06b8"),
    (["game=tic_tac_toe", "search=katago", "search.reuse=true", "search.simulations=32"], "d026ce9cf552e06e"),
    (["experiment=othello_6x6", "search.simulations=64", "search.solved_empties=0"], "1cdb2d03e9086d0b"),
    (GO_ZERO_AT_1E2D214, "20aeb8c8e647f344"),
    (["experiment=othello_6x6", "search.simulations=64", "search.solved_empties=16", "self_play.solved_empties=0"],
     "1cdb2d03e9086d0b"),  # what play alone solves means nothing to a record
    (["game=hex", "search=mcts", "learner.enabled=false", "search.c_uct=2"], "9286ae52f774936e"),
    (["game=hex", "search=policy_only", "learner.enabled=false", "search.temperature=0.5"], "24c24aef645153ea"),
])
def test_records_of_commit_1e2d214_belong_to_the_same_configuration(argv: list[str], digest: str) -> None:
    assert config_hash(compose(argv)) == digest


def test_the_whole_tree_is_data() -> None:
    assert asdict(Config(search=MctsConfig()))["search"] == vars(MctsConfig())
