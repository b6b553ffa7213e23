"""The sections `search`, `first.search` and `second.search` while a configuration is composed.

Which settings a search has depends on its policy, which Hydra knows only in the end.  So Hydra composes the settings of
all policies, None if nothing asks for them, and then they become the dataclass of the policy.
"""

from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from omegaconf import DictConfig, OmegaConf

from shusaku.common.config.rule import raise_first
from shusaku.common.config.schema import Config
from shusaku.common.config.search import DEFAULTS, POLICIES, make_search, policies_with, unread_rules, value_rules
from shusaku.common.errors import UsageError
from shusaku.common.suggestions import nearest

SECTIONS = ("search", "first.search", "second.search")


def schema_tree() -> DictConfig:
    """What Hydra composes into; types are applied afterwards, by `typed_tree`."""
    tree = OmegaConf.create(asdict(Config()))
    for section in SECTIONS:
        OmegaConf.update(tree, section, dict.fromkeys(DEFAULTS), merge=False)
    tree.search.policy = DEFAULTS["policy"]  # for a choice that names none
    return tree


def typed_tree(tree: DictConfig, search: Mapping[str, Any]) -> DictConfig:
    """The tree with the types of Config, its search with those of the policy; interpolations stay."""
    policy = str(search["policy"])
    plain: Any = OmegaConf.to_container(tree, resolve=False)
    config = Config(search=make_search(policy if policy in POLICIES else "puct"))
    plain["search"] = {
        name: value for name, value in plain["search"].items() if value is not None and name in vars(config.search)
    }
    for player in ("first", "second"):
        plain[player]["search"] = requested_settings(tree[player].search)
    typed = OmegaConf.merge(OmegaConf.structured(config), plain)
    assert isinstance(typed, DictConfig)
    return typed


def typed_setting(name: str, value: Any) -> Any:
    """The value as the type of this setting; OmegaConf's error if it is of another type."""
    node = _typed_settings(policies_with(name)[0])
    node[name] = value
    return node[name]


@lru_cache
def _typed_settings(policy: str) -> DictConfig:
    """A scratch copy of this policy's settings: a value that is put in takes the type that its dataclass gives it."""
    node = OmegaConf.structured(POLICIES[policy])
    assert isinstance(node, DictConfig)
    return node


def requested_settings(section: DictConfig) -> dict[str, Any]:
    """The settings that something asks for, with their types; UsageError on one that no policy has."""
    given = {str(name): value for name, value in section.items() if value is not None}
    for name, value in given.items():
        if name not in DEFAULTS:
            raise UsageError(f"search.{name}={value}: there is no setting search.{name}; nearest: "
                             f"search.{nearest(name, DEFAULTS)}")
    return {name: typed_setting(name, value) for name, value in given.items()}


def check_policy(settings: Mapping[str, Any], asked: frozenset[str]) -> None:
    """UsageError if the section `search` asks for what its policy does not read.

    A policy that the command line chooses may lack what the experiment sets for its own policy.
    """
    policy = settings["policy"]
    raise_first(value_rules({"policy": policy}, "search"))
    is_chosen = not asked.isdisjoint(("search", "search.policy"))
    checked = {name: value for name, value in settings.items() if not is_chosen or f"search.{name}" in asked}
    raise_first(unread_rules(policy, checked, "search"))
