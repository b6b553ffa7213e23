"""400 paired games of Go 9x9 between 2 threads x 16 leaves and 1 x 1, both at 400 simulations a move.

    python -m benchmarks.analysis.paired_games --checkpoint RUN_DIR [--games 400] [--simulations 400] [--record]

Each opening of 6 random plies is played twice with sides swapped.  What several threads lose by looking at leaves that
one would not is to cost little: the score of 2 x 16 is to be at least 42 %.  Prints it with its 95 % interval, pairs
resampled together.  The search is always puct: of a fixed number of simulations, gumbel's is one thread's plan that
ignores both numbers.  Without a checkpoint the network is untrained, which says little.

`--scores FILE` keeps the pairs that were played, so that the command goes on after an interruption; with `--part 1/2`
and `--part 2/2` two processes share the games, and the command without a part then counts those of both.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from benchmarks.lib import record
from shusaku.actors.analysis.analysis import Analysis, Limits
from shusaku.actors.evaluators.factory import make_bucketed_evaluator
from shusaku.common._core import Game, Position
from shusaku.common.config.schema import Config, GameConfig, InferenceConfig, NetworkConfig
from shusaku.common.config.search import make_search
from shusaku.deploy.protocols.opening import SIZES
from shusaku.deploy.run.chosen_weights import ChosenWeights, choose_weights

SHAPES = [(2, 16), (1, 1)]  # threads, leaves
OPENING_PLIES = 6


def analyses_of(chosen: ChosenWeights) -> list[Analysis]:
    """One for each shape."""
    search = make_search("puct", **vars(chosen.search))
    made = []
    for threads, leaves in SHAPES:
        evaluators = []
        for _ in range(threads):
            evaluator = make_bucketed_evaluator(chosen.game, InferenceConfig(), chosen.network, leaves, sizes=SIZES)
            evaluator.load(chosen.weights)
            evaluators.append(evaluator)
        made.append(Analysis(chosen.game, evaluators, search, leaves=leaves))
    return made


def play(position: Position, players: list[Analysis], first: int, simulations: int) -> float:
    """The score of players[0], who moves first if `first` is 0."""
    position = position.copy()
    while not position.is_terminal:
        player = players[(position.to_play + first) % 2]
        player.set_position(position)
        player.start(Limits(simulations=simulations))
        player.wait()
        position.play(player.report().moves[0].action)
    own = position.outcome if (position.to_play + first) % 2 == 0 else -position.outcome
    return (own + 1) / 2


def opening(game: Game, pair: int) -> Position:
    """The same position for the same number of a pair."""
    random = np.random.default_rng((1, pair))
    position = game.start()
    for _ in range(OPENING_PLIES):
        position.play(int(random.choice([a for a in position.legal_actions if a < game.num_actions - 1])))
    return position


def played(scores: Path | None) -> dict[int, list[float]]:
    """Number of a pair -> its two scores, from files named FILE and FILE.PART."""
    if scores is None:
        return {}
    files = sorted(scores.parent.glob(scores.name + "*"))
    return dict(json.loads(line) for file in files for line in file.read_text().splitlines())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", default="random")
    parser.add_argument("--games", type=int, default=400)
    parser.add_argument("--simulations", type=int, default=400)
    parser.add_argument("--scores", type=Path)
    parser.add_argument("--part", default="1/1", help="K/N: only every Nth pair, from the Kth on")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    part, parts = (int(number) for number in options.part.split("/"))
    chosen = choose_weights(Config(checkpoint=options.checkpoint, game=GameConfig("go", {"size": 9}),
                                   network=NetworkConfig(filters=64, blocks=4)))
    players, pairs = analyses_of(chosen), played(options.scores)
    for pair in range(part - 1, options.games // 2, parts):
        if pair in pairs:
            continue
        pairs[pair] = [play(opening(chosen.game, pair), players, first, options.simulations) for first in (0, 1)]
        if options.scores:
            with Path(f"{options.scores}.{part}").open("a") as file:
                file.write(json.dumps([pair, pairs[pair]]) + "\n")
        if len(pairs) % 10 == 0:
            print(f"{2 * len(pairs)} games: {100 * np.mean(list(pairs.values())):.1f} %", flush=True)
    scores = np.mean(list(pairs.values()), axis=1)  # [pairs]
    resampled = np.random.default_rng(1).choice(scores, (10_000, len(scores))).mean(axis=1)
    low, high = np.quantile(resampled, [0.025, 0.975])
    measured = {"games": 2 * len(pairs), "simulations": options.simulations, "checkpoint": options.checkpoint,
                "score": round(float(scores.mean()), 4), "low": round(float(low), 4), "high": round(float(high), 4)}
    print(json.dumps(measured))
    if options.record:
        record("analysis.jsonl", "python -m benchmarks.analysis.paired_games --record", name="paired games",
               runs=[measured])


if __name__ == "__main__":
    main()
