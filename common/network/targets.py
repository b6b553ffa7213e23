"""The table of targets: one class per target, with its label, its head and its loss.

`learner.targets` chooses among them; self-play evaluates only the policy and the value.
"""

from collections.abc import Callable

from shusaku.common.config.schema import LearnerConfig
from shusaku.common.network.game_targets import MovesLeft, Ownership, Score, ShortTermValues, Value
from shusaku.common.network.search_targets import OpponentReply, Policy, SoftPolicy
from shusaku.common.network.target import Target

TARGETS: dict[str, Callable[[LearnerConfig], Target]] = {
    "policy": Policy,
    "value": Value,
    "short_term": ShortTermValues,
    "soft_policy": SoftPolicy,
    "reply": OpponentReply,
    "moves_left": MovesLeft,
    "ownership": Ownership,
    "score": Score,
}


def make_targets(config: LearnerConfig) -> list[Target]:
    """Those that `learner.targets` names, in the order of the table."""
    return [make(config) for name, make in TARGETS.items() if name in config.targets]
