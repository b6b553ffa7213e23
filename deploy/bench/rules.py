"""`shusaku bench rules`: random games to their end, on one thread; OpenSpiel's beside them if it is installed."""

import importlib.util
import random
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from shusaku.common._core import Game, random_games, timings
from shusaku.common.config.schema import Config
from shusaku.common.external.configured_game import configured_game

ROUNDS = 5  # in which ours and OpenSpiel's take turns, so that both meet the same machine
OPEN_SPIEL: dict[str, Callable[[dict[str, Any]], str]] = {  # our name -> OpenSpiel's game
    "connect_four": lambda _: "connect_four",
    "tic_tac_toe": lambda _: "tic_tac_toe",
    "go": lambda p: f"go(board_size={p['size']},komi={p['komi']})",
    "chess": lambda _: "chess",
    "shogi": lambda _: "shogi",
    "othello": lambda p: "othello" if p["size"] == 8 else "",
    "hex": lambda p: f"hex(board_size={p['size']})",
    "open_spiel": lambda p: str(p["name"]),
}


def measure_rules(config: Config) -> dict[str, Any]:
    """Medians of `ROUNDS` rounds: moves_per_s, OpenSpiel's beside it, and the nanoseconds of each part.

    Moves are uniform over the legal actions.  OpenSpiel plays wholly in C++, in its rollout evaluator, which does not
    say how many moves it made: its mean game length comes from games driven from Python.
    """
    game = configured_game(config.game)
    players: dict[str, Callable[[float, int], float]] = {"moves_per_s": _ours(game)}
    theirs = OPEN_SPIEL[game.name](game.params) if game.name in OPEN_SPIEL else ""
    if theirs and importlib.util.find_spec("pyspiel"):
        players["open_spiel_moves_per_s"] = _open_spiel(theirs)
    seconds = config.bench.seconds / (ROUNDS * len(players))
    rates: dict[str, list[float]] = {name: [] for name in players}
    for number in range(ROUNDS):
        for name, play in players.items():
            rates[name].append(play(seconds, number))
    result: dict[str, Any] = {"game": game.name, **{name: median(rate) for name, rate in rates.items()}}
    result["moves_per_s_of_rounds"] = rates["moves_per_s"]
    if "open_spiel_moves_per_s" in result:
        result["times_open_spiel"] = result["moves_per_s"] / result["open_spiel_moves_per_s"]
    return result | timings(game, 20, config.run.seed)


def _ours(game: Game) -> Callable[[float, int], float]:
    def play(seconds: float, seed: int) -> float:
        moves, some, begin = 0, 10, time.perf_counter()
        while (spent := time.perf_counter() - begin) < seconds:
            moves += random_games(game, some, seed * 1_000_000 + moves)
            some = min(1000, some * 2)
        return moves / spent

    return play


def _open_spiel(name: str) -> Callable[[float, int], float]:
    import pyspiel

    game = pyspiel.load_game(name)
    length = _mean_plies(game, 200)

    def play(seconds: float, seed: int) -> float:
        games, some, begin = 0, 4, time.perf_counter()
        while (spent := time.perf_counter() - begin) < seconds:
            rollouts = pyspiel.RandomRolloutEvaluator(n_rollouts=some, seed=seed + games)
            # One simulation from the first position: its evaluation is `some` games to their end.
            pyspiel.MCTSBot(game, rollouts, 1.4, 1, 10, False, 42, False).step(game.new_initial_state())
            games += some
            some = min(256, some * 2)
        return games * length / spent

    return play


def _mean_plies(game: Any, games: int) -> float:
    """The first move is the bot's own, so a rollout is a move shorter than a game."""
    generator = random.Random(1)
    plies = 0
    for _ in range(games):
        state = game.new_initial_state()
        while not state.is_terminal():
            state.apply_action(generator.choice(state.legal_actions()))
            plies += 1
    return plies / games - 1
