"""The search that can be watched: limits, reports, subtrees, threads."""

import threading
import time
from collections.abc import Iterator

import pytest

from shusaku.actors.analysis.analysis import Analysis, Limits
from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.common._core import Game
from shusaku.common.config.search import GumbelConfig, PuctConfig


@pytest.fixture
def analysis() -> Iterator[Analysis]:
    game = Game("go", {"size": 5})
    made = Analysis(game, [PseudoRandomEvaluator(game, 16)], PuctConfig())
    yield made
    made.close()


def test_a_fixed_number_of_simulations(analysis: Analysis) -> None:
    analysis.start(Limits(simulations=200, to_the_end=True))
    assert analysis.wait(60)
    report = analysis.report()
    assert (report.ended, report.simulations) == ("simulations", 200)
    assert sum(move.visits for move in report.moves) == 200
    assert sorted(move.action for move in report.moves) == analysis.position.legal_actions
    assert report.moves[0].visits == max(move.visits for move in report.moves)
    assert report.moves[0].move == analysis.position.to_move(report.moves[0].action)
    assert sum(move.prior for move in report.moves) == pytest.approx(1, abs=1e-2)
    assert all(move.variation[0] == move.action for move in report.moves)


def test_runs_until_stop(analysis: Analysis) -> None:
    analysis.start(Limits())
    assert not analysis.wait(0.2)
    assert analysis.report().ended == ""
    with pytest.raises(RuntimeError, match="call stop"):
        analysis.start(Limits())
    report = analysis.stop()
    assert report.ended == "stop"
    assert report.simulations > 0
    assert report.seconds >= 0.2


def test_ends_by_the_clock(analysis: Analysis) -> None:
    begin = time.monotonic()
    analysis.start(Limits(seconds=0.2, to_the_end=True))
    assert analysis.wait(10)
    assert 0.2 <= time.monotonic() - begin < 5
    assert analysis.report().ended == "time"


def test_only_some_actions_are_searched(analysis: Analysis) -> None:
    analysis.start(Limits(simulations=64, actions=(3, 7)))
    analysis.wait()
    report = analysis.report()
    assert report.moves[0].action in (3, 7)
    assert len(report.moves) == 26
    with pytest.raises(ValueError, match="illegal action 99"):
        analysis.start(Limits(actions=(99,)))


def test_positions(analysis: Analysis) -> None:
    analysis.advance(12)
    assert analysis.position.ply == 1
    with pytest.raises(ValueError, match="illegal action 12"):
        analysis.advance(12)
    assert analysis.position.ply == 1
    position = analysis.game.start()
    position.play(1), position.play(2)
    analysis.set_position(position)
    position.play(3)  # the analysis has its own copy
    assert analysis.position.ply == 2
    analysis.advance(25)
    analysis.advance(25)
    with pytest.raises(ValueError, match="the game is over"):
        analysis.start(Limits(simulations=1))
    assert analysis.report().moves == ()


def test_reports_from_other_threads() -> None:
    game = Game("connect_four")
    analysis = Analysis(game, [PseudoRandomEvaluator(game, 16)], PuctConfig())
    analysis.start(Limits())
    reports, end = [], threading.Event()

    def watch() -> None:
        while not end.is_set():
            reports.append(analysis.report())

    watcher = threading.Thread(target=watch)
    watcher.start()
    time.sleep(0.3)
    last = analysis.stop()
    end.set()
    watcher.join()
    counts = [report.simulations for report in reports]
    assert counts == sorted(counts)
    assert counts[-1] <= last.simulations
    analysis.close()


def test_gumbel_with_a_fixed_number() -> None:
    game = Game("connect_four")
    analysis = Analysis(game, [PseudoRandomEvaluator(game, 16)], GumbelConfig())
    analysis.start(Limits(simulations=64))
    analysis.wait()
    report = analysis.report()
    assert (report.ended, report.simulations) == ("simulations", 64)
    analysis.start(Limits(seconds=0.1))
    analysis.wait()
    assert analysis.report().simulations > 0
    analysis.close()
