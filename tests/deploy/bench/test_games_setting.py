"""`actors.games_per_actor=auto` becomes a number before anything is built, and a process that measures may fail."""

import operator
from dataclasses import asdict

import pytest

from shusaku.common.config.schema import Config
from shusaku.common.errors import RunError, UsageError
from shusaku.deploy.bench.batch_size import SIZES
from shusaku.deploy.bench.games_setting import settle_games
from shusaku.deploy.bench.processes import run_in_subprocess
from shusaku.deploy.cli.overrides import compose

SMALL = ["game=tic_tac_toe", "network.filters=8", "network.blocks=1", "search.simulations=8"]


def test_a_number_stays_and_nothing_is_measured() -> None:
    config = compose([*SMALL, "actors.games_per_actor=24"])
    settled, choice = settle_games(config)
    assert settled is config
    assert choice is None


def test_auto_becomes_a_measured_number_and_all_else_stays() -> None:
    config = compose([*SMALL, "actors.games_per_actor=auto", "actors.count=3"])
    settled, choice = settle_games(config)
    assert choice is not None
    assert settled.actors.games_per_actor == choice.games in SIZES
    before, after = asdict(config), asdict(settled)
    before["actors"].pop("games_per_actor"), after["actors"].pop("games_per_actor")
    assert before == after


def test_what_cannot_be_measured_is_said() -> None:
    with pytest.raises(UsageError, match="no such file or directory"):
        settle_games(compose([*SMALL, "actors.games_per_actor=auto", "checkpoint=nowhere"]))


def test_answers_and_ends_of_a_process_apart() -> None:
    config = Config(games=7)
    assert run_in_subprocess(operator.attrgetter("games"), config) == 7
    with pytest.raises(RunError, match="the process that measures ended with exit code 1"):
        run_in_subprocess(operator.attrgetter("no_such_thing"), config)
