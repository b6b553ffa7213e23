"""A rollout policy learned from finished games: passes over the training games, then a measurement on unseen ones."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shusaku.common._core import Game, RolloutTraining
from shusaku.common.codec import encode_record
from shusaku.common.config.schema import RolloutConfig
from shusaku.common.errors import UsageError
from shusaku.replay.dataset import Dataset


@dataclass(frozen=True)
class LearnedRollouts:
    """The file of a rollout policy, and how well it predicts moves."""

    data: bytes
    weights: int  # features that have one
    games: int  # that were learned from
    passes: list[dict[str, float]]  # of each: positions, others, loss, top1, top5; before a position was learned from
    unseen: dict[str, float]  # the same on the test games of the dataset


def learn_rollouts(
    game: Game, dataset: Dataset, settings: RolloutConfig, seed: int,
    on_pass: Callable[[int, dict[str, float]], None] = lambda number, fit: None,
) -> LearnedRollouts:
    """The policy; the same games, settings and seed give the same bytes.  UsageError if the game has no such policy.

    The rate falls evenly to nothing over the passes.  `loss` is the mean of -log p(move) in nats over the positions
    whose move a rollout may choose; `others` counts the rest.
    """
    try:
        training = RolloutTraining(game)
    except ValueError as error:
        raise UsageError(f"game={game.name}: {error}") from None
    games = {"training": 0, "test": 0}
    for part in games:
        for number in range(len(dataset[part])):
            played = dataset[part].read(number)
            try:
                training.add(played.actions, played.row_weight, part == "test")
                games[part] += 1
            except ValueError as error:
                dataset.quarantine.add(f"rules: {error}", encode_record(played))
    if not all(games.values()):
        part = min(games, key=games.__getitem__)
        raise UsageError(f"dataset.records={dataset.pattern}: every game for {part} breaks the rules; name logs of "
                         "games by the rules of game=")
    weights = training.begin(settings.least_seen)
    passes: list[dict[str, float]] = []
    for number in range(settings.passes):
        rate = settings.rate * (1 - number / settings.passes)
        passes.append(training.learn(rate, seed + number))
        on_pass(number + 1, passes[-1])
    unseen = training.measure()
    note = (f"{games['training']} games, {settings.passes} passes; unseen: top-1 {unseen['top1']:.4f}, "
            f"loss {unseen['loss']:.4f}")
    return LearnedRollouts(training.file(note), weights, games["training"], passes, unseen)


def to_json(learned: LearnedRollouts) -> dict[str, Any]:
    """What the command prints."""
    return {"games": learned.games, "weights": learned.weights, "bytes": len(learned.data), "passes": learned.passes,
            **{f"unseen_{name}": value for name, value in learned.unseen.items()}}
