"""A real run of tic-tac-toe with the real network must get better: measured against exact play."""

from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.local.driver import LocalRun
from shusaku.deploy.run.run_directory import RunDirectory
from shusaku.deploy.run.stop_signals import StopSignals

ROWS = 40_000


def test_tic_tac_toe_learns_from_nothing(tmp_path):
    """Less than a minute on two cores; the full three minutes are benchmarks/strength/tic_tac_toe_seeds.sh."""
    config = compose([
        "experiment=tic_tac_toe", f"run.dir={tmp_path}", "run.minutes=10", "replay.minimum=1000", "learner.threads=1",
        "learner.batch_size=64", "network.filters=16", "learner.publish_every=25", "strength.positions=600",
    ])
    with RunDirectory(config) as directory, StopSignals() as signals:
        run = LocalRun(config, directory, signals)
        assert run.positions is not None
        run.is_over = lambda: run.buffer.stats().inserted >= ROWS  # type: ignore[method-assign]
        run.training.begin_turns(signals.should_stop)
        before = run.measure(run.positions, (64,))
        run.train()
        after = run.measure(run.positions, (64,))
        run.close()
    assert before.policy.optimal < 0.8
    assert after.policy.optimal > before.policy.optimal + 0.15
    assert after.policy.optimal > 0.93
    assert after.searches[64].mistakes <= 60
    assert after.searches[64].mistakes < before.searches[64].mistakes
    assert after.never_loses
    assert (tmp_path / "metrics.jsonl").exists()
    assert any((tmp_path / "tensorboard").iterdir())
