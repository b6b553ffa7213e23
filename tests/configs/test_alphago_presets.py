"""The presets of AlphaGo's stages have its values (Silver et al. 2016, Methods), or their files say why not."""

from dataclasses import fields
from typing import Any

import pytest
from preset_fixtures import PLAIN, Ours, check_preset

from shusaku.common.config.schema import ReinforceConfig, ValueConfig
from shusaku.common.config.search import PolicyOnlyConfig
from shusaku.deploy.cli.overrides import compose

SEARCHED = {f"search.{field.name}" for field in fields(PolicyOnlyConfig)}
# "Policy network: classification": 13 layers of 192 filters, plain SGD; moves are not searched.
IMITATION_19X19: dict[str, Any] = {key: value for key, value in PLAIN.items()
                                   if not key.startswith("search.") or key in SEARCHED} | {
    "game.size": 19, "game.komi": 7.5, "game.rules": "chinese", "game.superko": "positional", "game.max_plies": 0,
    "game.handicap": 0, "game.planes": "alphago",
    # Of play after the training, and of a window of own games, which there is not.
    "search.simulations": 64, "search.symmetries": True, "search.temperature": 1.0, "search.temperature_plies": 30,
    "replay.window": "power", "replay.capacity": 500_000, "replay.minimum": 10_000, "replay.samples_per_position": 2.0,
    "network.tower": "plain", "network.filters": 192, "network.blocks": 11, "network.value_hidden": 256,
    "network.policy_filters": 2, "network.value_filters": 1,  # which a plain tower does not have
    "learner.targets": ["policy"], "learner.batch_size": 16, "learner.optimizer": "sgd", "learner.momentum": 0.0,
    "learner.learning_rate": 0.003, "learner.weight_decay": 0.0, "learner.symmetries": True,
    "learner.publish_every": 1000, "learner.ema_decay": Ours(0.99, "publishes no average"),
}
SMALL = {
    "network.tower": Ours("residual", "two cores"), "network.filters": Ours(64, "two cores"),
    "network.blocks": Ours(5, "two cores"), "network.value_hidden": 64,
}
ADAMW = {
    "learner.optimizer": Ours("adamw", "an hour"), "learner.momentum": 0.9,  # which adamw does not have
    "learner.batch_size": Ours(256, "an hour"), "learner.learning_rate": Ours(0.002, "an hour"),
    "learner.schedule": Ours("cooldown", "an hour"), "learner.weight_decay": Ours(0.0001, "an hour"),
    "learner.warmup_steps": Ours(100, "an hour"), "learner.max_grad_norm": Ours(4.0, "an hour"),
    "learner.ema_decay": Ours(0.997, "an hour"), "learner.publish_every": 100,
}
BOARD_9X9 = {"game.size": Ours(9, "19 x 19"), "game.planes": Ours("zero", "ladders")}
IMITATION_9X9 = IMITATION_19X19 | BOARD_9X9 | SMALL | ADAMW | {"network.policy_filters": 32}
CHESS: dict[str, Any] = {key: value for key, value in IMITATION_9X9.items() if not key.startswith("game.")} | {
    "game.max_plies": Ours(512, "another game"), "game.planes": Ours("zero", "another game"),
    "network.policy_head": Ours("planes", "another game"), "network.policy_filters": 64,
}
SAMPLED = {"search.temperature_plies": 0, "search.temperature_final": 1.0}  # of all plies
# "Policy network: reinforcement learning".
REINFORCE_9X9 = IMITATION_9X9 | SAMPLED | {
    "replay.capacity": 100_000, "learner.optimizer": "sgd", "learner.momentum": 0.0, "learner.weight_decay": 0.0,
    "learner.schedule": "constant", "learner.warmup_steps": 0, "learner.ema_decay": 0.0, "learner.publish_every": 1,
    "learner.symmetries": False, "learner.batch_size": 1024,  # rows at a time; the update is that of all games
    "learner.learning_rate": Ours(0.001, "says none"), "learner.max_grad_norm": Ours(10.0, "diverged"),
}
# "Value network: regression"; mini-batches and rates as in classification.
TEMPERATURE = Ours(1.0, "a temperature that it does not say")
VALUE_19X19 = IMITATION_19X19 | SAMPLED | {
    "game.planes": "alphago_value", "search.temperature_final": TEMPERATURE, "network.blocks": 10,
    "replay.window": "fixed", "replay.capacity": Ours(2_000_000, "30 million"),
    "replay.minimum": Ours(100_000, "as above"), "replay.test_share": Ours(0.01, "does not say how many"),
    "replay.samples_per_position": 53.0,  # 50 million mini-batches of 32, of 30 million positions
    "learner.targets": ["value"], "learner.batch_size": 32, "learner.schedule": Ours("constant", "80 million steps"),
    "learner.ema_decay": 0.0, "learner.publish_every": 100,
}
VALUE_9X9 = VALUE_19X19 | BOARD_9X9 | {
    "network.tower": Ours("residual", "9 x 9"), "network.filters": Ours(64, "19 x 19"),
    "network.blocks": Ours(5, "two convolutions"), "network.value_hidden": Ours(64, "256"),
    "replay.capacity": Ours(400_000, "30 million"), "replay.minimum": Ours(10_000, "as above"),
    "replay.test_share": Ours(0.05, "does not say how many"), "replay.samples_per_position": Ours(4.0, "53 times"),
    "learner.optimizer": Ours("adamw", "plain SGD"), "learner.momentum": 0.9,
    "learner.batch_size": Ours(256, "32"), "learner.learning_rate": Ours(0.001, "of SGD"),
    "learner.schedule": Ours("cooldown", "as above"), "learner.weight_decay": Ours(0.0001, "none"),
    "learner.warmup_steps": Ours(100, "as above"), "learner.max_grad_norm": Ours(4.0, "as above"),
    "learner.ema_decay": Ours(0.99, "no average"),
}
PRESETS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "alphago_19x19_imitation": (IMITATION_19X19, []), "alphago_9x9_imitation": (IMITATION_9X9, []),
    "chess_imitation": (CHESS, []), "alphago_9x9_reinforce": (REINFORCE_9X9, ["policy.from=random"]),
    "alphago_19x19_value": (VALUE_19X19, ["value.supervised=random", "value.reinforced=random"]),
    "alphago_9x9_value": (VALUE_9X9, ["value.supervised=random", "value.reinforced=random"]),
}
# Sections of a stage of its own: policy gradient, and games for a value network.
STAGES: dict[str, dict[str, Any]] = {
    "alphago_9x9_reinforce": {
        "reinforce.enabled": True, "reinforce.start": "random", "reinforce.games": 128, "reinforce.baseline": "",
        "reinforce.pool_every": Ours(50, "10,000 updates"), "reinforce.max_lag": Ours(4, "waits for the games"),
    },
    "alphago_19x19_value": {
        "value.enabled": True, "value.supervised": "random", "value.reinforced": "random", "value.last_switch": 450,
        "value.temperature": 1.0, "value.rows": "one",
    },
    "alphago_9x9_value": {
        "value.enabled": True, "value.supervised": "random", "value.reinforced": "random",
        "value.last_switch": Ours(80, "450"), "value.temperature": Ours(0.25, "softmax"), "value.rows": "one",
    },
}


@pytest.mark.parametrize("preset", PRESETS)
def test_every_field_has_the_papers_value_or_the_file_says_why_not(preset: str) -> None:
    expected, overrides = PRESETS[preset]
    check_preset(preset, expected | STAGES.get(preset, {}), *overrides)


def test_the_settings_of_a_stage_are_all_named() -> None:
    for section, config in (("reinforce", ReinforceConfig), ("value", ValueConfig)):
        named = {f"{section}.{field.name}" for field in fields(config)}
        assert all(named == stage.keys() for preset, stage in STAGES.items() if section in preset)


def test_the_samples_per_position_are_those_of_the_papers_mini_batches() -> None:
    assert VALUE_19X19["replay.samples_per_position"] == pytest.approx(50e6 * 32 / 30e6, rel=0.01)


def test_the_policy_of_the_stage_before_fits() -> None:
    before, now = (compose([f"experiment={name}", *overrides]) for name, overrides in (
        ("alphago_9x9_imitation", ["dataset.records=x"]), ("alphago_9x9_reinforce", ["policy.from=random"])))
    assert (before.game, before.network) == (now.game, now.network)
    assert before.learner.targets == now.learner.targets
