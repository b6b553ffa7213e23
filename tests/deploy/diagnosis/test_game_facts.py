"""What games say of self-play, counted a second time by hand."""

from dataclasses import replace

import numpy as np
import pytest
from labelled_games import random_game

from shusaku.common._core import Game
from shusaku.common.messages import EndedBy, GameRecord, RowKind
from shusaku.deploy.diagnosis.game_facts import DECIDED, GameFacts

GAME = Game("othello", {"size": 6})  # in which a player may have to pass


def games(count: int = 60) -> list[GameRecord]:
    return [random_game(GAME, seed, stop_early=seed % 3 == 0) for seed in range(count)]


def test_counts_of_games() -> None:
    records = games()
    facts = GameFacts.of(GAME, records)
    assert facts.games == 60
    assert facts.plies == pytest.approx(np.mean([len(record.actions) for record in records]))
    points = [{1: 1.0, 0: 0.5, -1: 0.0}[record.outcome] for record in records]
    assert facts.first_score == pytest.approx(np.mean(points))
    assert facts.draws == pytest.approx(points.count(0.5) / 60)
    assert facts.cut_off == 0
    limited = [replace(record, ended_by=EndedBy.PLY_LIMIT) for record in records[:15]]
    stopped = GameFacts.of(GAME, [*limited, *records[15:]])
    assert stopped.cut_off == pytest.approx(15 / 60)


def test_openings_are_counted_once() -> None:
    records = games(40)
    assert GameFacts.of(GAME, records).openings == 1
    assert GameFacts.of(GAME, records + records + records[:20]).openings == pytest.approx(40 / 100)


@pytest.mark.parametrize(("late", "expected"), [(0, 0), (7, 7)])
def test_plies_after_the_last_open_position_are_decided(late: int, expected: int) -> None:
    records = []
    for record in games(10):
        values = np.full(len(record), 0.3, np.float32)
        values[:3] = 1.0  # an error of an early search is no decision
        values[len(record) - late:] = np.where(np.arange(late) % 2, 1, -1) * (DECIDED + 0.01)
        kind = np.full(len(record), RowKind.FULL, np.uint8)
        records.append(replace(record, root_values=values, kind=kind))
    facts = GameFacts.of(GAME, records)
    assert facts.decided == pytest.approx(expected * 10 / sum(map(len, records)))


def test_a_game_that_no_search_held_for_open_is_decided_after_its_opening() -> None:
    records = []
    for record in games(10):
        kind = np.full(len(record), RowKind.FULL, np.uint8)
        kind[:2] = RowKind.OPENING
        records.append(replace(record, root_values=np.full(len(record), 0.99, np.float32), kind=kind))
    assert GameFacts.of(GAME, records).decided == pytest.approx(1 - 20 / sum(map(len, records)))


@pytest.mark.parametrize("boldness", [0.5, 1.0, 2.0])
def test_values_are_judged_for_the_player_to_move(boldness: float) -> None:
    """True values v of which outcomes are drawn, told `boldness` times as large: outcomes are 1 / boldness of them."""
    random, records = np.random.default_rng(2), []
    for seed in range(400):
        record = random_game(GAME, seed)
        truth = random.uniform(-0.45, 0.45)  # of the first player
        outcome = 1 if random.random() < (1 + truth) / 2 else -1
        position, values = GAME.start(), []
        for action in record.actions.tolist():
            values.append(boldness * truth * (1 if position.to_play == 0 else -1))
            position.play(action)
        kind = np.full(len(record), RowKind.FULL, np.uint8)
        records.append(replace(record, raw_values=np.array(values, np.float32), outcome=outcome, kind=kind))
    calibration = GameFacts.of(GAME, records).calibration
    assert [one.part for one in calibration] == ["first", "second", "last"]
    assert sum(one.rows for one in calibration) == sum(map(len, records))
    for one in calibration:
        assert one.slope == pytest.approx(1 / boldness, abs=0.45 / boldness)
        assert abs(one.bias) < 0.05, "of both players together"
        assert 0.7 < one.error < 1.3
    assert np.mean([one.slope for one in calibration]) == pytest.approx(1 / boldness, abs=0.35 / boldness)


def test_rows_without_a_search_are_left_out() -> None:
    records = [replace(record, kind=np.full(len(record), RowKind.OPENING, np.uint8)) for record in games(3)]
    facts = GameFacts.of(GAME, records)
    assert facts.calibration == ()
    assert facts.decided == 0
