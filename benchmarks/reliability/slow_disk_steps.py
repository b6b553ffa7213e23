"""What a disk that takes 5 s for each fsync costs the learner: steps a second against those on the disk as it is.

    python -m benchmarks.reliability.slow_disk_steps [--pairs 5 --seconds 30]

Each side is a process of its own: the training loop of connect four's preset on rows of untrained play, with a
checkpoint every 10 s.  Sides alternate, and begin in turn.  A line of JSON with the median of the ratios; recorded in
benchmarks/results/.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.lib import record

SHIM = Path(__file__).resolve().parents[2] / "tests" / "fixtures" / "slow_fsync.c"
FSYNC_SECONDS, INTERVAL, WARM_UP_SECONDS, LEAST_RATIO = 5, 10.0, 5.0, 0.95


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--side", help="one side, for ourselves: a folder for the run")
    options = parser.parse_args()
    if options.side:
        print(json.dumps(steps_per_second(Path(options.side), options.seconds)))
        return
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "slow_fsync.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(SHIM), "-ldl"], check=True)
        slow = {"LD_PRELOAD": str(library), "SLOW_FSYNC_BELOW": "/checkpoints",
                "SLOW_FSYNC_SECONDS": str(FSYNC_SECONDS)}
        ratios, saved = [], []
        for pair in range(options.pairs):
            sides = [("slow", slow), ("quick", {})][:: -1 if pair % 2 else 1]
            measured = {name: side(Path(folder) / f"{pair}-{name}", options.seconds, variables)
                        for name, variables in sides}
            ratios.append(measured["slow"]["steps_per_s"] / measured["quick"]["steps_per_s"])
            saved.append(measured["slow"]["checkpoints"])
    result = {"ratio": statistics.median(ratios), "ratios": ratios, "checkpoints_on_the_slow_disk": saved,
              "seconds": options.seconds, "load": os.getloadavg()[0]}
    print(json.dumps(result))
    record("slow_disk_steps.jsonl", "python -m benchmarks.reliability.slow_disk_steps", runs=[result])
    if result["ratio"] < LEAST_RATIO:
        raise SystemExit(f"on the slow disk {result['ratio']:.3f} of the steps, and {LEAST_RATIO} are the least")


def side(directory: Path, seconds: float, variables: dict[str, str]) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.reliability.slow_disk_steps", "--side", str(directory),
               "--seconds", str(seconds)]
    done = subprocess.run(command, env={**os.environ, **variables}, check=True, capture_output=True, text=True)
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def steps_per_second(directory: Path, seconds: float) -> dict[str, float]:
    """Learns for so long after a warm-up of 5 s; steps a second, and checkpoints that came meanwhile."""
    from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
    from shusaku.actors.self_play import ActorIdentity, SelfPlay
    from shusaku.common.external.configured_game import configured_game
    from shusaku.common.network.row_labels import row_labels
    from shusaku.deploy.cli.overrides import compose
    from shusaku.learner.training_loop import TrainingLoop
    from shusaku.replay.backends import make_buffer

    config = compose(["experiment=connect_four", f"run.checkpoint_seconds={INTERVAL}",
                      "replay.samples_per_position=1000000"])
    game = configured_game(config.game)
    buffer = make_buffer("memory", game, config.replay, batch_size=config.learner.batch_size,
                         symmetries=config.learner.symmetries, labels=row_labels(game, config.learner))
    config.search.simulations = 16
    player = SelfPlay(game, config.search, config.self_play, PseudoRandomEvaluator(game, 64), games=64, seed=1,
                      identity=ActorIdentity(0))
    directory.mkdir()
    training = TrainingLoop(config, game, buffer, directory, config_hash="")
    training.begin_turns(lambda: False)
    for game_record in player.play(config.replay.minimum):
        buffer.append(game_record)
    saved: set[int] = set()


    def learn(end: float) -> int:
        """Until that moment; the steps that were made."""
        first = training.report().step
        while time.monotonic() < end:
            training.learn_turn(lambda: time.monotonic() >= end)
            training.checkpoint_if_due()
            saved.add(training.report().saved_step)
        return training.report().step - first

    learn(time.monotonic() + WARM_UP_SECONDS)
    steps = learn(time.monotonic() + seconds)
    os._exit(_print({"steps_per_s": steps / seconds, "checkpoints": len(saved - {0})}))  # waits for no disk


def _print(result: dict[str, float]) -> int:
    print(json.dumps(result), flush=True)
    return 0


if __name__ == "__main__":
    main()
