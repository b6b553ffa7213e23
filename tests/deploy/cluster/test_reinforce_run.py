"""Policy gradient on Ray and Redis, and its pool and its games after a driver that was killed."""

import signal
from collections.abc import Callable

import pytest
from cluster_process import START_S, ClusterProcess, doubled

from shusaku.common.metrics import read_metrics
from shusaku.learner.opponent_pool import OpponentPool

SETTINGS = (
    "experiment=alphago_9x9_reinforce", "game.size=5", "policy.from=random", "actors.games_per_actor=8",
    "actors.count=2", "reinforce.games=16", "reinforce.pool_every=2", "network.filters=8", "network.blocks=1",
    "run.minutes=30", "run.checkpoint_seconds=2", "cluster.dashboard=false", "cluster.nice=19",
)


@pytest.mark.faults
@pytest.mark.timeout(600)
def test_a_run_goes_on_with_its_pool_after_its_driver_was_killed(start: Callable[..., ClusterProcess]) -> None:
    run = start(settings=SETTINGS)
    run.until(lambda s: s["status"]["step"] >= 8 and run.newest_checkpoint()[0] >= 6, START_S, "three members")
    run.process.send_signal(signal.SIGKILL)
    run.process.wait()
    run.until_nothing_is_left(60)
    step, pool = run.newest_checkpoint()[0], OpponentPool(run.run_dir)
    kept = {version: pool.load(version).step for version in pool.versions()}
    assert sorted(kept.values())[:4] == [0, 2, 4, 6]
    again = start(settings=SETTINGS)
    again.until(lambda s: s["status"]["step"] >= step + 6, START_S, "updates of the run that goes on")
    assert again.resumed_steps() == [step]
    now = {version: pool.load(version).step for version in pool.versions()}
    assert {version: made for version, made in kept.items() if made <= step}.items() <= now.items()
    joined = list(range(0, step + 4, 2))
    assert sorted(now.values())[:len(joined)] == joined, "each is there once"
    records = list(again.records().values())
    assert doubled([record.game_id for record in records]) == []
    published = set(again.published())
    for record in records:
        learns, opposes = (set(record.versions[mask].tolist()) for mask in (record.row_weight > 0,
                                                                            record.row_weight == 0))
        assert len(learns) == len(opposes) == 1
        assert learns <= published
        assert opposes <= set(now) | set(kept), "a member of the pool"
    firsts = [bool(record.row_weight[0] > 0) for record in records]
    assert abs(2 * sum(firsts) - len(firsts)) <= 16, "both colours; the games of a round may be on their way"
    assert again.stop() == 143
    learned = next(line for line in reversed(list(read_metrics(again.run_dir / "metrics.jsonl")))
                   if "reinforce/pool" in line.values)
    assert learned.values["reinforce/pool"] >= 4
