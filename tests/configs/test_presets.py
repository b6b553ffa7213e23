"""Presets named after a source have its values: every field that decides what is played and learned is named here."""

import random
from dataclasses import fields
from typing import Any

import pytest
from preset_fixtures import CARRIED_OUT, PLAIN, Ours, check_preset

from shusaku.common._core import Game
from shusaku.common.config.schema import Config
from shusaku.common.config.search import PuctConfig
from shusaku.deploy.cli.overrides import compose

NOT_PUBLISHED = "not published"

# Silver et al. 2018: the supplement's pseudocode and Methods.
ALPHAZERO: dict[str, Any] = PLAIN | {
    "search.simulations": 800, "search.c_puct": 1.25, "search.c_puct_log": 1.0, "search.fpu": "loss",
    "search.fpu_reduction": 0.2, "search.dirichlet_fraction": 0.25, "search.temperature": 1.0,
    "search.temperature_plies": 30, "search.symmetries": False,
    "network.filters": 256, "network.blocks": 19, "network.value_filters": 1, "network.value_hidden": 256,
    "replay.window": "fixed", "replay.minimum": Ours(100_000, NOT_PUBLISHED),
    "learner.steps": 700_000, "learner.batch_size": 4096, "learner.optimizer": "sgd", "learner.weight_decay": 1e-4,
    "learner.schedule": "step", "learner.symmetries": False, "learner.publish_every": 1000,
}
CHESS: dict[str, Any] = ALPHAZERO | {
    "game.planes": "zero", "game.max_plies": 512, "search.dirichlet_alpha": 0.3,
    "network.policy_head": "planes", "network.policy_filters": 256,
    "learner.learning_rate": 0.2, "learner.schedule_drops": [100_000, 300_000, 500_000],
    "replay.capacity": Ours(92_000_000, "1,000,000 games"), "replay.samples_per_position": 0.71,
}
SHOGI: dict[str, Any] = CHESS | {
    "search.dirichlet_alpha": 0.15, "game.declaration": Ours(True, NOT_PUBLISHED),
    "replay.capacity": Ours(112_000_000, "1,000,000 games"), "replay.samples_per_position": 1.06,
}
GO_19X19: dict[str, Any] = {
    "game.size": 19, "game.komi": 7.5, "game.rules": "chinese", "game.superko": Ours("positional", NOT_PUBLISHED),
    "game.max_plies": 0, "game.handicap": 0, "game.planes": "zero", "network.policy_filters": 2,
    "search.dirichlet_alpha": 0.03,
}
GO_19X19_ALPHAZERO = ALPHAZERO | GO_19X19 | {
    "learner.learning_rate": 0.02, "learner.schedule_drops": [300_000, 500_000],
    "replay.capacity": Ours(146_000_000, "1,000,000 games"), "replay.samples_per_position": 0.94,
}
# Silver et al. 2017: Methods and Extended Data Table 3.
GO_19X19_ZERO = ALPHAZERO | GO_19X19 | {
    "search.simulations": 1600, "search.c_puct": Ours(1.5, NOT_PUBLISHED), "search.c_puct_log": 0.0,
    "search.fpu": "zero", "search.reuse": True, "search.symmetries": True, "learner.symmetries": True,
    "self_play.resign_errors": Ours(0.05, "best child"), "self_play.never_resign_share": 0.1,
    "learner.batch_size": 2048, "learner.learning_rate": 0.01, "learner.schedule_drops": [400_000, 600_000],
    "replay.capacity": Ours(73_000_000, "500,000 games"), "replay.samples_per_position": 2.0,
    "gating": "win_rate", "gate.simulations": 1600, "gate.opening_plies": Ours(4, "repeat each other"),
}
# The tutorial "9 x 9 Go from scratch".
GO_9X9_TUTORIAL = PLAIN | {
    "game.size": 9, "game.komi": 5.5, "game.rules": Ours("chinese", "suicide is forbidden"),
    "game.superko": Ours("positional", "a ko alone"), "game.max_plies": 200, "game.handicap": 0,
    "game.planes": "tutorial",
    "search.simulations": 100, "search.c_puct": 1.5, "search.fpu": "zero", "search.dirichlet_alpha": 0.3,
    "search.dirichlet_fraction": 0.25, "search.temperature": 1.0, "search.temperature_plies": 30,
    "search.target_temperature": -1.0, "search.symmetries": False,
    "network.filters": 64, "network.blocks": 4, "network.policy_filters": 2, "network.value_filters": 1,
    "network.value_hidden": 64,
    "replay.window": Ours("power", "forgets less"), "replay.capacity": Ours(500_000, "as above"),
    "replay.minimum": Ours(5000, "50 games"), "replay.window_exponent": Ours(0.65, "as above"),
    "replay.window_factor": Ours(0.4, "as above"), "replay.samples_per_position": 10.0,
    "learner.batch_size": 32, "learner.optimizer": "adam", "learner.learning_rate": 0.001, "learner.weight_decay": 0.0,
    "learner.symmetries": False, "learner.publish_every": 1562,
}
# Wu 2019; lightvector/KataGo, cpp/configs/training/selfplay1_maxsize9.cfg, python/train.py, python/shuffle.py.
GLOBAL_POOLING = "global pooling"
GO_9X9_KATAGO = PLAIN | {
    "game.size": 9, "game.komi": Ours(7.0, "finds even"), "game.rules": Ours("tromp_taylor", "all rules"),
    "game.superko": Ours("positional", "all three"), "game.max_plies": 0, "game.handicap": 0, "game.planes": "komi",
    "search.simulations": 600, "search.c_puct": Ours(1.1, "utility of scores"), "search.fpu": "parent",
    "search.dirichlet_alpha": 1.0,  # dirichlet_total instead
    "search.dirichlet_total": 10.83, "search.dirichlet_fraction": 0.25,
    "search.root_policy_temperature": 1.1, "search.root_policy_temperature_early": 1.25,
    "search.root_policy_temperature_half_life": 9.0, "search.forced_playouts": 2.0, "search.prune_policy": True,
    "search.temperature": 0.75, "search.temperature_half_life": 9.0, "search.temperature_final": 0.15,
    "search.temperature_plies": 1_000_000, "search.symmetries": Ours(True, "four"),
    "search.move_choice": Ours("visits", "published is lcb"),
    "self_play.policy_plies": Ours(3.24, "gamma"), "self_play.fork_share": 0.04,
    "self_play.fork_plies": Ours(4, "exponential"), "self_play.komi_stdev": Ours(0.47, "wide deviation"),
    "self_play.cheap_share": 0.75, "self_play.cheap_simulations": 100, "self_play.decided_value": 0.9,
    "self_play.decided_plies": 3, "self_play.decided_weight": 0.1,
    "network.filters": Ours(96, GLOBAL_POOLING), "network.blocks": 6,
    "network.policy_filters": Ours(32, GLOBAL_POOLING), "network.value_filters": Ours(32, GLOBAL_POOLING),
    "network.value_hidden": Ours(64, GLOBAL_POOLING),
    "replay.window": "power", "replay.minimum": 250_000, "replay.capacity": Ours(5_000_000, "without end"),
    "replay.window_exponent": 0.75, "replay.window_factor": 0.4, "replay.samples_per_position": 4.0,
    "replay.surprise_weight": 0.5, "replay.value_surprise_weight": 0.1,
    "learner.batch_size": 256, "learner.targets": ["policy", "value", "ownership", "score", "reply"],
    "learner.optimizer": "sgd", "learner.learning_rate": Ours(0.0154, "6e-5 a sample"), "learner.weight_decay": 3e-5,
    "learner.value_weight": Ours(1.5, "cross entropy"), "learner.score_weight": Ours(0.0015, "distribution"),
    "learner.warmup_steps": Ours(1000, "learning_rate"), "learner.max_grad_norm": Ours(4.0, NOT_PUBLISHED),
    "learner.ema_decay": Ours(0.999, "250,000 samples"), "learner.publish_every": Ours(1000, "250,000 samples"),
    "learner.symmetries": True,
}

PRESETS = {
    "chess": CHESS, "shogi": SHOGI, "go_19x19_alphazero": GO_19X19_ALPHAZERO, "go_19x19_zero": GO_19X19_ZERO,
    "go_9x9_tutorial": GO_9X9_TUTORIAL, "go_9x9_katago": GO_9X9_KATAGO,
}


@pytest.mark.parametrize("preset", PRESETS)
def test_every_field_has_the_value_of_the_source_or_the_file_says_why_not(preset: str) -> None:
    check_preset(preset, PRESETS[preset])


@pytest.mark.parametrize("preset", PRESETS)
def test_the_puct_of_each_preset_is_checked_as_a_whole(preset: str) -> None:
    assert {f"search.{field.name}" for field in fields(PuctConfig)} <= PRESETS[preset].keys() | CARRIED_OUT


@pytest.mark.parametrize(("preset", "hours", "milliseconds", "games"), [
    ("chess", 9, 40, 44e6), ("shogi", 12, 80, 24e6), ("go_19x19_alphazero", 34, 200, 21e6),
])
def test_alphazeros_samples_per_position_and_its_window(
    preset: str, hours: float, milliseconds: float, games: float
) -> None:
    """arXiv 1712.01815, table S3: 5,000 processors played so long with so much time a move.  A window of 1e6 games."""
    config = compose([f"experiment={preset}"])
    positions = hours * 3600 * 5000 / (milliseconds / 1000)
    samples = config.learner.steps * config.learner.batch_size / positions
    assert config.replay.samples_per_position == pytest.approx(samples, rel=0.01)
    assert config.replay.capacity == pytest.approx(1e6 * positions / games, rel=0.01)


def test_alphago_zeros_samples_per_position_and_its_window() -> None:
    """4.9 million games, a window of 500,000; as long as AlphaZero's."""
    zero, other = (compose([f"experiment={name}"]) for name in ("go_19x19_zero", "go_19x19_alphazero"))
    plies = other.replay.capacity / 1e6
    assert zero.replay.samples_per_position == pytest.approx(700_000 * 2048 / 4.9e6 / plies, rel=0.01)
    assert zero.replay.capacity == 500_000 * plies


def test_the_tutorials_samples_and_steps() -> None:
    """50 games of about 100 plies an iteration, 10 epochs of batches of 32."""
    config = compose(["experiment=go_9x9_tutorial"])
    assert config.replay.samples_per_position == 10
    assert config.learner.publish_every == 50 * 100 * 10 // 32


def test_the_run_ends_by_its_steps_where_the_source_says_how_many() -> None:
    for preset, expected in PRESETS.items():
        config = compose([f"experiment={preset}"])
        assert (config.learner.steps == 700_000) == (config.run.minutes == 365 * 24 * 60), preset
        assert config.learner.steps == expected["learner.steps"]


@pytest.mark.parametrize(("argv", "alpha"), [
    (["game=chess"], 0.3), (["game=shogi"], 0.15), (["game=go"], 0.03), (["game=go", "game.size=9"], 0.134),
    (["game=tic_tac_toe"], None), (["game=hex", "game.size=5"], None),
    (["game=chess", "search.dirichlet_alpha=0.7"], 0.7),
])
def test_alpha_goes_by_the_game(argv: list[str], alpha: float | None) -> None:
    config = compose([*argv, "search=alphazero"])
    assert isinstance(config.search, PuctConfig)
    if alpha is None:  # about 10 over the number of legal moves of a typical position
        assert config.search.dirichlet_alpha == pytest.approx(10 / mean_legal_moves(config, games=300), rel=0.1)
    else:
        assert config.search.dirichlet_alpha == alpha
    assert config.unresolved["search"]["dirichlet_alpha"] == config.search.dirichlet_alpha  # what the run keeps


def mean_legal_moves(config: Config, games: int) -> float:
    draw, counts, game = random.Random(7), [], Game(config.game.name, config.game.params)
    for _ in range(games):
        position = game.start()
        while not position.is_terminal:
            counts.append(len(position.legal_actions))
            position.play(draw.choice(position.legal_actions))
    return sum(counts) / len(counts)
