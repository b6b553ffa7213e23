"""What a network learns from one run's games: a quarter of an hour of one core instead of an hour of training.

    taskset -c 0 python -m benchmarks.tune.fits RUN [--rows 700000] [--steps 4000] [--anew | --checkpoint STEP]
        [--simulations 64 400] [--learn WORDS]... [--record] [WORDS...]

The run's newest network plays games as in self-play, which fill a window of so many rows; a learner then takes its
steps from it alone, beginning with the run's newest checkpoint, or anew.  WORDS change the run's settings for both,
such as self_play.random_plies=20 or learner.batch_size=1024; each --learn changes those of one more learner, which
begins at the same place and learns from the same games.  Printed are, before and after, the shares of optimal moves in
the committed set of the game, the squared error of the network's own value there, and the losses on a share of the
games that was not learned from.

What a fit says is a hint for a study: games that get better with the network, as those of a run do, are not in it.
"""

import argparse
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.lib import record
from shusaku.actors.arena.strength import measure, strength_search
from shusaku.actors.arena.strength_sets import strength_set
from shusaku.actors.policy_games.value_games import evaluator_of
from shusaku.actors.self_play import ActorIdentity, SelfPlay
from shusaku.common._core import Game
from shusaku.common.config.schema import Config, InferenceConfig
from shusaku.common.config.search import PolicyOnlyConfig
from shusaku.common.messages import GameRecord, Weights
from shusaku.common.network.network import Network
from shusaku.common.network.row_labels import row_labels
from shusaku.common.network.targets import make_targets
from shusaku.common.search import search_positions
from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.run.chosen_weights import find_weights
from shusaku.learner.checkpoints import checkpoint_path, load_checkpoint, load_latest
from shusaku.learner.learner import Learner
from shusaku.learner.state_copy import LearnerState
from shusaku.replay.row_window import RowWindow

FILE = "fits.jsonl"
BATCH = 64  # games at once, as in self-play; positions at once in the measurement
TEST_SHARE = 0.03  # of the games
TEST_ROWS = 12_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="RUN", type=Path, help="a run directory of a game with a committed set")
    parser.add_argument("words", metavar="WORDS", nargs="*", help="settings that differ from the run's")
    parser.add_argument("--rows", type=int, default=700_000)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--simulations", type=int, nargs="+", default=[64, 400], help="of the measurements")
    parser.add_argument("--learn", action="append", default=[], metavar="WORDS",
                        help="settings of one more learner, in one argument: 'learner.root_value_share=1'")
    parser.add_argument("--anew", action="store_true", help="begin with an untrained network")
    parser.add_argument("--checkpoint", dest="step", type=int, metavar="STEP",
                        help="whose checkpoint the run still has; without it the newest")
    parser.add_argument("--record", action="store_true", help=f"append the result to benchmarks/results/{FILE}")
    options = parser.parse_intermixed_args()
    torch.set_num_threads(1)  # as a learner beside actors; two fits may run side by side, each with `taskset`
    folder = options.run / "checkpoints"
    found = load_latest(folder) if options.step is None else load_checkpoint(checkpoint_path(folder, options.step))
    if found is None and not options.anew:
        parser.error(f"{options.run} has no checkpoint")
    start = None if options.anew or found is None else found.checkpoint
    shared = [f"config={options.run / 'config.yaml'}", *options.words]
    player, config = find_weights(Config(), "RUN", str(options.run)), compose(shared)
    games = played_games(player.game, player.weights, config, options.rows)
    before = None
    for words in ([], *map(shlex.split, options.learn)):
        config = compose([*shared, *words])
        window = filled_window(player.game, config, games)
        learner = Learner(Network(player.game.observation_shape, player.game.num_actions, config.network,
                                  make_targets(config.learner), config.run.seed), player.game, config.learner)
        if start is not None:
            learner.restore(LearnerState(start.tensors, start.facts["learner"]))
        if before is None:
            before = measured(player.game, learner, window, config, options.simulations) if start is not None else {}
            print("before:", before, flush=True)
        seconds = fit(learner, window, config, options.steps)
        after = measured(player.game, learner, window, config, options.simulations)
        print(*words, after, flush=True)
        if options.record:
            record(FILE, shlex.join(["python", "-m", "benchmarks.tune.fits", *sys.argv[1:]]),
                   run=str(options.run), words=[*options.words, *words], anew=options.anew, steps=options.steps,
                   rows=options.rows,
                   plies=round(float(np.mean([len(game) for game in games])), 1), seconds=round(seconds, 1),
                   before=before, after=after)


def played_games(game: Game, weights: Weights, config: Config, rows: int) -> list[GameRecord]:
    """Games of these weights, as in self-play, until they have so many rows."""
    player = SelfPlay(game, config.search, config.self_play, evaluator_of(game, config.inference, weights, BATCH),
                      games=BATCH, seed=config.run.seed, identity=ActorIdentity(0))
    games: list[GameRecord] = []
    found = 0
    while found < rows:
        for played in player.step():
            games.append(played)
            found += played.num_rows
    return games


def filled_window(game: Game, config: Config, games: Sequence[GameRecord]) -> RowWindow:
    """A window of all rows of these games, which may be taken at any rate."""
    rows = sum(played.num_rows for played in games)
    replay = replace(config.replay, capacity=2 * rows, minimum=rows // 2, window="fixed", test_share=TEST_SHARE)
    window = RowWindow(game, replay, batch_size=config.learner.batch_size, limited=False,
                       symmetries=config.learner.symmetries, labels=row_labels(game, config.learner))
    for played in games:
        window.accept(played)
    return window


def fit(learner: Learner, window: RowWindow, config: Config, steps: int) -> float:
    """So many steps from the window alone; returns their seconds."""
    begin = time.perf_counter()
    for step in range(steps):
        learner.run_share = step / steps
        batch = window.sample(config.learner.batch_size, step)
        assert batch is not None
        learner.step(batch)
    return time.perf_counter() - begin


def measured(
    game: Game, learner: Learner, window: RowWindow, config: Config, simulations: Sequence[int]
) -> dict[str, Any]:
    """Shares of optimal moves, the squared error of the value in the committed set, and the losses of test games."""
    weights = learner.publish(1)
    assert weights is not None
    precision = "fp32" if config.inference.precision == "fp32" else "bf16"  # 8 bits are what is measured elsewhere
    evaluator = evaluator_of(game, InferenceConfig(precision=precision), weights, BATCH)
    positions = strength_set(game)
    strength = measure(positions, [evaluator], config.search, simulations)
    shares = {"alone": strength.policy, **{f"search_{count}": share for count, share in strength.searches.items()}}
    policy_only = strength_search(PolicyOnlyConfig(cache=0), 1)
    results = search_positions(game, positions.positions, policy_only, evaluator, lambda: False)
    values = np.array([result.raw_value for result in results])
    error = np.square(values - positions.results.max(axis=1)).mean()
    test = window.peek(TEST_ROWS, 1, of_tests=True)
    assert test is not None
    return {**{name: round(100 * share.optimal, 2) for name, share in shares.items()},
            "value_error": round(float(error), 4),
            "test": {name: round(float(loss), 4) for name, loss in learner.measure(test).items()}}


if __name__ == "__main__":
    main()
