"""Which stones are dead at the end of a game of Go, and the score: by the ownership head, or by playing on.

Without such a head the policy plays some games to their end, in which the dead are captured; a chain whose points
mostly belong to the other colour then is dead.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from shusaku.actors.analysis.analysis import OWNERSHIP_SIMULATIONS
from shusaku.actors.analysis.report import Limits
from shusaku.common._core import Position
from shusaku.deploy.protocols.gtp.engine import Command, Engine, Owners, format_score
from shusaku.deploy.protocols.gtp.game_state import GameState
from shusaku.deploy.protocols.gtp.raw_network import play_out
from shusaku.deploy.protocols.gtp.text import BLACK, CommandError, expect_words

OWNED = 0.5  # above which a point counts as owned
PLAYOUTS = 16
PLAYOUT_SECONDS = 10.0
STATES = ("alive", "dead", "seki")


def final_score(engine: Engine, words: Sequence[str]) -> str:
    """`B+3.5`, `W+0.5`, `0`; CommandError if a game other than Go is not over, or has no score."""
    expect_words(words, 0)
    state = engine.state
    if state.is_go:
        return format_score(float(find_owners(engine).sum()) - state.white_bonus)
    position = state.position
    if not position.is_terminal:
        raise CommandError("cannot score")
    points = position.score if state.game.name == "othello" else float(position.outcome)
    text = format_score(points if position.to_play == BLACK else -points)
    return text if state.game.name == "othello" else text[:2]  # hex has a winner only


def final_status_list(engine: Engine, words: Sequence[str]) -> str:
    """The stones of a state: a line for each chain."""
    expect_words(words, 1)
    if words[0] not in STATES:
        raise CommandError("invalid status")
    to_move = engine.state.game.start().to_move
    chains = [sorted(chain) for chain, status in chain_states(engine) if status == words[0]]
    return "\n".join(" ".join(to_move(cell) for cell in chain) for chain in chains)


def dead_stones(engine: Engine) -> list[int]:
    """The cells of all dead stones."""
    return [cell for chain, status in chain_states(engine) if status == "dead" for cell in chain]


def chain_states(engine: Engine) -> list[tuple[set[int], str]]:
    """Each chain of stones, and what it is.

    A living chain is in seki if none of its liberties, nor a dead stone beside it, is a point of its colour.
    """
    owners, cells, size = find_owners(engine), engine.state.cells, engine.state.size
    found = []
    for chain in chains(cells, size):
        colour = cells[min(chain)]
        sign = 1 if colour == BLACK else -1
        around = {cell for stone in chain for cell in neighbours(stone, size)} - chain
        if is_settled(engine):
            status = "alive"
        elif owners[list(chain)].sum() * sign < 0:
            status = "dead"
        elif any(cells[cell] != colour and owners[cell] == sign for cell in around):
            status = "alive"
        else:
            status = "seki"
        found.append((chain, status))
    return found


def is_settled(engine: Engine) -> bool:
    """Whether the game has ended and counts as it stands, with all its stones."""
    return engine.state.position.is_terminal and not engine.rules.friendly_pass


def find_owners(engine: Engine) -> Owners:
    """Whose point each one is at the end of the game; found once for each position."""
    key = engine.state.position.transposition_key, engine.rules.friendly_pass
    if engine.owners is None or engine.owners[0] != key:
        engine.owners = key, _find_owners(engine)
    return engine.owners[1]


def _find_owners(engine: Engine) -> Owners:
    state, position = engine.state, engine.state.position
    if is_settled(engine):
        return _area(position)
    engine.place(position.to_play)
    analysis = engine.analysis
    # Besides the simulations that are kept, whose ownership was asked for another root.
    analysis.start(Limits(analysis.report().simulations + OWNERSHIP_SIMULATIONS, to_the_end=True, full_report=True))
    analysis.wait()
    ownership = analysis.report().ownership
    if ownership is None:
        begin = state.set_up_again(position.to_play)  # with all plies up to the limit
        ownership = play_out(state.game, begin, engine.evaluate, PLAYOUTS, PLAYOUT_SECONDS)
    elif analysis.position.to_play != BLACK:
        ownership = -ownership
    return _of_estimate(ownership.reshape(-1), state)


def _of_estimate(ownership: NDArray[np.float32], state: GameState) -> Owners:
    """Empty points that are owned clearly, and chains by the mean of their stones."""
    owners = np.where(np.abs(ownership) > OWNED, np.sign(ownership), 0).astype(np.int8)
    for chain in chains(state.cells, state.size):
        members = list(chain)
        owners[members] = 1 if float(ownership[members].mean()) > 0 else -1
    return owners


def _area(position: Position) -> Owners:
    sign = 1 if position.to_play == BLACK else -1
    return (position.ownership.reshape(-1) * sign).astype(np.int8)


def chains(cells: Sequence[int | None], size: int) -> Iterator[set[int]]:
    """The stones of one colour that hang together."""
    left = {cell for cell, colour in enumerate(cells) if colour is not None}
    while left:
        open_cells = [left.pop()]
        chain = set(open_cells)
        while open_cells:
            cell = open_cells.pop()
            more = {beside for beside in neighbours(cell, size) if beside in left and cells[beside] == cells[cell]}
            left -= more
            chain |= more
            open_cells += more
        yield chain


def neighbours(cell: int, size: int) -> Iterator[int]:
    """The cells beside one."""
    row, column = divmod(cell, size)
    for r, c in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
        if 0 <= r < size and 0 <= c < size:
            yield r * size + c


OF_ALL_GAMES: dict[str, Command] = {"final_score": final_score}
OF_GO: dict[str, Command] = {"final_status_list": final_status_list}
