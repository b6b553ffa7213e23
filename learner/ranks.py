"""One learner in several processes: each rank takes its share of every mini-batch, and all make the same step.

Rank 0 decides: whether a step is made, at which learning rate, from which state.  The others follow
(`learner.follower`).  The gradients of all rows are added up before anything looks at them, so bound, skipped steps and
the optimizer are those of one process with the whole mini-batch; batch norms, too (`learner.global_norm`).
"""

import enum
from dataclasses import dataclass
from typing import Any

import numpy as np
import safetensors.numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from shusaku.common._core import Game
from shusaku.common.config.schema import LearnerConfig
from shusaku.common.network.network import Network
from shusaku.common.network.target import summed_losses
from shusaku.learner.collectives import Collectives
from shusaku.learner.global_norm import share_norms
from shusaku.learner.learner import Learner
from shusaku.learner.state_copy import LearnerState
from shusaku.replay.buffer import Batch

_PART = "/"  # between the part of a state and the name of a tensor
_FACTS = "facts"  # the part of its numbers


class Order(enum.IntEnum):
    """What rank 0 asks of the others."""

    STEP = 1  # number: the learning rate
    LOAD = 2  # number: bytes of the state that follows
    END = 3


@dataclass(frozen=True, slots=True)
class Asked:
    """An order and its number."""

    order: Order
    number: float


class RankedLearner(Learner):
    """One rank's learner.  A step is of the rows of all ranks; metrics but the losses are of the own rows.

    On a GPU each step waits for its outcome: no graph of steps is captured.
    """

    def __init__(
        self, network: Network, game: Game, config: LearnerConfig, ranks: Collectives, *, is_quantised: bool = False
    ) -> None:
        """As `Learner`; the network has the same tensors on all ranks, or rank 0 sends them (`send_state`)."""
        share_norms(network, ranks)
        super().__init__(network, game, config, is_quantised=is_quantised, waits=True)
        self._runtime = f"{ranks.size} ranks by {ranks.way}, each {self._runtime}"
        self.rank, self._ranks = ranks.rank, ranks
        self._asked_rate: float | None = None
        self._is_sent = False  # the others have the state of rank 0

    # --- rank 0 ------------------------------------------------------------------------------------------------------

    def may_step(self) -> bool:
        """Asks all ranks to step with the next `step`; False if one has no rows yet."""
        if not self._is_sent:
            self.send_state()
        self._asked_rate = super()._rate(self.step_count)
        self._order(Order.STEP, self._asked_rate)
        return self._ranks.least(1) == 1

    def restore(self, state: LearnerState) -> None:
        """See `Learner.restore`; the others get the state before the next step."""
        super().restore(state)
        self._is_sent = False

    def send_state(self) -> None:
        """Everything that decides the next step, to all ranks."""
        state = self.state()
        flat = {f"{part}{_PART}{name}": array for part, named in state.tensors.items() for name, array in named.items()}
        flat |= {f"{_FACTS}{_PART}{name}": np.array(value, np.float64) for name, value in state.facts.items()}
        data = torch.frombuffer(bytearray(safetensors.numpy.save(flat)), dtype=torch.uint8)
        self._order(Order.LOAD, len(data))
        self._ranks.copy_of_first(data)
        self._is_sent = True

    def end(self) -> None:
        """The other ranks end."""
        self._order(Order.END, 0)

    def _order(self, order: Order, number: float) -> None:
        self._ranks.copy_of_first(torch.tensor([float(order), number], dtype=torch.float64))

    # --- the others --------------------------------------------------------------------------------------------------

    def next_order(self) -> Asked:
        """Waits for the next order of rank 0, as long as that takes."""
        order, number = self._ranks.copy_of_first(torch.zeros(2, dtype=torch.float64)).tolist()
        return Asked(Order(int(order)), number)

    def follow_step(self, batch: Batch | None, rate: float) -> bool:
        """The answer to STEP; False if no step was made, because this or another rank has no rows yet."""
        if self._ranks.least(int(batch is not None)) == 0 or batch is None:
            return False
        self._asked_rate = rate
        self.step(batch)
        return True

    def follow_load(self, count: int) -> None:
        """The answer to LOAD: takes over the state of rank 0."""
        data = self._ranks.copy_of_first(torch.empty(count, dtype=torch.uint8)).numpy().tobytes()
        parts: dict[str, dict[str, NDArray[Any]]] = {
            name: {} for name in ("network", "average", "optimizer", "random", _FACTS)}
        for name, array in safetensors.numpy.load(data).items():
            part, _, own = name.partition(_PART)
            parts[part][own] = array
        super().restore(LearnerState(parts, {name: float(value) for name, value in parts.pop(_FACTS).items()}))

    # --- all ranks ---------------------------------------------------------------------------------------------------

    def _rate(self, step: int) -> float:
        return super()._rate(step) if self._asked_rate is None else self._asked_rate

    def _differentiate(
        self, observations: Tensor, labels: dict[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
        self._optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._is_bf16):
            predictions = self.network(observations)
        loss, losses = summed_losses(predictions, labels, self._targets)
        loss.backward()  # type: ignore[no-untyped-call]
        own = torch.stack([labels["weight"].sum().to(loss.dtype), loss.detach(), *map(Tensor.detach, losses.values())])
        total = self._sum(own)
        total = total[1:] / total[0]
        return total[0], dict(zip(losses, total[1:], strict=True)), predictions

    @torch.no_grad()
    def _sum(self, own: Tensor) -> Tensor:
        """`own` [N], whose first number is the weight of the rows, of all ranks; the gradients become those, too."""
        gradients = [parameter.grad for parameter in self._parameters if parameter.grad is not None]
        flat = self._ranks.sum(torch.cat([*(gradient.flatten() for gradient in gradients), own.to(gradients[0].dtype)]))
        total = flat[-len(own):].clone()
        flat.div_(total[0])
        parts = torch.split(flat[:-len(own)], [gradient.numel() for gradient in gradients])
        torch._foreach_copy_(gradients, [part.view_as(one) for part, one in zip(parts, gradients, strict=True)])
        return total
