"""The messages between processes: plain dataclasses of numpy arrays, never changed once sent.

Letters of the shapes: B positions of a batch, T plies of a game, A actions of a game, C x H x W planes, U uniform
planes, N the legal actions of all positions of a batch laid end to end.  Bytes are made only in `common.codec` and
`common.leaves_codec`.
"""

import math
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

SCHEMA = 2  # of GameRecord in messages and files
SCHEMAS = (1, SCHEMA)  # that are read; in 1 the root values of Gumbel's search are means over its visits


@dataclass(frozen=True, slots=True)
class Leaves:
    """Positions that wait for the network, with a symmetry already applied to planes and actions alike.

    The arrays are views of buffers that the search owns: they are valid until its next `select()`.
    """

    packed: NDArray[np.uint8]  # [B, ceil(C*H*W / 8)] binary planes, bit i of byte j is cell 8j + i (little endian)
    uniform: NDArray[np.float32]  # [B, U] planes that hold one number each
    offsets: NDArray[np.int32]  # [B + 1] where the legal actions of each position begin in `actions`
    actions: NDArray[np.uint16]  # [N] legal actions

    def __len__(self) -> int:
        """Positions, B."""
        return len(self.packed)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The network's answer to `Leaves`, for the player to move."""

    logits: NDArray[np.float32]  # [N] of the legal actions, at the offsets of the leaves
    values: NDArray[np.float32]  # [B] in [-1, 1]
    version: int  # publication number of the weights that answered
    heads: dict[str, NDArray[np.float32]] = field(default_factory=dict)  # ownership [B, H, W], score [B] in points


Params = dict[str, int | float | str | bool]  # of a game


class RowKind(IntEnum):
    """How the move of a row was chosen."""

    OPENING = 0  # drawn without a search; weight 0
    FULL = 1  # a full search
    CHEAP = 2  # a search with fewer simulations; weight 0 unless asked for
    IMPORTED = 3  # of a game from a file: no search, the policy is the move itself and the values are the outcome


class EndedBy(StrEnum):
    """Why a game stopped."""

    RULES = "rules"
    RESIGNATION = "resignation"
    PLY_LIMIT = "ply_limit"


class GameId(NamedTuple):
    """Identifies a game: the driver's epoch, the actor, its incarnation, the number of the game in that incarnation."""

    epoch: int
    actor: int
    incarnation: int
    sequence: int


@dataclass(frozen=True, slots=True, eq=False)
class GameRecord:
    """One finished game: only facts, from which targets are derived later (KataGo: cpp/dataio/trainingwrite.h).

    Row t is the tuple (s, pi, z): s the position after the first t actions, pi the search policy there, z the
    outcome for the player to move there.

    In a game of policy gradient the rows of the policy that learns have weight 1, and pi is the move that was drawn;
    those of its opponent have weight 0, and `versions` tells the two apart.
    """

    game: str
    params: Params  # of this game: its komi may be its own, the rest is the run's
    game_id: GameId
    config_hash: str
    outcome: int  # for the FIRST player: -1, 0 or 1
    score: float  # for the first player, in points; NaN if the game has none
    ended_by: EndedBy
    actions: NDArray[np.uint16]  # [T]
    policy_offsets: NDArray[np.uint32]  # [T + 1] into the next two columns; equal neighbours: no policy
    policy_actions: NDArray[np.uint16]  # [N] legal at their row, ascending
    policy_shares: NDArray[np.uint16]  # [N] of 65,535, summing to it in every row that has a policy
    root_values: NDArray[np.float32]  # [T] of the search, for the player to move; see SCHEMAS
    raw_values: NDArray[np.float32]  # [T] of the network, for the player to move
    versions: NDArray[np.uint32]  # [T] weights that evaluated the root; of a kept subtree: when its search began
    kind: NDArray[np.uint8]  # [T] RowKind
    row_weight: NDArray[np.float32]  # [T] 0: the row is never sampled
    surprise: NDArray[np.float32]  # [T] KL(policy || prior) at the root
    schema: int = SCHEMA
    open_id: str = ""  # named the game while it was open, see OpenGame; is not encoded

    def __len__(self) -> int:
        """Plies, T."""
        return len(self.actions)

    @property
    def num_rows(self) -> int:
        """Positions as windows, limiters and rates count them: rows with weight > 0."""
        return int(np.count_nonzero(self.row_weight > 0))


def with_planes(params: Params, ours: Params) -> Params:
    """`params` with our planes where they name none: those are no rule, and a game may have had no choice of them."""
    return {**params, "planes": ours["planes"]} if "planes" in ours and "planes" not in params else params


def without_planes(params: Params) -> Params:
    """The rules alone: how a network sees a game changes none."""
    return {name: value for name, value in params.items() if name != "planes"}


def own_komi(params: Params, ours: Params) -> float:
    """The komi of a game with these parameters, if it is not ours; otherwise NaN."""
    komi = params.get("komi")
    return math.nan if komi is None or komi == ours.get("komi") else float(komi)


@dataclass(frozen=True, slots=True)
class OpenGame:
    """A game that goes on: all that its actor's successor needs, apart from the running search.

    Its name never changes, also when a successor goes on with it, and no other game of the actor index has it:
    `epoch.incarnation.index.number` of the actor that began it and of the place in which it was begun there.
    """

    open_id: str
    record: GameRecord  # the moves up to now, as if the ply limit had ended the game in a draw
    policy_plies: int = 0  # still to be sampled from the network's policy
    avoided: int = -1  # the action that the first of them must not repeat; -1: none
    may_resign: bool = False


@dataclass(frozen=True, slots=True)
class Control:
    """The replay's reply to an append, which controls a self-play actor."""

    throttle: bool = False  # pause the games where they stand
    stop: bool = False
    version: int = 0  # newest published
    epoch: int = 0
    actors: int = 0  # desired number; 0: as configured


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """One publication of the network: the averaged parameters that every evaluator uses."""

    version: int  # publication number, strictly increasing in a run directory
    step: int  # gradient steps behind it
    tensors: dict[str, NDArray[np.float32]]  # state_dict of `common.network.Network`, batch norms not folded
    network: dict[str, int | str]  # fields of NetworkConfig
    game: str
    params: dict[str, int | float | str | bool]
    sha256: str = ""  # of the safetensors file, if the weights were read from one or written to one
    scales: dict[str, float] = field(default_factory=dict)  # of 8 bits: layer -> largest input (learner.quantisation)
    rejected: str = ""  # why there are no scales although 8 bits were asked for
    planes: str = ""  # common.network.fingerprint of the game that they were trained for; empty: of an older program
    about: dict[str, str] = field(default_factory=dict)  # what its maker says: training, strength, licence


@dataclass(frozen=True, slots=True)
class Metrics:
    """Metrics of one moment."""

    step: int  # gradient steps
    seconds: float  # training time of the run, summed over resumes
    source: str  # self_play, learner, replay, strength
    values: dict[str, Any] = field(default_factory=dict)
