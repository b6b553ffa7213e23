"""What the labels of self-play are worth: games of a connect four run beside exact results.

    python -m benchmarks.tune.played_labels RUN [--checkpoint STEP] [--games 384] [--positions 4] [--record]

The run's network plays on as in self-play, and some positions of each game, from the seventh ply on, are solved.
Printed is, by plies, the mean of (result - label)^2 for the player to move, of: the outcome z; what the search said, q;
its lambda-returns, L (`learner.value_lambda`); the run's own mixture of z and L; and of the network alone.  And how
often, where moves differ, the search's first choice keeps the result, and the move that was played.
"""

import argparse
import random
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import bitbully
import numpy as np
from numpy.typing import NDArray

from benchmarks.lib import record
from shusaku.actors.policy_games.value_games import evaluator_of
from shusaku.actors.self_play import ActorIdentity, SelfPlay
from shusaku.common.config.schema import Config, InferenceConfig, SelfPlayConfig
from shusaku.common.messages import GameRecord, RowKind
from shusaku.deploy.run.chosen_weights import find_weights, search_of_run
from shusaku.deploy.run.saved_config import read_config
from shusaku.learner.checkpoints import checkpoint_path

FILE = "played_labels.jsonl"
BATCH = 64  # games at once, as in self-play
FIRST = 6  # plies; before them most positions take the solver long, and are those of every game
STAGE = 6  # plies
LAMBDAS = (0.8, 0.9, 0.95)


class Solved(NamedTuple):
    """A position of a game; all values are for the player to move."""

    ply: int
    result: int  # under best play: -1, 0 or 1
    labels: dict[str, float]
    is_open: bool  # whether its moves lead to different results
    first_choice: bool  # whether the move that the search liked best keeps the result
    played: bool


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="RUN", type=Path, help="a run directory of connect four")
    parser.add_argument("--checkpoint", dest="step", type=int, metavar="STEP",
                        help="whose checkpoint the run still has; without it the newest")
    parser.add_argument("--games", type=int, default=384, help=f"in whole rounds of {BATCH}")
    parser.add_argument("--positions", type=int, default=4, help="of each game")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", action="store_true", help=f"append the result to benchmarks/results/{FILE}")
    options = parser.parse_args()
    saved = read_config(options.run)
    if saved["game"]["name"] != "connect_four":
        parser.error(f"{options.run} is a run of {saved['game']['name']}; the solver knows connect four alone")
    source = options.run if options.step is None else checkpoint_path(options.run / "checkpoints", options.step)
    games = list(played_games(source, saved, options.games, options.seed))
    learner = saved["learner"]
    solved = list(solved_positions(games, options.positions, options.seed, learner["value_lambda"],
                                   learner["root_value_share"]))
    stages = [summary(str(first), [p for p in solved if first <= p.ply < first + STAGE])
              for first in range(FIRST, 42, STAGE)]
    lines = [*(stage for stage in stages if stage["positions"]), summary("all", solved)]
    for line in lines:
        print(line, flush=True)
    if options.record:
        command = shlex.join(["python", "-m", "benchmarks.tune.played_labels", *sys.argv[1:]])
        record(FILE, command, games=len(games), draws=round(np.mean([g.outcome == 0 for g in games]), 3),
               value_lambda=learner["value_lambda"], root_value_share=learner["root_value_share"], lines=lines)


def played_games(source: Path, saved: dict[str, Any], count: int, seed: int) -> Iterator[GameRecord]:
    """Games of these weights, with the search and the openings of the run."""
    chosen = find_weights(Config(), "RUN", str(source))
    known = SelfPlayConfig.__dataclass_fields__
    self_play = SelfPlayConfig(**{key: value for key, value in saved["self_play"].items() if key in known})
    player = SelfPlay(chosen.game, search_of_run(saved, Config()), self_play,
                      evaluator_of(chosen.game, InferenceConfig(), chosen.weights, BATCH), games=BATCH, seed=seed,
                      identity=ActorIdentity(0))
    # Of each of the places the first games, whenever they end: the first to end would be the short ones.
    wanted, ended, found = -(-count // BATCH), Counter[str](), 0
    while found < wanted * BATCH:
        for game in player.step():
            place = game.open_id.rpartition(".")[0]
            ended[place] += 1
            if ended[place] <= wanted:
                found += 1
                yield game


def solved_positions(
    games: Sequence[GameRecord], count: int, seed: int, value_lambda: float, share: float
) -> Iterator[Solved]:
    """So many positions of each game that were searched and are learned from, drawn at random."""
    solver, draw = bitbully.BitBully(), random.Random(seed)
    for game in games:
        plies = [ply for ply in range(FIRST, len(game)) if game.row_weight[ply] > 0]
        returns = {value: lambda_returns(game, value) for value in {*LAMBDAS, value_lambda}}
        for ply in draw.sample(plies, min(count, len(plies))):
            scores = solver.score_all_moves(bitbully.Board([int(action) for action in game.actions[:ply]]))
            results = {column: (score > 0) - (score < 0) for column, score in scores.items()}
            best, sign = max(results.values()), 1 if ply % 2 == 0 else -1
            z = float(game.outcome * sign)
            first, last = game.policy_offsets[ply], game.policy_offsets[ply + 1]
            choice = int(game.policy_actions[first + np.argmax(game.policy_shares[first:last])])
            labels = {"z": z, "q": float(game.root_values[ply]), "network": float(game.raw_values[ply]),
                      "run": (1 - share) * z + share * returns[value_lambda][ply] * sign,
                      **{f"L{value:g}": float(returns[value][ply] * sign) for value in LAMBDAS}}
            yield Solved(ply, best, labels, len(set(results.values())) > 1, results[choice] == best,
                         results[int(game.actions[ply])] == best)


def lambda_returns(game: GameRecord, value_lambda: float) -> NDArray[np.float64]:
    """Of each position for the first player, [T], as in common/core/rows/row_labels.h (Sutton and Barto 2018, 12.1)."""
    returns, value = np.zeros(len(game)), float(game.outcome)
    for ply in reversed(range(len(game))):
        if game.kind[ply] != RowKind.OPENING:
            said = game.root_values[ply] * (1 if ply % 2 == 0 else -1)
            value += (1 - value_lambda) * (said - value)
        returns[ply] = value
    return returns


def summary(name: str, positions: Sequence[Solved]) -> dict[str, Any]:
    """Errors of the labels and shares of the moves, over these positions."""
    if not positions:
        return {"plies": name, "positions": 0}
    results = np.array([position.result for position in positions])
    errors = {label: np.square(results - [position.labels[label] for position in positions])
              for label in positions[0].labels}
    differ = [position for position in positions if position.is_open]
    kept = {"first_choice": [p.first_choice for p in differ], "played": [p.played for p in differ]}
    return {"plies": name, "positions": len(positions), "open": len(differ),
            "drawn": round(float(np.mean(results == 0)), 3),
            "errors": {label: [round(float(error.mean()), 4), round(float(error.std() / np.sqrt(len(error))), 4)]
                       for label, error in errors.items()},
            **{name: round(float(np.mean(which)), 4) if which else None for name, which in kept.items()}}


if __name__ == "__main__":
    main()
