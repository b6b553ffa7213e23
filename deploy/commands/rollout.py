"""`shusaku rollout dataset.records=DIR file=…`: a rollout policy learned from finished games, for search.rollout=."""

import sys
from pathlib import Path
from typing import Any

from shusaku.common.config.schema import Config
from shusaku.common.durable_files import DISK_ERRORS, write_atomically
from shusaku.common.errors import UsageError
from shusaku.common.external.configured_game import configured_game
from shusaku.learner.rollout_training import learn_rollouts, to_json
from shusaku.replay.dataset import Dataset


def run(config: Config, as_json: bool) -> dict[str, Any]:
    """Writes the file; UsageError if the game has no rollout policy, if no game can be read, or no file be written."""
    if not config.file:
        raise UsageError("rollout: file= is missing; name the file to write, such as file=go_9x9.rollout")
    if not config.dataset.records:
        raise UsageError("rollout: dataset.records= is missing; name a record log that shusaku records import "
                         "records.out=DIR has written")
    game, path = configured_game(config.game), Path(config.file)
    if not path.parent.is_dir():
        raise UsageError(f"file={path}: there is no directory {path.parent}; make it, or name a file that can be "
                         "written")
    dataset = Dataset(config.dataset.records, game)

    def show(number: int, fit: dict[str, float]) -> None:
        if not as_json:
            print(f"pass {number} of {config.rollout.passes}: {fit['positions']:,} positions, loss {fit['loss']:.3f}, "
                  f"top-1 {fit['top1']:.1%}", flush=True)

    learned = learn_rollouts(game, dataset, config.rollout, config.run.seed, show)
    try:
        write_atomically(path, learned.data)
    except OSError as error:
        if error.errno in DISK_ERRORS:
            raise
        raise UsageError(f"file={path}: {error.strerror}; name a file that can be written") from None
    rejected = sum(dataset.quarantine.counts.values())
    if rejected:
        print(f"{rejected:,} games were left out: {'; '.join(dataset.quarantine.counts)}"[:400], file=sys.stderr)
    if not as_json:
        unseen = learned.unseen
        print(f"{path}: {learned.weights:,} weights from {learned.games:,} games; unseen games: "
              f"{unseen['positions']:,} positions, loss {unseen['loss']:.3f}, "
              f"top-1 {unseen['top1']:.1%}, top-5 {unseen['top5']:.1%}")
    return {"file": str(path), "game": game.name, "params": game.params, **to_json(learned)}
