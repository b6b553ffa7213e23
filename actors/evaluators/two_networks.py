"""A policy network and a value network as one evaluator, for AlphaGo's search.

That search asks for the priors of a position or for its value: leaves with actions are for the policy network, leaves
without are for the value network.  A network with both heads answers both, and needs nothing of this.
"""

import numpy as np
from numpy.typing import NDArray

from shusaku.common._core import Game
from shusaku.common.leaves_codec import fit_leaves
from shusaku.common.messages import Evaluation, Leaves
from shusaku.common.search import Evaluate


class TwoNetworks:
    """Asks each network about its own leaves; None: the search never asks it."""

    def __init__(self, policy: Evaluate | None, value: Evaluate | None, *, policy_game: Game | None = None) -> None:
        """`policy_game`: the game as the policy network sees it, by `fit_leaves`; None: both see the same planes."""
        self.policy, self.value, self._policy_game = policy, value, policy_game

    @property
    def version(self) -> int:
        """0, always: the search has no cache of evaluations."""
        return 0

    @property
    def description(self) -> str:
        """Runtime and precision, as text for the user."""
        return str(getattr(self.policy or self.value, "description", "no network"))

    def answer_both(self, leaves: Leaves) -> Evaluation:
        """Logits and values of all leaves; logits are equal without a policy network, values 0 without the other."""
        logits, values = np.zeros(len(leaves.actions), np.float32), np.zeros(len(leaves), np.float32)
        if self.policy is not None:
            logits[:] = self(leaves).logits
        if self.value is not None:
            bare = Leaves(leaves.packed, leaves.uniform, np.zeros_like(leaves.offsets), leaves.actions[:0])
            values[:] = self(bare).values
        return Evaluation(logits, values, self.version)

    def __call__(self, leaves: Leaves) -> Evaluation:
        """Logits of the leaves with actions, values of the others."""
        has_actions = leaves.offsets[1:] > leaves.offsets[:-1]  # [B]
        logits = np.zeros(len(leaves.actions), np.float32)
        values = np.zeros(len(leaves), np.float32)
        rows = np.flatnonzero(has_actions)
        if len(rows):  # the other rows have no logits, so those of these rows keep their places
            seen = leaves if self._policy_game is None else fit_leaves(leaves, self._policy_game)
            logits[:] = _asked(self.policy)(_take(seen, rows)).logits[: len(logits)]
        rows = np.flatnonzero(~has_actions)
        if len(rows):
            values[rows] = _asked(self.value)(_take(leaves, rows)).values[: len(rows)]
        return Evaluation(logits, values, self.version)


def answer_both(evaluate: Evaluate, leaves: Leaves) -> Evaluation:
    """Logits and values of leaves with actions, of one network or of two."""
    return evaluate.answer_both(leaves) if isinstance(evaluate, TwoNetworks) else evaluate(leaves)


def has_policy(evaluate: Evaluate) -> bool:
    """Whether leaves with actions may be asked about."""
    return not isinstance(evaluate, TwoNetworks) or evaluate.policy is not None


def _asked(network: Evaluate | None) -> Evaluate:
    if network is None:
        raise ValueError("the search asks a network that it was not given")
    return network


def _take(leaves: Leaves, rows: NDArray[np.intp]) -> Leaves:
    """These leaves alone, either all those with actions or all those without."""
    offsets = np.zeros(len(rows) + 1, np.int32)
    np.cumsum(np.diff(leaves.offsets)[rows], out=offsets[1:])
    return Leaves(leaves.packed[rows], leaves.uniform[rows], offsets, leaves.actions[: offsets[-1]])
