"""What the network says of positions without a search: `kata-raw-nn`, and games that it plays to the end."""

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from shusaku.actors.evaluators.two_networks import answer_both
from shusaku.common._core import Game, Position
from shusaku.common.messages import Leaves
from shusaku.common.search import Evaluate
from shusaku.deploy.protocols.gtp.engine import Command, Engine
from shusaku.deploy.protocols.gtp.text import BLACK, expect_words, parse_count

PLAYOUT_TEMPERATURE = 0.5  # of the policy: sharper than it is, so that few blunders are sampled


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


def evaluate_positions(
    game: Game, positions: Sequence[Position], evaluate: Evaluate, symmetry: int = 0
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Values [B] for the player to move, and policies [B, A] (0: illegal), of positions as a symmetry shows them."""
    leaves, legal = _leaves(game, positions, symmetry)
    answer = answer_both(evaluate, leaves)
    policies = np.zeros((len(positions), game.num_actions), np.float32)
    for row, actions in enumerate(legal):
        logits = answer.logits[leaves.offsets[row] : leaves.offsets[row + 1]]
        odds = np.exp(logits - logits.max())
        policies[row, actions] = odds / odds.sum()
    return np.array(answer.values[: len(positions)]), policies


def _leaves(game: Game, positions: Sequence[Position], symmetry: int) -> tuple[Leaves, list[list[int]]]:
    """The leaves, and their legal actions without the symmetry, in the order in which the leaves have them."""
    planes = np.stack([position.observation(symmetry) for position in positions])  # [B, C, H, W]
    binary = planes.shape[1] - game.num_uniform_planes
    bits = planes[:, :binary].astype(bool).reshape(len(positions), -1)
    legal = [sorted(position.legal_actions, key=lambda action: game.permute_action(symmetry, action))
             for position in positions]
    turned = [game.permute_action(symmetry, action) for actions in legal for action in actions]
    offsets = np.cumsum([0, *map(len, legal)])
    leaves = Leaves(
        np.packbits(bits, axis=1, bitorder="little"), np.ascontiguousarray(planes[:, binary:, 0, 0]),
        offsets.astype(np.int32), np.array(turned, np.uint16),
    )
    return leaves, legal


def play_out(game: Game, position: Position, evaluate: Evaluate, games: int, seconds: float) -> NDArray[np.float32]:
    """The mean ownership [H, W] at the end of games that the policy plays from here, 1: black's.

    The same position gives the same games.  After `seconds` the boards count as they stand.
    """
    boards = [position.copy() for _ in range(games)]
    random = np.random.default_rng(0)
    end = time.monotonic() + seconds
    while (left := [board for board in boards if not board.is_terminal]) and time.monotonic() < end:
        _, policies = evaluate_positions(game, left, evaluate)
        for board, policy in zip(left, policies.astype(np.float64) ** (1 / PLAYOUT_TEMPERATURE), strict=True):
            board.play(int(random.choice(len(policy), p=policy / policy.sum())))
    signs = [1 if board.to_play == BLACK else -1 for board in boards]
    owned = [board.ownership * sign for board, sign in zip(boards, signs, strict=True)]
    mean: NDArray[np.float32] = np.mean(owned, axis=0, dtype=np.float32)
    return mean


def _describe(engine: Engine, position: Position, symmetry: int) -> str:
    """As KataGo writes it; what our network does not know is left out."""
    game = engine.state.game
    values, policies = evaluate_positions(game, [position], engine.evaluate, symmetry)
    white = -values[0] if position.to_play == BLACK else values[0]
    legal, cells = set(position.legal_actions), engine.state.size**2
    texts = [f"{policies[0, action]:8.6f}" if action in legal else "     NAN" for action in range(game.num_actions)]
    rows = [" ".join(texts[row : row + engine.state.size]) for row in range(0, cells, engine.state.size)]
    lines = [f"symmetry {symmetry}", f"whiteWin {(1 + white) / 2:.6f}", f"whiteLoss {(1 - white) / 2:.6f}",
             "noResult 0.000000", "policy", *rows]
    return "\n".join([*lines, *(f"policyPass {text.strip()}" for text in texts[cells:])])


OF_ALL_GAMES: dict[str, Command] = {"kata-raw-nn": raw_network}
