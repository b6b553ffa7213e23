"""Bytes of the tree for each simulation, on Go 19x19 and 9x9, chess and shogi.

    python -m benchmarks.analysis.memory [--simulations 20000] [--record]

The pseudo-random evaluator, from the start position: at 19x19 at most 1,024 are to be taken.
"""

import argparse
import json
from typing import Any

from benchmarks.lib import record
from shusaku.actors.analysis.analysis import Analysis, Limits
from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.common._core import Game
from shusaku.common.config.search import PuctConfig

GAMES: list[tuple[str, dict[str, Any]]] = [("go", {"size": 19}), ("go", {"size": 9}), ("chess", {}), ("shogi", {})]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulations", type=int, default=20_000)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    for name, params in GAMES:
        game = Game(name, params)
        analysis = Analysis(game, [PseudoRandomEvaluator(game, 16)], PuctConfig(cache=0))
        analysis.start(Limits(simulations=options.simulations, to_the_end=True))
        analysis.wait()
        simulations = analysis.report().simulations
        measured = {"game": name, **params, "simulations": simulations,
                    "bytes_per_simulation": round(analysis.tree_bytes / simulations, 1)}
        print(json.dumps(measured))
        if options.record:
            record("analysis.jsonl", "python -m benchmarks.analysis.memory --record", name="memory", runs=[measured])


if __name__ == "__main__":
    main()
