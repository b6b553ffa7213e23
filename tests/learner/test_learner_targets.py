"""What `learner.targets` changes of training, and that its default changes nothing."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from common._core import Game
from common.config import LearnerConfig, NetworkConfig
from common.network import Network, named_tensors
from common.targets import make_targets
from learner.learner import Learner
from learner.optimizers import learning_rate, make_optimizer
from replay.buffer import Batch

GAME = Game("connect_four")
NETWORK = NetworkConfig(filters=8, blocks=1, value_hidden=16)

pytestmark = pytest.mark.usefixtures("one_thread")


def batch_of(seed: int, rows: int = 16) -> Batch:
    """Random numbers in every column that any target of connect four reads."""
    random = np.random.default_rng(seed)

    def numbers(*shape: int) -> np.ndarray:
        return random.uniform(-1, 1, shape).astype(np.float32)

    def policies() -> np.ndarray:
        return random.dirichlet(np.full(GAME.num_actions, 0.3), rows).astype(np.float32)

    return Batch(
        observations=(numbers(rows, *GAME.observation_shape) < 0).astype(np.float32),
        policy=policies(), outcome=np.sign(numbers(rows)), root_values=numbers(rows), weight=1 + numbers(rows) ** 2,
        plies_left=10 + 9 * numbers(rows), versions=np.ones(rows, np.uint32), rows=np.arange(rows),
    )


def test_policy_and_value_alone_train_as_ever_bit_for_bit() -> None:
    """Against the steps of AlphaZero's loss written out: sum of w ((z - v)^2 c - pi log p) / sum of w."""
    config = LearnerConfig(precision="fp32", warmup_steps=3, value_weight=0.7)
    assert config.targets == ["policy", "value"]
    learner = Learner(Network(GAME.observation_shape, GAME.num_actions, NETWORK, make_targets(config), 3), GAME, config)
    plain = Network(GAME.observation_shape, GAME.num_actions, NETWORK, seed=3).train()
    plain.to(memory_format=torch.channels_last)
    optimizer = make_optimizer(plain, config)
    for step in range(6):
        batch = batch_of(step)
        assert learner.step(batch)
        policy, outcome, weight = (torch.from_numpy(a) for a in (batch.policy, batch.outcome, batch.weight))
        observations = torch.from_numpy(batch.observations).contiguous(memory_format=torch.channels_last)
        predictions = plain(observations)
        share = weight / weight.sum()
        losses = [(-(policy * F.log_softmax(predictions["policy"], dim=1)).sum(1) * share).sum() * 1.0,
                  ((outcome - predictions["value"]).square() * share).sum() * 0.7]
        optimizer.zero_grad(set_to_none=True)
        torch.stack(losses).sum().backward()
        torch.nn.utils.clip_grad_norm_(list(plain.parameters()), config.max_grad_norm)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, config)
        optimizer.step()
    for (name, one), (_, other) in zip(named_tensors(learner.network), named_tensors(plain), strict=True):
        assert torch.equal(one, other), name
