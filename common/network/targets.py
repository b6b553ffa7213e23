"""The table of targets: one class per target, with its label, its head and its loss.

`learner.targets` chooses among them; self-play evaluates only the policy and the value.
"""

from shusaku.common.config.schema import LearnerConfig
from shusaku.common.network.game_targets import MovesLeft, Ownership, Score, ShortTermValues, Value, WinDrawLoss
from shusaku.common.network.search_targets import OpponentReply, Policy, SoftPolicy
from shusaku.common.network.target import Target

TARGETS: dict[str, type[Target]] = {target.name: target for target in (
    Policy, Value, WinDrawLoss, ShortTermValues, SoftPolicy, OpponentReply, MovesLeft, Ownership, Score
)}


def make_targets(config: LearnerConfig) -> list[Target]:
    """Those that `learner.targets` names, in the order of the table."""
    return [make(config) for name, make in TARGETS.items() if name in config.targets]
