"""Dirichlet's alpha where the configuration leaves it to the game (`search.dirichlet_alpha=0`)."""

import numpy as np

from shusaku.common._core import Game

PUBLISHED = {"chess": 0.3, "shogi": 0.15}  # Silver et al. 2018, Methods
GO = 0.03 * 19 * 19  # over all points: 0.03 on 19 x 19
NOISE = 10.0  # over all legal moves of a typical position: what the published values amount to
POSITIONS = 300  # of random games, which tell how many legal moves a position has


def alpha_of(game: Game) -> float:
    """AlphaZero's alpha of this game: in inverse proportion to the number of legal moves in a typical position.

    The published value if there is one, for Go in proportion to the points; else 10 over the mean number of legal moves
    in random games, in three digits.
    """
    if game.name == "go":
        height, width = game.observation_shape[1:]
        return float(f"{GO / (height * width):.3g}")
    return PUBLISHED.get(game.name) or float(f"{NOISE / _mean_legal_actions(game):.3g}")


def _mean_legal_actions(game: Game) -> float:
    random = np.random.default_rng(1)
    counts: list[int] = []
    while len(counts) < POSITIONS:
        position = game.start()
        while not position.is_terminal:
            actions = position.legal_actions
            counts.append(len(actions))
            position.play(int(random.choice(actions)))
    return float(np.mean(counts))
