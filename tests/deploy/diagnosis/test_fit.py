"""The losses on new and on old games: of a network that knows nothing, and of one that remembers the old ones."""

from math import hypot

import numpy as np
import pytest
import torch
from labelled_games import random_game

from shusaku.common._core import Game
from shusaku.common.codec import encode_record
from shusaku.common.config.schema import LearnerConfig, NetworkConfig
from shusaku.common.messages import GameRecord, Weights
from shusaku.common.network.network import Network, tensors_of
from shusaku.common.network.targets import make_targets
from shusaku.deploy.diagnosis import fit
from shusaku.deploy.diagnosis.fit import Fit, Loss, Mean, measure_fit
from shusaku.replay.row_window import is_test_game

GAME = Game("tic_tac_toe")
NETWORK = NetworkConfig(filters=32, blocks=1, value_hidden=16)
RECORDS = [random_game(GAME, seed) for seed in range(120)]  # policies drawn at random: nothing to know about new ones

WINDOW = [encode_record(record) for record in RECORDS]
NEWEST, OLDER = RECORDS[-6:], RECORDS[:60]

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def six_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "NEWEST", 0.05)


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


def losses(learned: Network, record: GameRecord) -> tuple[int, float, float]:
    """Rows of a game, and the sums over them of KL(pi || p) and (z - v)^2."""
    planes, policy, outcome = rows([record])
    with torch.no_grad():
        answer = learned(planes)
    log_ratio = torch.log(torch.clamp(policy, min=1e-12)) - torch.log_softmax(answer["policy"], 1)
    square = (outcome - answer["value"].squeeze(-1)).square()
    return len(policy), float((policy * log_ratio).double().sum()), float(square.double().sum())


def test_losses_and_their_errors_are_those_of_whole_games() -> None:
    """The error by leaving out a game at a time (jackknife), which is another estimator of the same."""
    learned = network().eval()
    found = measure_fit(GAME, NETWORK, weights_of(learned), WINDOW)
    assert found is not None
    assert not found.is_kept_aside
    for part, records in ((found.unseen, NEWEST), (found.learned, OLDER)):
        of_games = np.array([losses(learned, record) for record in records if record.num_rows])
        count, excess, value = of_games.sum(0)
        assert part.rows == count
        for mean, column, total in ((part.excess, 1, excess), (part.value, 2, value)):
            assert mean.value == pytest.approx(total / count, abs=1e-5)
            without = (total - of_games[:, column]) / (count - of_games[:, 0])
            jackknife = np.sqrt((len(without) - 1) * ((without - without.mean()) ** 2).mean())
            assert mean.error == pytest.approx(jackknife, rel=0.25)
    gap = found.policy_gap
    assert abs(gap.value) < 4 * gap.error, "it knows nothing of either"
    assert gap.error == pytest.approx(hypot(found.unseen.excess.error, found.learned.excess.error))


def test_a_network_that_remembers_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 24 games that it never saw: the value's gap of six has an error of half its size."""
    monkeypatch.setattr(fit, "NEWEST", 0.2)
    planes, policy, outcome = rows(RECORDS[:-24])
    learned = network()
    optimizer = torch.optim.Adam(learned.parameters(), lr=3e-3)
    for _ in range(400):
        answer = learned(planes)
        loss = -(policy * torch.log_softmax(answer["policy"], 1)).sum(1).mean()
        loss = loss + (outcome - answer["value"].squeeze(-1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    found = measure_fit(GAME, NETWORK, weights_of(learned.eval()), WINDOW)
    assert found is not None
    assert found.policy_gap.value > max(0.5, 3 * found.policy_gap.error)
    assert found.value_gap.value > max(0.3, 2 * found.value_gap.error)
    assert found.learned.excess.value < 0.5 < found.unseen.excess.value


def test_games_that_were_kept_aside_are_compared_with_others_of_their_age() -> None:
    share = 0.25
    is_test = [is_test_game(record.game_id, share) for record in OLDER]
    found = measure_fit(GAME, NETWORK, weights_of(network().eval()), WINDOW, share)
    assert found is not None
    assert found.is_kept_aside
    assert 0 < sum(is_test) < len(OLDER)
    assert found.unseen.rows == sum(record.num_rows for record, test in zip(OLDER, is_test, strict=True) if test)
    assert found.learned.rows == sum(record.num_rows for record, test in zip(OLDER, is_test, strict=True) if not test)


def test_a_damaged_game_is_left_out() -> None:
    damaged = [*WINDOW[:30], WINDOW[30][:-1], *WINDOW[31:]]
    found = measure_fit(GAME, NETWORK, weights_of(network().eval()), damaged)
    assert found is not None
    assert found.learned.rows == sum(record.num_rows for record in OLDER) - RECORDS[30].num_rows


def test_no_more_games_are_measured_than_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "ROWS", 10)
    found = measure_fit(GAME, NETWORK, weights_of(network().eval()), WINDOW)
    assert found is not None
    assert 10 <= found.learned.rows < 20


def test_too_few_games_have_no_two_parts() -> None:
    for games in (0, 1):
        assert measure_fit(GAME, NETWORK, weights_of(network().eval()), WINDOW[:games]) is None
    assert measure_fit(GAME, NETWORK, weights_of(network().eval()), WINDOW[:2], 1e-9) is None, "none was kept aside"


def test_a_gap_has_the_errors_of_both_sides() -> None:
    found = Fit(Loss(10, Mean(0.5, 0.03), Mean(0.9, 0.0)), Loss(10, Mean(0.2, 0.04), Mean(0.6, 0.1)), False)
    assert found.policy_gap == pytest.approx((0.3, 0.05))
    assert found.value_gap == pytest.approx((0.3, 0.1))
