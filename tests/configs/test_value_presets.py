"""The presets of the value network have AlphaGo's values (Silver et al. 2016); each other one is said in the file."""

import re
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from shusaku import configs
from shusaku.deploy.cli.overrides import compose

FOLDER = Path(configs.__file__).parent / "experiment"
# Methods, "Value network: regression", which takes the training of "Policy network: classification".
PAPER: dict[str, Any] = {
    "value.enabled": True, "value.last_switch": 450, "value.rows": "one", "search.policy": "policy_only",
    "search.temperature_plies": 0, "search.temperature_final": None, "replay.window": "fixed",
    "replay.capacity": None, "replay.minimum": None, "replay.samples_per_position": 53.0, "replay.test_share": None,
    "network.tower": "plain", "network.filters": 192, "network.blocks": 10, "network.value_hidden": 256,
    "learner.targets": ["value"], "learner.batch_size": 32, "learner.optimizer": "sgd",
    "learner.learning_rate": 0.003, "learner.schedule": None, "learner.weight_decay": 0.0, "learner.warmup_steps": 0,
    "learner.max_grad_norm": 0.0, "learner.ema_decay": 0.0, "learner.symmetries": True, "learner.root_value_share": 0.0,
    "learner.blunder_gap": 0.0, "replay.surprise_weight": 0.0, "gating": "none",
}


@pytest.mark.parametrize("preset", ["alphago_9x9_value", "alphago_19x19_value"])
def test_a_value_is_the_papers_or_said_to_be_ours(preset: str) -> None:
    config = compose([f"experiment={preset}", "value.supervised=random", "value.reinforced=random"])
    lines = (FOLDER / f"{preset}.yaml").read_text().splitlines()
    found = [re.fullmatch(r"# Ours: ([a-z_.]+)=(\S+): (.+)\.", line) for line in lines if line.startswith("# Ours")]
    said = {match[1]: match[2] for match in found if match}
    assert len(said) == len(found), "a line is no sentence of the form '# Ours: KEY=VALUE: reason.'"
    for key, value in PAPER.items():
        own = attrgetter(key)(config)
        assert (said[key] == str(own).lower()) if own != value else key not in said, key
    assert said.keys() <= PAPER.keys()
    assert config.search.temperature_final == 1.0  # type: ignore[attr-defined]
    samples = 50e6 * 32 / 30e6  # of each of the paper's positions
    assert PAPER["replay.samples_per_position"] == pytest.approx(samples, rel=0.01)
