"""`kata-raw-nn`: what the network says of a position, without a search."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from shusaku.common._core import Game, Position
from shusaku.common.messages import Leaves
from shusaku.common.search import Evaluate
from shusaku.deploy.protocols.gtp.engine import Command, Engine
from shusaku.deploy.protocols.gtp.text import BLACK, expect_words, parse_count


def raw_network(engine: Engine, words: Sequence[str]) -> str:
    """For one symmetry, or `all`: win and loss of white, and the policy [H, W] from the top."""
    expect_words(words, 0, 1)
    game = engine.state.game
    if words and words[0].lower() == "all":
        symmetries = list(range(game.num_symmetries))
    else:
        symmetries = [parse_count(words[0], game.num_symmetries - 1) if words else 0]
    engine.place(engine.state.position.to_play)
    position = engine.analysis.position
    return "\n".join(_describe(engine, position, symmetry) for symmetry in symmetries)


def evaluate_position(
    game: Game, position: Position, evaluate: Evaluate, symmetry: int = 0
) -> tuple[float, NDArray[np.float32]]:
    """Value for the player to move, and policy [A] (0: illegal), of the position as a symmetry shows it."""
    legal = position.legal_actions
    planes = position.observation(symmetry)  # [C, H, W]
    binary = len(planes) - game.num_uniform_planes
    packed = np.packbits(planes[:binary].astype(bool).reshape(-1), bitorder="little")
    turned = sorted(game.permute_action(symmetry, action) for action in legal)
    leaves = Leaves(
        packed[None], planes[binary:, 0, 0][None].astype(np.float32), np.array([0, len(legal)], np.int32),
        np.array(turned, np.uint16),
    )
    answer = evaluate(leaves)
    odds = np.exp(answer.logits[: len(legal)] - answer.logits[: len(legal)].max())
    place = {action: index for index, action in enumerate(turned)}
    policy = np.zeros(game.num_actions, np.float32)
    for action in legal:
        policy[action] = odds[place[game.permute_action(symmetry, action)]] / odds.sum()
    return float(answer.values[0]), policy


def _describe(engine: Engine, position: Position, symmetry: int) -> str:
    """As KataGo writes it; what our network does not know is left out."""
    game = engine.state.game
    value, policy = evaluate_position(game, position, engine.evaluate, symmetry)
    white = -value if position.to_play == BLACK else value
    legal, cells = set(position.legal_actions), engine.state.size**2
    texts = [f"{policy[action]:8.6f}" if action in legal else "     NAN" for action in range(game.num_actions)]
    rows = [" ".join(texts[row : row + engine.state.size]) for row in range(0, cells, engine.state.size)]
    lines = [f"symmetry {symmetry}", f"whiteWin {(1 + white) / 2:.6f}", f"whiteLoss {(1 - white) / 2:.6f}",
             "noResult 0.000000", "policy", *rows]
    return "\n".join([*lines, *(f"policyPass {text.strip()}" for text in texts[cells:])])


OF_ALL_GAMES: dict[str, Command] = {"kata-raw-nn": raw_network}
