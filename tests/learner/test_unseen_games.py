"""The measurement on games that are not learned from, against a slow one, position by position."""

from pathlib import Path

import numpy as np
import pytest
import torch
from labelled_games import random_game

from shusaku.common._core import Game
from shusaku.common.codec import encode_record
from shusaku.common.config.schema import LearnerConfig, NetworkConfig
from shusaku.common.messages import Weights
from shusaku.common.network.network import Network, tensors_of
from shusaku.common.network.targets import make_targets
from shusaku.learner.unseen_games import UnseenGames, UnseenMeter
from shusaku.replay.dataset import Dataset, part_of
from shusaku.replay.record_log import RecordLog

GAME = Game("othello", {"size": 6})
NETWORK = NetworkConfig(filters=16, blocks=1, value_hidden=16)

pytestmark = pytest.mark.usefixtures("one_thread")


def make(path: Path, targets: list[str]) -> tuple[Dataset, Network, Weights, list]:
    records = [random_game(GAME, seed) for seed in range(150)]
    log = RecordLog(path)
    log.append([encode_record(record) for record in records])
    log.close()
    chosen = make_targets(LearnerConfig(targets=targets))
    network = Network(GAME.observation_shape, GAME.num_actions, NETWORK, chosen, 4)
    for name, parameter in network.named_parameters():
        if ".output." in name:  # an untrained network says nearly the same of every move
            parameter.data.mul_(10)
    weights = Weights(1, 70, tensors_of(network), {}, GAME.name, GAME.params)
    return Dataset(str(path), GAME), network.eval(), weights, [r for r in records if part_of(r) == "validation"]


@pytest.mark.parametrize("targets", [["policy"], ["value"], ["policy", "value"]])
@torch.inference_mode()
def test_it_is_what_position_by_position_gives(targets: list[str], tmp_path: Path) -> None:
    dataset, network, weights, records = make(tmp_path, targets)
    rows: dict[str, list[float]] = {"top_1": [], "top_5": [], "policy_loss": [], "value_loss": []}
    for record in records:
        position = GAME.start()
        for ply, action in enumerate(record.actions.tolist()):
            if record.row_weight[ply] > 0:
                answer = network(torch.from_numpy(position.observation()[None]))
                begin, end = record.policy_offsets[ply : ply + 2]
                policy = np.zeros(GAME.num_actions)
                policy[record.policy_actions[begin:end]] = record.policy_shares[begin:end] / 65_535
                if "policy" in targets:
                    logits = answer["policy"][0].numpy().astype(np.float64)
                    rank = int((logits > logits[policy.argmax()]).sum())
                    rows["top_1"].append(rank < 1)
                    rows["top_5"].append(rank < 5)
                    rows["policy_loss"].append(-(policy * (logits - np.log(np.exp(logits).sum()))).sum())
                if "value" in targets:
                    outcome = record.outcome if position.to_play == 0 else -record.outcome
                    rows["value_loss"].append((outcome - float(answer["value"][0])) ** 2)
            position.play(action)
    measured = UnseenGames.of_part(GAME, NETWORK, dataset["validation"], 1_000_000).measure(weights)
    assert measured.pop("positions") == max(map(len, rows.values())) > 50
    assert measured.keys() == {name for name, values in rows.items() if values}
    for name, value in measured.items():
        assert value == pytest.approx(np.mean(rows[name]), rel=1e-4), name
    if "policy" in targets:
        assert 0 < measured["top_1"] < measured["top_5"] < 1


def test_so_many_positions_are_taken_as_whole_games_have(tmp_path: Path) -> None:
    dataset, _, weights, records = make(tmp_path, ["policy"])
    first = [np.count_nonzero(record.row_weight > 0) for record in records]
    few = UnseenGames.of_part(GAME, NETWORK, dataset["validation"], first[0] + 1).measure(weights)
    assert few["positions"] == first[0] + first[1]


def test_it_is_measured_at_once_and_then_from_time_to_time(tmp_path: Path) -> None:
    dataset, _, weights, _ = make(tmp_path, ["policy"])
    now = 100.0
    meter = UnseenMeter(UnseenGames.of_part(GAME, NETWORK, dataset["validation"], 50), 60, clock=lambda: now)
    assert (meter.step, meter.result) == (-1, {})
    steps = []
    for second in range(0, 200, 20):
        now = 100.0 + second
        meter.offer(Weights(second, second, weights.tensors, {}, GAME.name, GAME.params))
        steps.append(meter.step)
    assert steps == [0, 0, 0, 60, 60, 60, 120, 120, 120, 180]
