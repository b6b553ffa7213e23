"""How long a checkpoint pauses learning: Go 19x19 with 256 filters x 20 blocks and AdamW, 480 MB of arrays.

    python -m benchmarks.reliability.checkpoint_pause [--repeats 5]

A run directory in the folder for temporary files; a line of JSON with the pause of each checkpoint, and the medians of
pause, processor time of the loop in it, and seconds until the thread has written it; recorded in benchmarks/results/.
A machine that does other work lengthens the pause, and leaves the processor time nearly as it is.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

import torch

from benchmarks.lib import record
from shusaku.common._core import Game
from shusaku.common.config.schema import Config, NetworkConfig
from shusaku.common.network.row_labels import row_labels
from shusaku.learner.training_loop import TrainingLoop
from shusaku.replay.backends import make_buffer

BOUND_SECONDS = 0.3  # for the median pause


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    with tempfile.TemporaryDirectory() as directory:
        measured = measure(Path(directory), parser.parse_args().repeats)
    print(json.dumps(measured))
    record("checkpoint_pause.jsonl", "python -m benchmarks.reliability.checkpoint_pause", runs=[measured])
    if measured["pause_s"] > BOUND_SECONDS:
        raise SystemExit(f"the median pause is {measured['pause_s']:.2f} s, and {BOUND_SECONDS} s is allowed")


def measure(directory: Path, repeats: int) -> dict[str, float | list[float]]:
    """Pause and seconds of writing of so many checkpoints."""
    config = Config(network=NetworkConfig(filters=256, blocks=20))
    config.game.name, config.game.params = "go", {"size": 19}
    config.run.checkpoint_seconds, config.run.keep_checkpoints, config.run.keep_every_minutes = 1e-6, 1, 0
    game = Game("go", {"size": 19})
    buffer = make_buffer("memory", game, config.replay, batch_size=config.learner.batch_size,
                         labels=row_labels(game, config.learner))
    training = TrainingLoop(config, game, buffer, directory, config_hash="")
    training.begin_turns(lambda: False)
    with torch.no_grad():  # a step, so that the optimizer has its state
        for parameter in training.learner.network.parameters():
            parameter.grad = torch.zeros_like(parameter)
    training.learner._optimizer.step()
    pauses, works, writes = [], [], []
    for step in range(1, repeats + 1):
        training.learner.step_count = step
        began, pause, worked = time.perf_counter(), 0.0, 0.0
        while training.report().saved_step < step:
            begin, busy = time.perf_counter(), time.thread_time()
            training.checkpoint_if_due()
            pause, worked = max(pause, time.perf_counter() - begin), max(worked, time.thread_time() - busy)
            time.sleep(0.01)
        pauses.append(pause)
        works.append(worked)
        writes.append(time.perf_counter() - began)
    training.close()
    files = list(Path(min((directory / "checkpoints").iterdir())).glob("*.safetensors"))
    return {
        "megabytes": sum(file.stat().st_size for file in files) / 1e6, "pause_s": statistics.median(pauses),
        "pauses_s": pauses, "processor_s": statistics.median(works), "write_s": statistics.median(writes),
        "load": os.getloadavg()[0],
    }


if __name__ == "__main__":
    main()
