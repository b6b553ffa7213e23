"""The preset of policy gradient has AlphaGo's values (Silver et al. 2016); each other one is said in the file."""

import re
from operator import attrgetter
from pathlib import Path
from typing import Any

from shusaku import configs
from shusaku.common.config.schema import Config
from shusaku.deploy.cli.overrides import compose

FILE = Path(configs.__file__).parent / "experiment" / "alphago_9x9_reinforce.yaml"
# Methods, "Policy network: reinforcement learning"; the network is that of "classification".
PAPER: dict[str, Any] = {
    "game.params.size": 19, "reinforce.enabled": True, "reinforce.games": 128, "reinforce.pool_every": 500,
    "reinforce.max_lag": None, "reinforce.baseline": "", "search.policy": "policy_only", "search.temperature": 1.0,
    "search.temperature_plies": 0, "search.temperature_final": 1.0, "network.tower": "plain", "network.filters": 192,
    "network.blocks": 10, "learner.targets": ["policy"], "learner.optimizer": "sgd", "learner.learning_rate": None,
    "learner.momentum": 0.0, "learner.weight_decay": 0.0, "learner.schedule": "constant", "learner.warmup_steps": 0,
    "learner.max_grad_norm": 0.0, "learner.ema_decay": 0.0, "learner.publish_every": 1, "learner.symmetries": False,
    "self_play.random_plies": 0, "self_play.resign_errors": 0.0, "gating": "none",
}


def value_of(config: Config, key: str) -> Any:
    if key.startswith("game.params."):
        return config.game.params[key.removeprefix("game.params.")]
    return attrgetter(key)(config)


def test_a_value_is_the_papers_or_said_to_be_ours() -> None:
    config = compose(["experiment=alphago_9x9_reinforce", "policy.from=random"])
    lines = [line for line in FILE.read_text().splitlines() if line.startswith("# Ours")]
    found = [re.fullmatch(r"# Ours: ([a-z_.]+)=(\S+): (.+)\.", line) for line in lines]
    said = {match[1]: match[2] for match in found if match}
    assert len(said) == len(lines), "a line is no sentence of the form '# Ours: KEY=VALUE: reason.'"
    for key, value in PAPER.items():
        own = value_of(config, key)
        assert (said.get(key) == str(own).lower()) if own != value else key not in said, key
    assert said.keys() <= PAPER.keys()


def test_the_policy_of_the_stage_before_fits() -> None:
    before, now = (compose([f"experiment={name}", *overrides]) for name, overrides in (
        ("alphago_9x9_imitation", ["dataset.records=x"]), ("alphago_9x9_reinforce", ["policy.from=random"])))
    assert (before.game, before.network) == (now.game, now.network)
    assert before.learner.targets == now.learner.targets
