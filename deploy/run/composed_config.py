"""A configuration that remembers how the user asked for it."""

from dataclasses import replace
from typing import Any

from shusaku.common.config.schema import Config


class ComposedConfig(Config):
    """A Config with the overrides that it was composed from, for the run directory and for players of matches."""

    overrides: list[str]  # as typed, sweeps resolved
    asked: frozenset[str]  # groups and dotted keys that they set, game.<parameter> included
    search_settings: dict[str, Any]  # those of section search that they set
    unresolved: dict[str, Any]  # the composed tree with its interpolations (${oc.env:...}) left alone


def replace_settings(config: Config, **changes: Any) -> Config:
    """`dataclasses.replace` that keeps what a ComposedConfig remembers."""
    copy = replace(config, **changes)
    if isinstance(config, ComposedConfig) and isinstance(copy, ComposedConfig):
        copy.overrides, copy.asked, copy.unresolved = config.overrides, config.asked, config.unresolved
        copy.search_settings = config.search_settings
    return copy


def asked_keys(config: Config) -> frozenset[str]:
    """Groups and dotted keys that the command line sets; none for a configuration made in Python."""
    return config.asked if isinstance(config, ComposedConfig) else frozenset()


def asked_search(config: Config) -> dict[str, Any]:
    """The settings of section search that the command line sets; none for a configuration made in Python."""
    return config.search_settings if isinstance(config, ComposedConfig) else {}
