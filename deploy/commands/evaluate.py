"""`shusaku evaluate checkpoint=…`: how often a network plays optimally, alone and with searches, beside baselines."""

import os
import sys
from typing import Any

from shusaku.actors.arena.strength import measure
from shusaku.actors.arena.strength_sets import games_with_sets, strength_set
from shusaku.actors.evaluators.factory import make_evaluator
from shusaku.actors.evaluators.score_share import score_share_of
from shusaku.common.config.schema import Config
from shusaku.common.config.search import AlphaGoConfig
from shusaku.common.errors import UsageError
from shusaku.deploy.run.calibration import with_scales
from shusaku.deploy.run.chosen_weights import choose_weights
from shusaku.deploy.run.strength_table import strength_table


def run(config: Config, as_json: bool) -> dict[str, Any]:
    """Prints the table; returns the JSON of DESIGN §9.  UsageError for a game without known results."""
    if isinstance(config.search, AlphaGoConfig):
        raise UsageError("search=alphago: is played by two networks and threads of its own, which evaluate does not "
                         "have; use another search here, or shusaku match")
    chosen = choose_weights(config)
    if share := score_share_of(chosen.search):
        raise UsageError(f"search.score_share={share:g}: evaluate counts who wins, and no points; leave it out")
    for note in chosen.notes:
        print(note, file=sys.stderr)
    positions = strength_set(chosen.game)
    if positions is None:
        raise UsageError(f"there are no positions with known results for {chosen.game.name} with these "
                         f"parameters; there are for {games_with_sets()}")
    weights = with_scales(config.inference, chosen.game, chosen.network, chosen.weights)
    evaluators = []
    for _ in range(config.actors.count or len(os.sched_getaffinity(0))):
        evaluator = make_evaluator(chosen.game, config.inference, chosen.network, config.actors.games)
        evaluator.load(weights)
        evaluators.append(evaluator)
    print(f"version {chosen.weights.version} after {chosen.weights.step:,} steps, on {evaluator.description}")
    strength = measure(positions, evaluators, chosen.search, with_baselines=True)
    print(strength_table(strength))
    return {"checkpoint": config.checkpoint, "version": chosen.weights.version, "step": chosen.weights.step,
            **strength.to_json()}
