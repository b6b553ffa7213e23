"""What `shusaku local` saves and how it goes on: one checkpoint names everything, the record log included."""

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import msgpack

from shusaku.common.codec import decode_record, encode_record
from shusaku.common.config.schema import config_hash
from shusaku.common.errors import ResumeError
from shusaku.common.messages import Weights
from shusaku.common.network.weights import save_weights
from shusaku.learner.checkpoints import Checkpoint, Found, keep_first_weights, load_latest, prune, write_checkpoint
from shusaku.learner.learner import Diverged, LearnerState
from shusaku.replay.record_log import LogPosition

if TYPE_CHECKING:
    from shusaku.deploy.local.driver import LocalRun

FORMAT = 1  # of the facts below


@dataclass
class RunState:
    """Counters of a run that no part of it owns."""

    seconds: float = 0.0  # of training, summed over resumes
    evaluations: int = 0  # of self-play, by the network
    games: int = 0  # written to the record log
    next_batch: int = 0  # index of the next mini-batch
    rows_left: list[int] = field(default_factory=list)  # of a turn of playing that was stopped, for each actor
    steps_left: int = 0  # of a turn of learning that was stopped
    measurements: int = 0  # of the strength that were due so far
    rollbacks: int = 0
    strength: list[tuple[float, float]] = field(default_factory=list)  # training seconds, share of optimal moves


def save_run(run: "LocalRun") -> None:
    """Writes a checkpoint, then the published weights as a file of their own, and drops what the window has left.

    OSError when the disk does not take it, Diverged when the network is not finite; earlier checkpoints stay.
    """
    learner = run.learner.state()
    position = run.log.sync()
    run.state.next_batch = run.batches.index
    published = run.published
    assert published is not None
    facts: dict[str, Any] = {
        "format": FORMAT,
        "game": run.game.name,
        "config_hash": config_hash(run.config),
        "learner": learner.facts,
        "replay": run.buffer.state(),
        "records": list(position),
        "version": published.version,
        "version_step": published.step,
        "scales": published.scales,
        "refused": published.rejected,
        "sequences": [actor.sequence for actor in run.actors],
        "run": {**asdict(run.state), "seconds": run.seconds, "evaluations": run.evaluations},
    }
    games = {f"games_{number}": actor.snapshot() for number, actor in enumerate(run.actors)}
    games["turn"] = msgpack.packb([[encode_record(record) for record in records] for records in run.turn])
    tensors = {**learner.tensors, "published": dict(published.tensors)}
    keep_first_weights(run.directory.path, published)
    write_checkpoint(run.directory.checkpoints, Checkpoint(run.learner.step_count, tensors, facts, games))
    prune(run.directory.checkpoints, run.config.run.keep_checkpoints)
    save_weights(run.directory.path / "weights.safetensors", published)
    # Older checkpoints that are kept may need a little more of the log than the window of now.
    run.log.trim(run.log.segment_holding(run.buffer.stats().games * 3 // 2))


def load_run(run: "LocalRun", *, learner_only: bool = False, cause: Diverged | None = None) -> list[str]:
    """Goes on from the newest good checkpoint; lines for the user about what was damaged or could not be used.

    Without any checkpoint the run begins from nothing, and with `learner_only` raises `cause`.
    """
    found = load_latest(run.directory.checkpoints)
    if found is None:
        if cause is not None:
            raise cause
        run.log.truncate_to(LogPosition(0, 0))
        return []
    notes = [f"damaged and passed over: {line}" for line in found.damaged]
    checkpoint = found.checkpoint
    facts = checkpoint.facts
    if facts.get("format") != FORMAT:
        raise ResumeError(f"{found.path} has format {facts.get('format')!r}; this program reads {FORMAT}: "
                          "begin a new run with another run.dir")
    run.learner.restore(LearnerState(checkpoint.tensors, facts["learner"]))
    if learner_only:
        return notes
    notes += _restore_window(run, facts)
    state = facts["run"]
    run.state = RunState(**{**state, "strength": [(float(s), float(v)) for s, v in state["strength"]]})
    notes += _restore_games(run, found)
    run.versions.newest = max(run.versions.newest, int(facts["version"]))
    run.published = Weights(
        int(facts["version"]), int(facts["version_step"]), dict(checkpoint.tensors["published"]),
        asdict(run.config.network), run.game.name, run.game.params,
        scales=facts.get("scales", {}), rejected=facts.get("refused", ""),
    )
    notes.append(f"goes on after {run.state.seconds / 60:.1f} minutes, {run.learner.step_count:,} steps and "
                 f"{run.state.games:,} games")
    return notes


def _restore_window(run: "LocalRun", facts: dict[str, Any]) -> list[str]:
    run.log.truncate_to(LogPosition(*facts["records"]))
    bad = run.buffer.restore(facts["replay"], run.log.iterate())
    notes = [f"{d.path}, byte {d.offset}: {d.reason}; records behind it are lost" for d in run.log.damage]
    if bad:
        notes.append(f"{bad:,} records of the window were not valid and are left out")
    return notes


def _restore_games(run: "LocalRun", found: Found) -> list[str]:
    facts, extra = found.checkpoint.facts, found.checkpoint.extra
    lost = 0
    for number, actor in enumerate(run.actors):
        try:
            actor.restore(extra[f"games_{number}"])
        except (KeyError, ValueError):
            lost += 1
            sequences = facts["sequences"]
            actor.begin_anew(sequences[number] if number < len(sequences) else 0)
    turn = [[decode_record(data) for data in records] for records in msgpack.unpackb(extra["turn"])]
    if not lost and len(run.actors) == len(facts["sequences"]):
        run.turn = turn
        return []
    run.state.rows_left = []  # of a turn that no longer is: its finished games go into the window as they are
    for records in turn:
        for record in records:
            run.buffer.append(record)
    return [f"the open games of {lost} actors are begun anew, because actors or search changed"]
