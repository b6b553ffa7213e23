"""What an analysis is asked, and what it tells."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Limits:
    """How long a position is searched; without any limit until `Analysis.stop`."""

    simulations: int | None = None  # in all, those kept from before included
    seconds: float | None = None
    actions: tuple[int, ...] = ()  # searched at the root only; (): all legal ones
    to_the_end: bool = False  # spends the limits also if the best move cannot change any more
    processor_seconds: float | None = None  # of all threads together, with their networks on this processor
    full_report: bool = False  # with all that a tree knows, and not only the move that is to be played

    @property
    def has_clock(self) -> bool:
        """Whether a clock ends the search."""
        return self.seconds is not None or self.processor_seconds is not None


@dataclass(frozen=True)
class MoveReport:
    """One legal action of the root.  Values are in [-1, 1], for the player to move at the root."""

    action: int
    move: str  # the action as text, such as "e2e4"
    visits: int
    prior: float  # what the network says of it; the legal actions sum to 1
    value: float  # mean of the simulations; of the root as long as there are none
    lower_bound: float  # of the value, by its standard error (KataGo's LCB); -1 below three visits or if not known
    variation: tuple[int, ...]  # actions, begins with `action`; then the most visited ones
    variation_visits: tuple[int, ...] = ()  # of each of them


@dataclass(frozen=True)
class Report:
    """What is known of a position at one moment."""

    simulations: int  # in the tree, those kept from before included
    seconds: float  # since `start`
    value: float  # of the root, in [-1, 1], for the player to move
    moves: tuple[MoveReport, ...]  # best first; every legal action, also those without a visit
    score: float | None  # points for the player to move; None: the weights have no such head
    ownership: NDArray[np.float32] | None  # [H, W] in [-1, 1], 1: of the player to move; None: no such head
    ended: str  # "" while it runs, else simulations | time | stop | decided | proven | memory
    resigns: bool = False  # by the rule of the search, if it has one (alphago)
