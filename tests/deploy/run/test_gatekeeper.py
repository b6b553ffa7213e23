"""Which version self-play uses: candidates, decisions, and what a restart goes on with."""

import errno
import json
from pathlib import Path

import numpy as np
import pytest

from shusaku.actors.arena.gate import GateResult
from shusaku.actors.arena.rating_log import read_meetings
from shusaku.common.config.schema import Config, GateConfig
from shusaku.common.messages import Weights
from shusaku.common.network.weights import load_weights
from shusaku.deploy.run import gatekeeper
from shusaku.deploy.run.gatekeeper import BEST, Gatekeeper


def weights(version: int, step: int) -> Weights:
    return Weights(version, step, {"a": np.full(3, version, np.float32)}, {"filters": 8}, "tic_tac_toe", {})


def result(candidate: int, best: int, *, passed: bool) -> GateResult:
    return GateResult(candidate, best, ((1.0, float(passed)), (0.5, 0.0)), passed, 2)


class Run:
    def __init__(self, directory: Path) -> None:
        self.directory, self.lines = directory, list[str]()
        self.restart()

    def restart(self) -> None:
        config = Config(gating="win_rate", gate=GateConfig(every=100, games=4))
        self.keeper = Gatekeeper(config, self.directory, self.lines.append, lambda: 60.0)

    def playing(self) -> tuple[int, int] | None:
        match = self.keeper.next_match()
        return (match[0].version, match[1].version) if match else None

    @property
    def best(self) -> int:
        assert self.keeper.best is not None
        return self.keeper.best.version


def test_candidates_come_every_so_many_steps_and_the_newest_waits(tmp_path: Path) -> None:
    run = Run(tmp_path)
    for version, step in ((1, 0), (2, 50)):
        run.keeper.offer(weights(version, step))
        assert (run.best, run.playing()) == (1, None)
    run.keeper.offer(weights(3, 100))
    assert run.playing() == (1, 3)
    for version, step in ((4, 150), (5, 200), (6, 300), (7, 350)):
        run.keeper.offer(weights(version, step))
    assert run.playing() == (1, 3)  # until it is decided
    run.keeper.conclude(result(3, 1, passed=False))
    assert (run.best, run.playing()) == (1, (1, 6))
    run.keeper.conclude(result(6, 1, passed=True))
    assert (run.best, run.playing()) == (6, None)
    assert ["did not pass" in line for line in run.lines] == [True, False]


def test_decisions_are_kept_with_their_games_and_survive_a_restart(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.keeper.offer(weights(1, 0))
    run.keeper.offer(weights(2, 100))
    assert run.playing() == (1, 2)
    run.keeper.conclude(result(2, 1, passed=True))
    line = json.loads((tmp_path / "gate.jsonl").read_text(encoding="utf-8"))
    assert line == {"first": "version 2", "second": "version 1", "passed": True, "score": 0.625, "games": 4,
                    "step": 100, "seconds": 60.0, "whole_pairs": 2, "points": [[1.0, 1.0], [0.5, 0.0]]}
    meeting, = read_meetings(tmp_path)
    assert (meeting.first, meeting.second, meeting.points) == ("version 2", "version 1", ((1.0, 1.0), (0.5, 0.0)))
    run.restart()
    assert run.best == 2
    # What the checkpoint holds is published again; it is no candidate before its time.
    run.keeper.offer(weights(3, 150))
    assert (run.best, run.playing()) == (2, None)
    run.keeper.offer(weights(4, 200))
    assert run.playing() == (2, 4)


def test_games_of_other_searches_rate_nobody_and_open_pairs_neither(tmp_path: Path) -> None:
    """With 1,600 simulations a version is another player than with 64."""
    run = Run(tmp_path)
    for version, simulations in ((1, None), (2, 64), (3, 1600), (4, None)):
        run.keeper.offer(weights(version, 100 * version))
        if version > 1:
            assert run.playing() == (version - 1, version)
            found = GateResult(version, run.best, ((1.0, 0.0), (1.0,), (1.0, 1.0)), True, 1, simulations)
            run.keeper.conclude(found)
    rated = read_meetings(tmp_path, 64)
    assert [(meeting.first, meeting.points) for meeting in rated] == [
        ("version 2", ((1.0, 0.0),)), ("version 4", ((1.0, 0.0),))]
    assert len(read_meetings(tmp_path)) == 3


def test_a_candidate_whose_match_was_lost_plays_again(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.keeper.offer(weights(1, 0))
    run.keeper.offer(weights(2, 100))
    assert run.playing() == run.playing() == (1, 2)  # its worker died
    run.restart()  # before the decision: the run publishes again, under a new number
    assert (run.best, run.playing()) == (1, None)
    run.keeper.offer(weights(3, 120))
    assert run.playing() == (1, 3)


def test_a_damaged_best_version_is_replaced(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.keeper.offer(weights(1, 0))
    (tmp_path / BEST).write_bytes(b"damaged")
    run.restart()
    assert run.keeper.best is None
    run.keeper.offer(weights(2, 50))
    assert run.best == 2
    assert any("the newest version takes its place" in line for line in run.lines)


@pytest.mark.parametrize("refused", ["save_weights", "append_json_line"])
def test_what_a_full_disk_refused_is_written_later_the_best_version_before_its_decision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    run = Run(tmp_path)
    for version, step in ((1, 0), (2, 100)):
        run.keeper.offer(weights(version, step))
    assert run.playing() == (1, 2)

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(gatekeeper, "RETRY_SECONDS", 0.0)
        disk.setattr(gatekeeper, refused, refuse)
        run.keeper.conclude(result(2, 1, passed=True))
        assert (run.best, run.playing()) == (2, None)
        assert len(run.keeper.troubles.lines) == 1
        assert not (tmp_path / "gate.jsonl").exists()
    run.keeper.next_match()
    assert not (tmp_path / "gate.jsonl").exists(), "the disk is not tried in every round"
    monkeypatch.setattr(gatekeeper, "RETRY_SECONDS", 0.0)
    assert run.playing() is None
    assert run.keeper.troubles.lines == ()
    assert load_weights(tmp_path / BEST).version == 2
    run.playing()
    meeting, = read_meetings(tmp_path)
    assert meeting.first == "version 2"
    run.restart()
    assert run.best == 2
