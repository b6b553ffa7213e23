"""From settings to an analysis."""

import pytest

from shusaku.actors.analysis.analysis import Limits
from shusaku.common.config.schema import Config, EngineConfig, GameConfig, InferenceConfig, NetworkConfig
from shusaku.common.config.search import GumbelConfig
from shusaku.common.errors import UsageError
from shusaku.deploy.protocols.opening import open_analysis


def test_opens_what_the_settings_name() -> None:
    config = Config(checkpoint="random", game=GameConfig("tic_tac_toe"), network=NetworkConfig(filters=8, blocks=1),
                    inference=InferenceConfig(runtime="torch"), engine=EngineConfig(threads=2, simulations=30))
    opened = open_analysis(config)
    opened.analysis.start(Limits(simulations=opened.simulations, to_the_end=True))
    opened.analysis.wait()
    assert opened.analysis.report().simulations == 30
    assert opened.game.name == "tic_tac_toe"
    assert "torch" in opened.evaluator
    opened.analysis.close()


def test_a_checkpoint_is_needed() -> None:
    with pytest.raises(UsageError, match="checkpoint= is missing"):
        open_analysis(Config())


def test_gumbel_under_a_clock_is_said_to_be_puct() -> None:
    config = Config(checkpoint="random", game=GameConfig("tic_tac_toe"), network=NetworkConfig(filters=8, blocks=1),
                    inference=InferenceConfig(runtime="torch"), engine=EngineConfig(threads=1), search=GumbelConfig())
    opened = open_analysis(config)
    assert any("puct is used" in note for note in opened.notes)
    opened.analysis.start(Limits(seconds=0.05, to_the_end=True))
    opened.analysis.wait()
    assert opened.analysis.report().ended == "time"
    opened.analysis.close()
