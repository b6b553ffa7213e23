"""How well a network predicts games that it never learned from."""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from shusaku.common._core import Game, RowRing
from shusaku.common.codec import CodecError
from shusaku.common.config.schema import NetworkConfig
from shusaku.common.messages import GameRecord, Weights
from shusaku.common.network.torch_tower import TorchTower
from shusaku.common.network.tower import has_head
from shusaku.common.network.weights import tower_shape
from shusaku.replay.dataset import DatasetPart
from shusaku.replay.validation import Validation

CHUNK = 256  # positions that are evaluated at once
BEST = 5  # first choices among which the move may be


class UnseenGames:
    """Positions of some games, the same at every measurement."""

    def __init__(self, game: Game, network: NetworkConfig, records: Iterable[GameRecord], rows: int) -> None:
        """`rows`: of weight > 0 that the records have together."""
        self._ring = RowRing(game, rows)
        self.rows: list[int] = []  # of each record, whose positions stand together; 0 if it cannot be replayed
        validation = Validation(game)
        for record in records:
            self.rows.append(0)
            with contextlib.suppress(ValueError):  # counted where it is learned from
                self.rows[-1] = self._ring.append(record, validation.own_komi(record))
        self._tower = TorchTower(tower_shape(game, network), "fp32", torch.device("cpu"))

    @classmethod
    def of_part(cls, game: Game, network: NetworkConfig, part: DatasetPart, positions: int) -> Self:
        """`positions`: as many as whole games have together until there are so many; fewer if the part has fewer."""
        games, rows = 0, 0
        while games < len(part) and rows < positions:
            rows += int(part.rows[games])
            games += 1
        return cls(game, network, _readable(part, games), rows)

    def measure(self, weights: Weights) -> dict[str, float]:
        """The means of `of_positions`, and how many `positions` there are."""
        return {"positions": float(self._ring.end),
                **{name: float(column.mean()) for name, column in self.of_positions(weights).items()}}

    @torch.inference_mode()
    def of_positions(self, weights: Weights) -> dict[str, NDArray[np.float64]]:
        """[positions] each, of the heads that the weights have.

        Without symmetries; moves are predicted among all actions.
        top_1, top_5: 1 where the move is the first choice, and among the first five, else 0;
        policy_loss: -log p of the move, nats; value_loss: (z - v)^2, z and v in [-1, 1].
        """
        self._tower.load(weights)
        columns: dict[str, list[Tensor]] = {}
        for begin in range(0, self._ring.end, CHUNK):
            rows = range(begin, min(begin + CHUNK, self._ring.end))
            arrays = [self._ring.sample(1, row, row + 1, 0, False, 1) for row in rows]
            planes, policy, outcome = (torch.from_numpy(np.concatenate([one[name] for one in arrays]))
                                       for name in ("observations", "policy", "outcome"))
            logits, values = self._tower(planes.contiguous(memory_format=torch.channels_last))
            parts: dict[str, Tensor] = {}
            if has_head(weights.tensors, "policy"):
                parts |= _of_policy(logits.float(), policy)
            if has_head(weights.tensors, "value"):
                parts["value_loss"] = (outcome - values.squeeze(1)).square()
            for name, of_rows in parts.items():
                columns.setdefault(name, []).append(of_rows.double())
        return {name: torch.cat(chunks).numpy() for name, chunks in columns.items()}


class UnseenMeter:
    """Measures publications, not more often than each so many seconds; remembers the newest result."""

    def __init__(self, games: UnseenGames, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._games, self._seconds, self._clock = games, seconds, clock
        self._measured_at = float("-inf")
        self.step = -1  # of the weights that were measured last
        self.result: dict[str, float] = {}  # of `UnseenGames.measure`

    def offer(self, weights: Weights) -> None:
        """Measures these weights if that is due."""
        if self._clock() - self._measured_at >= self._seconds:
            self.step, self.result = weights.step, self._games.measure(weights)
            self._measured_at = self._clock()


def _readable(part: DatasetPart, games: int) -> Iterator[GameRecord]:
    """The first games of a part, without those that have changed on the disk."""
    for number in range(games):
        with contextlib.suppress(CodecError):
            yield part.read(number)


def _of_policy(logits: Tensor, policy: Tensor) -> dict[str, Tensor]:
    """[B, A], [B, A] -> [B] each."""
    move = policy.argmax(1, keepdim=True)  # [B, 1]
    best = logits.topk(min(BEST, logits.shape[1]), dim=1).indices  # [B, BEST]
    return {
        "top_1": (best[:, :1] == move).any(1).float(), "top_5": (best == move).any(1).float(),
        "policy_loss": -(policy * F.log_softmax(logits, 1)).sum(1),
    }
