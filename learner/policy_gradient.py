"""Policy gradient: one update from whole games (Silver et al. 2016, Methods, "Policy network: reinforcement learning").

    delta rho = alpha / n  sum_i sum_t  d log p(a_t | s_t) / d rho  (z_t - b(s_t))

over the n games and the moves of the policy that learns, z_t the outcome for that player, b a value network or 0
(REINFORCE, Williams 1992).  p is the softmax over the legal actions, from which the moves were drawn.
"""

import itertools
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from shusaku.common._core import Game
from shusaku.common.config.schema import Config, LearnerConfig
from shusaku.common.errors import UsageError
from shusaku.common.messages import GameRecord, Weights
from shusaku.common.network.network import Network, load_tensors, named_tensors
from shusaku.common.network.targets import make_targets
from shusaku.common.network.torch_tower import TorchTower
from shusaku.common.network.weights import load_weights, network_config, tower_shape
from shusaku.learner.learner import Learner
from shusaku.learner.opponent_pool import FOLDER, OpponentPool
from shusaku.learner.quantisation import POSITIONS
from shusaku.replay.buffer import Games, Sample

START, BASELINE = "start.safetensors", "baseline.safetensors"  # in the folder FOLDER of the run directory
RECENT = 20  # updates over which points and outcomes are averaged
KL_ROWS = 512  # of an update, on which the policy is compared with the one that the run began with


@dataclass(frozen=True, slots=True, eq=False)
class PolicyRows:
    """The moves of the policy that learns, of some games one after the other."""

    observations: NDArray[np.float32]  # [B, C, H, W]
    actions: NDArray[np.int64]  # [B] that were drawn
    legal: NDArray[np.bool_]  # [B, A]
    outcome: NDArray[np.float32]  # [B] -1, 0 or 1 for the player that moved
    is_first: NDArray[np.bool_]  # [B] of its game

    def __len__(self) -> int:
        return len(self.actions)


def policy_rows(game: Game, records: tuple[GameRecord, ...], size: int) -> Iterator[PolicyRows]:
    """The rows with a weight, at most `size` at a time; the games are replayed as they are needed.

    `game`: with the planes of the network, and otherwise that of the records.
    """
    moves = _moves(game, records)
    while some := list(itertools.islice(moves, size)):
        mask = np.zeros((len(some), game.num_actions), np.bool_)
        for row, move in enumerate(some):
            mask[row, move.legal] = True
        yield PolicyRows(
            np.stack([move.observation for move in some]), np.array([move.action for move in some], np.int64), mask,
            np.array([move.outcome for move in some], np.float32), np.array([move.is_first for move in some], np.bool_))


class _Move(NamedTuple):
    observation: NDArray[np.float32]  # [C, H, W]
    action: int
    legal: list[int]
    outcome: int
    is_first: bool


def _moves(game: Game, records: tuple[GameRecord, ...]) -> Iterator[_Move]:
    for record in records:
        position, is_first = game.start(), True
        for action, weight in zip(record.actions.tolist(), record.row_weight.tolist(), strict=True):
            if weight > 0:
                outcome = record.outcome if position.to_play == 0 else -record.outcome
                yield _Move(position.observation(), action, position.legal_actions, outcome, is_first)
                is_first = False
            position.play(action)


class Baseline:
    """A value network whose values are subtracted from the outcomes."""

    def __init__(self, weights: Weights, device: str) -> None:
        self.game = Game(weights.game, weights.params)  # its planes may be others than the policy's
        network = network_config(weights)
        self._device = torch.device(device)
        self._tower = TorchTower(tower_shape(self.game, network), "fp32", self._device)
        self._tower.load(weights)

    @torch.inference_mode()
    def values(self, observations: NDArray[np.float32]) -> Tensor:
        """[B, C, H, W] -> [B], for the player to move."""
        planes = torch.from_numpy(observations).to(self._device).contiguous(memory_format=torch.channels_last)
        values: Tensor = self._tower(planes)[1].squeeze(1).clone()  # [B]
        return values


class PolicyGradient(Learner):
    """A `Learner` that takes whole games, and one gradient step an update.

    Batch norms keep the statistics of the policy that the run began with, in play and here: the policy whose gradient
    this is is the one that drew the moves, and rows do not depend on each other.  So the gradient is the same however
    many rows are taken at a time, and memory is bounded.
    """

    def __init__(
        self, network: Network, game: Game, config: LearnerConfig, *, start: Weights, pool: OpponentPool,
        baseline: Baseline | None = None, is_quantised: bool = False,
    ) -> None:
        """Begins with `start`; `config.batch_size`: rows that are taken at a time.

        UsageError if `start` is of another network.
        """
        load_policy(network, start)
        super().__init__(network, game, config, is_quantised=is_quantised, waits=True)
        self.network.eval()
        self._start = Network(network.planes, network.num_actions, network.config, make_targets(config))
        load_policy(self._start, start)
        self._start.to(self._device, memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
        self._pool, self._baseline = pool, baseline
        self._recent: deque[tuple[float, int]] = deque(maxlen=RECENT)  # sums of the outcomes, games

    def step(self, batch: Sample) -> bool:
        """One update from these games; False if it was skipped because the gradient was not finite."""
        assert isinstance(batch, Games), "policy gradient learns from whole games"
        self._optimizer.zero_grad(set_to_none=True)
        loss, sums, positions = self._differentiate_games(batch)
        if not self._apply(loss):
            return False
        self._newest = positions
        self._recent.append((float(sums["outcome"]), len(batch)))
        self._add_update(loss, sums, len(batch))
        return True

    def _differentiate_games(self, games: Games) -> tuple[Tensor, dict[str, Tensor], NDArray[np.float32]]:
        """The loss whose gradient is now in the parameters, sums over the rows, some observations."""
        size = self._config.batch_size
        loss = torch.zeros((), device=self._device)
        sums: dict[str, Tensor] = {}
        first: NDArray[np.float32] | None = None
        baselines = (policy_rows(self._baseline.game, games.records, size) if self._baseline else None)
        for rows in policy_rows(self._game, games.records, size):
            advantage = torch.from_numpy(rows.outcome).to(self._device)  # [B] z - b
            if baselines is not None:
                assert self._baseline is not None
                advantage = advantage - self._baseline.values(next(baselines).observations)
            observations, legal = self._to_planes(rows.observations), torch.from_numpy(rows.legal).to(self._device)
            log_policy = self._log_policy(self.network, observations, legal)  # [B, A]
            drawn = log_policy.gather(1, torch.from_numpy(rows.actions).to(self._device)[:, None]).squeeze(1)  # [B]
            part = -(drawn * advantage).sum() / len(games)
            part.backward()  # type: ignore[no-untyped-call]
            loss += part.detach()
            with torch.no_grad():
                policy = log_policy.exp()
                entropy = -torch.where(legal, policy * log_policy, 0.0).sum(1)  # [B]
                measured = {"entropy": entropy.sum(), "advantage": advantage.square().sum(),
                            "rows": torch.tensor(float(len(rows))),
                            "outcome": torch.tensor(float(rows.outcome[rows.is_first].sum()))}
                if first is None:
                    first = rows.observations[:POSITIONS]
                    measured["kl_start"] = self._kl(observations[:KL_ROWS], legal[:KL_ROWS], log_policy[:KL_ROWS])
                for name, value in measured.items():
                    sums[name] = sums[name] + value if name in sums else value
        assert first is not None, "the games have no rows"
        return loss, sums, first

    def _log_policy(self, network: Network, observations: Tensor, legal: Tensor) -> Tensor:
        """[B, A] log p over the legal actions; -inf for the others."""
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._is_bf16):
            logits: Tensor = network(observations)["policy"]  # [B, A]
        return F.log_softmax(logits.float().masked_fill(~legal, -torch.inf), dim=1)

    def _kl(self, observations: Tensor, legal: Tensor, log_policy: Tensor) -> Tensor:
        """The mean of KL(policy || policy at the start) over rows."""
        before = self._log_policy(self._start, observations, legal)
        return torch.where(legal, log_policy.exp() * (log_policy - before), 0.0).sum(1).mean()

    def _add_update(self, loss: Tensor, sums: dict[str, Tensor], games: int) -> None:
        """Means over the update and the `RECENT` updates; see docs/guides/reinforce.md."""
        mean = sum(outcome for outcome, _ in self._recent) / sum(played for _, played in self._recent)
        rows = sums["rows"].to(self._device)
        metrics = {
            "loss/total": loss, "loss/policy": loss, "reinforce/entropy": sums["entropy"] / rows,
            "reinforce/advantage": (sums["advantage"] / rows).sqrt(), "reinforce/kl_start": sums["kl_start"],
            "reinforce/moves": rows / games, "reinforce/return": torch.tensor(mean),
            "reinforce/score": torch.tensor((mean + 1) / 2),
            "reinforce/pool": torch.tensor(float(len(self._pool.versions()))),
        }
        self._accumulate({name: value.float().cpu() for name, value in metrics.items()})


def load_policy(network: Network, weights: Weights) -> None:
    """Copies the tower and the policy; UsageError if they are of another network."""
    tensors = {name: tensor for name, tensor in weights.tensors.items() if name in dict(named_tensors(network))}
    load_tensors(network, tensors)


def open_policy_gradient(config: Config, game: Game, run: Path, pool: OpponentPool) -> PolicyGradient:
    """The learner of this run directory, which holds the start and the baseline; UsageError if they do not fit."""
    targets = make_targets(config.learner)
    network = Network(game.observation_shape, game.num_actions, config.network, targets, config.run.seed)
    baseline = None
    if config.reinforce.baseline:
        baseline = Baseline(load_weights(run / FOLDER / BASELINE), config.learner.chosen_device)
    start = load_weights(run / FOLDER / START)
    try:
        return PolicyGradient(network, game, config.learner, start=start, pool=pool, baseline=baseline,
                              is_quantised=config.inference.is_quantised)
    except UsageError as error:
        raise UsageError(f"policy.from={config.reinforce.start}: {error}") from None
