"""Finished games as a dataset: its split, what it refuses, and the order in which a learner gets its rows."""

import dataclasses
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from labelled_games import random_game

from shusaku.common._core import Game
from shusaku.common.codec import encode_record
from shusaku.common.errors import UsageError
from shusaku.common.messages import GameRecord
from shusaku.replay.buffer import Batch
from shusaku.replay.dataset import PARTS, Dataset, part_of
from shusaku.replay.dataset_buffer import DatasetBuffer
from shusaku.replay.record_log import RecordLog

GAME = Game("tic_tac_toe")
LONG = Game("othello", {"size": 6})


def log_of(directory: Path, records: list[GameRecord], segment_bytes: int = 20_000) -> Path:
    log = RecordLog(directory, segment_bytes)
    log.append([encode_record(record) for record in records])
    log.close()
    return directory


def games(count: int, game: Game = LONG, first: int = 0) -> list[GameRecord]:
    return [random_game(game, seed) for seed in range(first, first + count)]


def test_the_split_is_90_5_5_and_depends_on_the_moves_alone(tmp_path: Path) -> None:
    records = games(3000)
    counts = Counter(map(part_of, records))
    for part, share in zip(PARTS, (0.9, 0.05, 0.05), strict=True):
        assert counts[part] / 3000 == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / 3000))
    others = [dataclasses.replace(record, outcome=0, game_id=record.game_id._replace(sequence=9)) for record in records]
    assert list(map(part_of, others)) == list(map(part_of, records))
    dataset = Dataset(str(log_of(tmp_path / "log", records)), LONG)
    for part in PARTS:
        expected = [record for record in records if part_of(record) == part]
        assert len(dataset[part]) == len(expected) == counts[part]
        for number in range(0, len(expected), 7):
            assert dataset[part].read(number).actions.tolist() == expected[number].actions.tolist()
            assert dataset[part].rows[number] == np.count_nonzero(expected[number].row_weight > 0)


def test_a_pattern_names_several_logs(tmp_path: Path) -> None:
    records = games(200)
    log_of(tmp_path / "a" / "records", records[:120])
    log_of(tmp_path / "b" / "records", records[120:])
    dataset = Dataset(str(tmp_path / "*" / "records"), LONG)
    assert sum(len(dataset[part]) for part in PARTS) == 200


def test_damage_costs_the_games_behind_it_in_its_segment(tmp_path: Path) -> None:
    log_of(tmp_path, games(300))
    segments = sorted(tmp_path.glob("*.records"))
    assert len(segments) > 3
    data = bytearray(segments[1].read_bytes())
    data[len(data) // 2] ^= 1
    segments[1].write_bytes(bytes(data))
    dataset = Dataset(str(tmp_path), LONG)
    assert dataset.quarantine.counts == {"damage": 1}
    assert 200 < sum(len(dataset[part]) for part in PARTS) < 300


@pytest.mark.parametrize(("make", "reason"), [
    (lambda path: None, "there is no record log; name a directory"),
    (lambda path: log_of(path, []), "there is no record log"),
    (lambda path: (log_of(path, games(1)), (path / "00000001.records").write_bytes(b"x" * 99)),
     "no game can be read, 1 damaged; make a log"),
    (lambda path: log_of(path, [*games(50), random_game(GAME, 1)]), "holds another game .*tic_tac_toe.*; name logs"),
    (lambda path: log_of(path, games(40, Game("othello", {"size": 8}))), "holds another game .*parameters"),
    (lambda path: log_of(path, [r for r in games(60) if part_of(r) != "test"]),
     "none falls into the part for test, which gets 5%; name more games"),
])
def test_what_cannot_be_learned_from_is_refused_in_one_line(make: object, reason: str, tmp_path: Path) -> None:
    assert callable(make)
    make(tmp_path / "log")
    with pytest.raises(UsageError, match=rf"^dataset\.records=.*{reason}") as error:
        Dataset(str(tmp_path / "log"), LONG)
    assert "\n" not in str(error.value)


def test_games_serve_networks_that_see_other_planes(tmp_path: Path) -> None:
    """Planes are no rule: rows are made of the planes of the game that learns, with the komi of the record."""
    played, learned = Game("go", {"size": 5, "komi": 7.5}), Game("go", {"size": 5, "komi": 3.5, "planes": "tutorial"})
    records = games(100, played)
    dataset = Dataset(str(log_of(tmp_path, records)), learned)
    buffer = DatasetBuffer(learned, dataset, capacity=1000, batch_size=8, seed=1)
    assert buffer.sample(8, 1).observations.shape[1:] == learned.observation_shape != played.observation_shape
    assert not buffer.stats().quarantined
    assert dataset["training"].read(0).params == {**learned.params, "komi": 7.5}


def buffer_of(path: Path, capacity: int, seed: int = 1) -> DatasetBuffer:
    return DatasetBuffer(LONG, Dataset(str(path), LONG), capacity=capacity, batch_size=32, seed=seed, symmetries=False)


def assert_same(one: Batch, other: Batch) -> None:
    for name in ("observations", "policy", "outcome", "weight", "rows", "plies_left"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@pytest.mark.parametrize("capacity", [100, 700, 1_000_000])
def test_a_resumed_learner_gets_the_batches_that_it_would_have_got(capacity: int, tmp_path: Path) -> None:
    path = log_of(tmp_path, games(120))
    whole = buffer_of(path, capacity)
    batches, states = [], []
    for index in range(200):
        states.append(whole.state())
        batches.append(whole.sample(32, 1000 + index))
    for begin in (0, 1, 37, 199):
        resumed = buffer_of(path, capacity)
        resumed.restore(states[begin])
        for index in range(begin, min(begin + 5, 200)):
            assert_same(resumed.sample(32, 1000 + index), batches[index])
    another = buffer_of(path, capacity, seed=2)
    assert not np.array_equal(another.sample(32, 1000).observations, batches[0].observations)


@pytest.mark.parametrize("capacity", [150, 1_000_000])
def test_each_row_for_training_comes_as_often_as_any_other_and_no_other_does(capacity: int, tmp_path: Path) -> None:
    records = games(60)
    path = log_of(tmp_path, records)
    known: dict[bytes, int] = {}
    for record in records:
        if part_of(record) == "training":
            position = LONG.start()
            for action, weight in zip(record.actions.tolist(), record.row_weight.tolist(), strict=True):
                if weight > 0:
                    known.setdefault(position.observation().tobytes(), 0)
                position.play(action)
    buffer = buffer_of(path, capacity)
    total = buffer.stats().inserted
    draws = 0
    while draws < 30 * total:
        for planes in buffer.sample(32, draws).observations:
            known[planes.tobytes()] += 1  # KeyError: of a game that is kept aside
        draws += 32
    counts = np.array(list(known.values()))
    assert counts.min() > 0
    # Positions are nearly all different; a Poisson of 30 has a standard deviation of 5.5.
    assert np.median(counts) == pytest.approx(30, abs=1.5)
    assert np.mean(np.abs(counts - 30) > 20) < 0.03
    assert buffer.stats().samples_per_position == pytest.approx(30, rel=0.05)


def broken(record: GameRecord) -> GameRecord:
    """A game for training that breaks the rules."""
    actions = record.actions.copy()
    while True:
        actions[5], actions[6] = actions[6], actions[5]
        bad = dataclasses.replace(record, actions=actions.copy())
        if part_of(bad) == "training":
            return bad
        actions[7] += 1


def with_broken_games(count: int, bad: int) -> list[GameRecord]:
    records = games(count)
    training = [index for index, record in enumerate(records) if part_of(record) == "training"]
    for index in training[::len(training) // bad][:bad]:
        records[index] = broken(records[index])
    return records


@pytest.mark.parametrize("capacity", [150, 1_000_000])
def test_a_game_that_breaks_the_rules_is_counted_once_and_left_out(capacity: int, tmp_path: Path) -> None:
    buffer = buffer_of(log_of(tmp_path, with_broken_games(80, 1)), capacity)
    total = buffer.stats().inserted
    for index in range(3 * total // 32):
        buffer.sample(32, index)
    assert buffer.stats().quarantined == {"rules": 1}


@pytest.mark.parametrize("capacity", [100, 700, 1_000_000])
def test_a_resumed_learner_gets_the_same_batches_although_games_break_the_rules(capacity: int, tmp_path: Path) -> None:
    path = log_of(tmp_path, with_broken_games(120, 5))
    whole = buffer_of(path, capacity)
    batches, states = [], []
    for index in range(200):
        states.append(whole.state())
        batches.append(whole.sample(32, 1000 + index))
    for begin in (0, 1, 3, 10, 37, 80, 120, 199):
        resumed = buffer_of(path, capacity)
        resumed.restore(states[begin])
        for index in range(begin, min(begin + 3, 200)):
            assert_same(resumed.sample(32, 1000 + index), batches[index])
        assert resumed.stats().quarantined.get("rules", 0) <= 5
    assert whole.stats().quarantined == {"rules": 5}
