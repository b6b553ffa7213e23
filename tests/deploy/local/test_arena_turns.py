"""Ratings and the gate in one process: a whole small run, its files, and what a second start goes on with."""

import json
from pathlib import Path

from shusaku.actors.arena.rating_log import read_meetings
from shusaku.common.metrics import read_metrics
from shusaku.common.network.weights import load_weights
from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.local.driver import LocalRun
from shusaku.deploy.run.run_directory import RunDirectory
from shusaku.deploy.run.stop_signals import StopSignals

RATED = [
    "experiment=tic_tac_toe", "actors.count=1", "actors.games_per_actor=8", "search.simulations=4",
    "search.considered_actions=4", "replay.minimum=100", "replay.capacity=3000", "replay.window=fixed",
    "learner.batch_size=16", "learner.publish_every=4", "learner.threads=1", "network.filters=4", "network.blocks=1",
    "strength.enabled=false", "run.minutes=5", "inference.runtime=torch",
    "rater.share=1", "rater.games=2", "rater.opening_plies=2", "rater.anchors=[random,uct_10]", "gating=win_rate",
    "gate.every=4", "gate.games=4", "gate.share=1", "gate.opening_plies=2", "gate.score=0",
]


def train(directory: Path, turns: int) -> LocalRun:
    """So many turns of playing and learning, after each of which there is time for games of both kinds."""
    config = compose([*RATED, f"run.dir={directory}"])
    with RunDirectory(config) as opened:
        run = LocalRun(config, opened, StopSignals())
        played: list[None] = []
        play_turn = run.play_turn

        def count_turn() -> None:
            played.append(None)
            play_turn()

        run.play_turn = count_turn  # type: ignore[method-assign]
        run.is_over = lambda: len(played) > turns  # type: ignore[method-assign]
        run.train()
        run.close()
    return run


def test_versions_are_rated_and_gated(tmp_path: Path) -> None:
    run = train(tmp_path, 6)
    decisions = [json.loads(line) for line in (tmp_path / "gate.jsonl").read_text(encoding="utf-8").splitlines()]
    assert decisions
    assert run.gatekeeper is not None
    assert run.gatekeeper.best is not None
    best = run.gatekeeper.best.version
    passed = [int(line["first"].split()[1]) for line in decisions if line["passed"]]
    assert best == max([1, *passed]) == load_weights(tmp_path / "best.safetensors").version
    assert {evaluator.version for evaluator in run.evaluators} == {best}
    assert run.elo.curve is not None
    assert (tmp_path / "elo.png").read_bytes().startswith(b"\x89PNG")
    lines = list(read_metrics(tmp_path / "metrics.jsonl", "rating"))
    assert [line.values["version"] for line in lines][-1] == run.elo.curve.points[-1].version
    assert all(line.values["elo_low"] < line.values["elo"] < line.values["elo_high"] for line in lines)
    assert any(meeting.second == "random" for meeting in read_meetings(tmp_path))

    again = train(tmp_path, 1)
    assert again.gatekeeper is not None
    assert again.gatekeeper.best is not None
    assert again.gatekeeper.best.version >= best
    versions = [json.loads(line)["version"] for line in (tmp_path / "versions.jsonl").read_text("utf-8").splitlines()]
    assert versions == sorted(set(versions))
