"""What policy gradient has gained: games of a run's newest policy against the one that it began with.

    python -m benchmarks.strength.reinforce RUN_DIR [--against FILE] [--games 400] [--record]

RUN_DIR is a run of policy gradient (experiment=alphago_9x9_reinforce).  Both policies draw their moves from the softmax
at temperature 1, half of the games with each colour, as the games that are learned from (Silver et al. 2016: 80 %
against the supervised policy).  --against names other weights, such as another member of RUN_DIR/reinforce/pool.
"""

import argparse
import json
import shlex
import sys
from pathlib import Path

import numpy as np

from benchmarks.lib import record
from shusaku.actors.evaluators.factory import make_bucketed_evaluator
from shusaku.actors.policy_games.paired_games import LEARNS, OPPOSES, PairedGames
from shusaku.actors.self_play import ActorIdentity
from shusaku.common._core import Game
from shusaku.common.config.schema import Config, InferenceConfig
from shusaku.common.config.search import PolicyOnlyConfig
from shusaku.common.network.weights import load_weights, network_config
from shusaku.deploy.run.chosen_weights import find_weights
from shusaku.learner.opponent_pool import FOLDER
from shusaku.learner.policy_gradient import START

FILE = "reinforce.jsonl"
AT_ONCE = 200  # games
SAMPLED = PolicyOnlyConfig(temperature_plies=0, temperature_final=1.0, cache=0)  # moves drawn from the softmax


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--against", type=Path, help="weights of the opponent; the start of the run otherwise")
    parser.add_argument("--games", type=int, default=400)
    parser.add_argument("--precision", default="auto", help="of the networks: auto, fp32, bf16")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", action="store_true", help=f"append the result to benchmarks/results/{FILE}")
    options = parser.parse_args()
    newest = find_weights(Config(), "run", str(options.run)).weights
    opponent = load_weights(options.against or options.run / FOLDER / START)
    game, network = Game(newest.game, newest.params), network_config(newest)
    evaluators = [make_bucketed_evaluator(game, InferenceConfig(precision=options.precision), network, AT_ONCE)
                  for _ in (LEARNS, OPPOSES)]
    size = min(AT_ONCE, options.games - options.games % 2)
    pairs = PairedGames(game, SAMPLED, evaluators, lambda random: opponent, games=size, seed=options.seed,
                        identity=ActorIdentity(0))
    pairs.load(newest)
    points: list[float] = []
    while len(points) < options.games:
        for played in pairs.play(1):
            sign = 1 if played.row_weight[0] > 0 else -1  # players alternate
            points.append((1 + sign * played.outcome) / 2)
    points = points[: options.games]
    score, error = float(np.mean(points)), float(np.std(points, ddof=1) / np.sqrt(len(points)))
    line = {"games": len(points), "score": round(score, 4), "score_low": round(score - 1.96 * error, 4),
            "score_high": round(score + 1.96 * error, 4), "updates": newest.step,
            "first": round(float(np.mean(points[0::2])), 4), "second": round(float(np.mean(points[1::2])), 4)}
    print(f"{options.run}, after {newest.step:,} updates: {score:.1%} of {len(points)} games "
          f"(95 %: {score - 1.96 * error:.1%} to {score + 1.96 * error:.1%}), "
          f"{line['first']:.1%} moving first, {line['second']:.1%} moving second")
    print(json.dumps(line))
    if options.record:
        record(FILE, shlex.join(["python", "-m", "benchmarks.strength.reinforce", *sys.argv[1:]]), **line)


if __name__ == "__main__":
    main()
