"""Self-play of OpenSpiel's Python MCTSBot, one process on one core, around the fastest network of ours at batch 1.

    python benchmarks/peers/open_spiel_mcts.py --game connect_four --filters 64 --blocks 5 --seconds 10

OpenSpiel's search asks for one position at a time, so a batch of 1 is the most it can use; its AlphaZeroEvaluator's
cache is on.  The network is our OpenVINO graph with random weights over OpenSpiel's own observation, which is kinder to
it than the networks that it ships (JAX, a tenth of the speed).  OpenSpiel's C++ AlphaZero needs libtorch and is not in
its package.  The last line is JSON: searches, evaluations and finished games a second.
"""

import argparse
import json
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyspiel
from open_spiel.python.algorithms import mcts

from shusaku.actors.evaluators.channels_last import channels_last
from shusaku.actors.evaluators.openvino import OpenVINORuntime
from shusaku.common.config.schema import NetworkConfig
from shusaku.common.hardware import choose_precision
from shusaku.common.messages import Weights
from shusaku.common.network.tower import TowerShape, initial_tensors

# The module imports jax, which `compare.py` installs beside the other peers; our own environment does without.
PEERS = Path(__file__).resolve().parents[2] / "build" / "peers"
sys.path.append(sysconfig.get_path("purelib", vars={"base": str(PEERS)}))
from open_spiel.python.algorithms.alpha_zero import evaluator as alpha_zero  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--game", default="connect_four", help="as OpenSpiel calls it: go(board_size=9), ...")
    parser.add_argument("--filters", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--simulations", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    print(json.dumps(measure(options)))


class BatchOfOne:
    """What AlphaZeroEvaluator calls a model."""

    def __init__(self, game: Any, filters: int, blocks: int) -> None:
        shape = game.observation_tensor_shape()
        tower = TowerShape(tuple(shape), game.num_distinct_actions(), NetworkConfig(filters=filters, blocks=blocks))
        self._runtime = OpenVINORuntime(tower, 1, choose_precision("auto", "cpu", "inference.precision"))
        self._runtime.load(Weights(1, 0, initial_tensors(tower, 1), {}, "", {}))
        self._planes = shape
        self.evaluations = 0

    def inference(self, observation: Any, mask: Any) -> tuple[Any, Any]:
        """One flat observation and its legal mask -> value, policy [A]."""
        planes = np.asarray(observation, np.float32).reshape(1, *self._planes)  # [1, C, H, W]
        self._runtime.inputs[...] = channels_last(planes, self._runtime.inputs)
        self._runtime.run(1)
        self.evaluations += 1
        logits = np.where(np.asarray(mask, bool).reshape(-1), self._runtime.policy[0], -1e9)
        policy = np.exp(logits - logits.max())
        return float(self._runtime.values[0]), policy / policy.sum()


def measure(options: argparse.Namespace) -> dict[str, float]:
    game = pyspiel.load_game(options.game)
    model = BatchOfOne(game, options.filters, options.blocks)
    evaluator = alpha_zero.AlphaZeroEvaluator(game, model)
    bot = mcts.MCTSBot(game, 2.0, options.simulations, evaluator, solve=False,
                       child_selection_fn=mcts.SearchNode.puct_value, dont_return_chance_node=True)
    random = np.random.default_rng(1)
    state = game.new_initial_state()
    bot.mcts_search(state)
    moves = ended = model.evaluations = 0
    begin = time.perf_counter()
    while (spent := time.perf_counter() - begin) < options.seconds:
        root = bot.mcts_search(state)
        visits = np.array([child.explore_count for child in root.children], float)
        state.apply_action(root.children[random.choice(len(visits), p=visits / visits.sum())].action)
        moves += 1
        if state.is_terminal():
            ended += 1
            state = game.new_initial_state()
    return {"searches_per_s": moves / spent, "evaluations_per_s": model.evaluations / spent,
            "games_per_s": ended / spent}


if __name__ == "__main__":
    main()
