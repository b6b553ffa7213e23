"""The losses on new and on old games: of a network that knows nothing, and of one that remembers the old ones."""

import numpy as np
import pytest
import torch
from labelled_games import random_game

from shusaku.common._core import Game
from shusaku.common.config.schema import LearnerConfig, NetworkConfig
from shusaku.common.messages import GameRecord, Weights
from shusaku.common.network.network import Network, tensors_of
from shusaku.common.network.targets import make_targets
from shusaku.deploy.diagnosis.fit import Fit, Loss, measure_fit

GAME = Game("tic_tac_toe")
NETWORK = NetworkConfig(filters=32, blocks=1, value_hidden=16)
RECORDS = [random_game(GAME, seed) for seed in range(120)]  # policies drawn at random: nothing to know about new ones

pytestmark = pytest.mark.usefixtures("one_thread")


def network() -> Network:
    torch.manual_seed(3)
    return Network(GAME.observation_shape, GAME.num_actions, NETWORK, make_targets(LearnerConfig()), 4)


def weights_of(learned: Network) -> Weights:
    return Weights(1, 70, tensors_of(learned), {}, GAME.name, GAME.params)


def rows(records: list[GameRecord]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    planes, policies, outcomes = [], [], []
    for record in records:
        position = GAME.start()
        for ply, action in enumerate(record.actions.tolist()):
            if record.row_weight[ply] > 0:
                begin, end = record.policy_offsets[ply : ply + 2]
                policy = np.zeros(GAME.num_actions, np.float32)
                policy[record.policy_actions[begin:end]] = record.policy_shares[begin:end] / 65_535
                planes.append(position.observation())
                policies.append(policy)
                outcomes.append(float(record.outcome if position.to_play == 0 else -record.outcome))
            position.play(action)
    return torch.tensor(np.array(planes)), torch.tensor(np.array(policies)), torch.tensor(outcomes)


def test_a_network_that_knows_nothing_has_no_gap() -> None:
    found = measure_fit(GAME, NETWORK, weights_of(network().eval()), RECORDS)
    assert found is not None
    assert abs(found.value_gap) < 0.3
    assert abs(found.policy_gap) < 0.3
    policy = rows(RECORDS[60:-12])[1].double().numpy()
    terms = np.where(policy > 0, -policy * np.log(np.maximum(policy, 1e-12)), 0)
    assert found.learned.entropy == pytest.approx(terms.sum(1).mean(), abs=1e-6)
    assert found.learned.rows == len(policy)
    assert found.newest.rows == len(rows(RECORDS[-6:])[1])


def test_a_network_that_remembers_is_found() -> None:
    planes, policy, outcome = rows(RECORDS[:-12])
    learned = network()
    optimizer = torch.optim.Adam(learned.parameters(), lr=3e-3)
    for _ in range(400):
        answer = learned(planes)
        loss = -(policy * torch.log_softmax(answer["policy"], 1)).sum(1).mean()
        loss = loss + (outcome - answer["value"].squeeze(-1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    found = measure_fit(GAME, NETWORK, weights_of(learned.eval()), RECORDS)
    assert found is not None
    assert found.policy_gap > 0.5
    assert found.value_gap > 0.3
    assert found.learned.excess < 0.5 < found.newest.excess


def test_too_few_games_have_no_two_parts() -> None:
    assert measure_fit(GAME, NETWORK, weights_of(network().eval()), RECORDS[:2]) is None


def test_gaps_are_above_the_entropy_of_each_part() -> None:
    fit = Fit(newest=Loss(10, policy=2.0, value=0.9, entropy=1.5), learned=Loss(10, policy=1.0, value=0.6, entropy=0.8))
    assert fit.policy_gap == pytest.approx(0.3)
    assert fit.value_gap == pytest.approx(0.3)
