"""The C++ core: games, search, self-play and rows.  Arrays are numpy; values are for the player to move."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shusaku.common.messages import GameRecord

Param = int | float | str | bool

def game_names() -> list[str]: ...
def external_names() -> list[str]: ...  # names of Game, too: external games, see common/external/loader.py
def game_parameters(name: str) -> list[tuple[str, Param, str]]: ...  # name, default, one line of help

class Game:
    """Rules: all that does not change while a game is played.  ValueError on an unknown name or parameter."""

    def __init__(self, name: str, params: dict[str, Param] = ...) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def params(self) -> dict[str, Param]: ...  # all of them, defaults filled in
    @property
    def num_actions(self) -> int: ...
    @property
    def max_plies(self) -> int: ...
    @property
    def max_legal_actions(self) -> int: ...
    @property
    def observation_shape(self) -> tuple[int, int, int]: ...  # C, H, W; binary planes first, then uniform ones
    @property
    def num_uniform_planes(self) -> int: ...
    @property
    def packed_bytes(self) -> int: ...  # of the binary planes of one position
    @property
    def num_symmetries(self) -> int: ...  # symmetry 0 is the identity
    def start(self) -> Position: ...
    def position(self, text: str) -> Position: ...  # in the game's own notation; ValueError names what is wrong
    def arrange(self, text: str) -> Position: ...  # the same, of grids also what no game comes to: any stones, any turn
    def permute_action(self, symmetry: int, action: int) -> int: ...
    def permute_cell(self, symmetry: int, cell: int) -> int: ...  # where this cell of [H, W] lies in that view
    def expand_channels_last(
        self, packed: NDArray[np.uint8], uniform: NDArray[np.float32], out: NDArray[np.float32] | NDArray[np.uint16]
    ) -> None:
        """The same with the planes as the last axis: out [>= B, H, W, C], of float32, or uint16 for bf16."""
    def expand(self, packed: NDArray[np.uint8], uniform: NDArray[np.float32], out: NDArray[np.float32]) -> None:
        """[B, bytes], [B, U] -> out [>= B, C, H, W] float32; the GIL is released."""

class Position:
    """A state of play."""

    @property
    def to_play(self) -> int: ...  # 0 moves first
    @property
    def ply(self) -> int: ...
    @property
    def is_terminal(self) -> bool: ...
    @property
    def outcome(self) -> int: ...  # -1, 0, 1 for the player to move; ValueError unless terminal
    @property
    def score(self) -> float: ...  # points, for the player to move; NaN: the game has none; ValueError unless terminal
    @property
    def is_cut_off(self) -> bool: ...  # terminal because of the limit on the plies
    @property
    def ownership(self) -> NDArray[np.int8]: ...  # [H, W] 1: the player to move, -1, 0; ValueError: the game has none
    @property
    def legal_actions(self) -> list[int]: ...  # ascending; empty iff terminal
    @property
    def evaluation_key(self) -> int: ...
    @property
    def transposition_key(self) -> int: ...
    def play(self, action: int) -> None: ...  # ValueError, position unchanged, when illegal
    def copy(self) -> Position: ...
    def observation(self, symmetry: int = 0) -> NDArray[np.float32]: ...  # [C, H, W]
    def to_move(self, action: int) -> str: ...
    def to_san(self, action: int) -> str: ...  # chess; ValueError: the game has no such notation
    def from_move(self, move: str) -> int: ...  # ValueError when malformed or illegal
    @property
    def text(self) -> str: ...  # what Game.position() reads; ValueError: the game does not write its positions

def perft(position: Position, depth: int) -> int: ...
def random_games(game: Game, games: int, seed: int) -> int: ...  # plies played, uniformly at random, to the end
def timings(game: Game, games: int, seed: int) -> dict[str, float]: ...  # copy_ns, observe_ns, legal_actions_ns, ...

class SearchOptions:
    """The settings of common.config.search by the same names, and `symmetries`; each must be set."""

    symmetries: bool  # sample a symmetry for every evaluation

    def __init__(self) -> None: ...
    def __getattr__(self, name: str) -> Any: ...
    def __setattr__(self, name: str, value: Param) -> None: ...

class SelfPlayOptions:
    """The fields of common.config.schema.SelfPlayConfig, by the same names; each must be set."""

    def __init__(self) -> None: ...
    def __getattr__(self, name: str) -> Any: ...
    def __setattr__(self, name: str, value: Param) -> None: ...

class SearchResult:
    """The result of a search."""

    action: int  # to play
    value: float  # of the root, for the player to move
    raw_value: float  # the network's value of the root
    actions: NDArray[np.uint16]  # [L] legal, ascending
    policy: NDArray[np.float32]  # [L] to learn; sums to 1
    visits: NDArray[np.int32]  # [L]
    q_values: NDArray[np.float32]  # [L] of the visited actions, NaN for the others
    prior: NDArray[np.float32]  # [L] the network's policy, without noise and temperature
    surprise: float  # KL(policy || prior)
    proven_value: float  # result of the root under best play, for the player to move; NaN if the tree proves none
    proven_values: NDArray[np.float32]  # [L] the same of the actions

class Rollouts:
    """Games played to their end from a position: by a rollout policy, or uniformly at random without a file."""

    def __init__(self, game: Game, file: str = "") -> None: ...  # ValueError: no such file of this game and board
    def play(self, position: Position, seed: int) -> tuple[float, NDArray[np.uint16]]: ...  # outcome, moves
    def count_plies(self, position: Position, rollouts: int, seed: int) -> int: ...  # of so many; the GIL is released
    def priors(self, position: Position) -> NDArray[np.float32]: ...  # [L] of the legal actions; sums to 1
    def candidates(self, position: Position) -> tuple[NDArray[np.uint16], NDArray[np.uint32], NDArray[np.uint64]]:
        """The moves that a rollout may choose [K], offsets [K + 1] and keys of their features."""

class RolloutTraining:
    """A rollout policy learned from games; ValueError if the game has none."""

    def __init__(self, game: Game) -> None: ...
    def add(  # ValueError on an illegal move
        self, moves: NDArray[np.uint16], weights: NDArray[np.float32], unseen: bool = False  # 0: not learned from
    ) -> None: ...
    def begin(self, least_seen: int) -> int: ...  # features seen so often get a weight; how many
    def learn(self, rate: float, seed: int) -> dict[str, float]: ...  # one pass: positions, others, loss, top1, top5
    def measure(self) -> dict[str, float]: ...  # the same on unseen games
    def file(self, note: str) -> bytes: ...  # of the policy; `note`: one line

def describe_rollout(data: bytes) -> dict[str, Any]: ...  # game, board, note, keys, weights; ValueError: no such file

LeafArrays = tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.int32], NDArray[np.uint16]]

class SearchBatch:
    """A batch of `size` searches, cut at the network: select, evaluate outside, expand_and_backup."""

    def __init__(self, game: Game, options: SearchOptions, size: int, seed: int) -> None: ...
    def begin(self, index: int, position: Position, seed: int) -> None: ...  # a new search of this position
    def select(self, version: int) -> LeafArrays: ...  # packed [B, bytes], uniform [B, U], offsets [B + 1], actions [N]
    def expand_and_backup(self, logits: NDArray[np.float32], values: NDArray[np.float32], version: int) -> None: ...
    def is_done(self) -> bool: ...  # every begun search has had its simulations
    def result(self, index: int) -> SearchResult: ...
    def result_so_far(self, index: int) -> SearchResult: ...  # no actions before the root has its evaluation
    def variation(self, index: int, edge: int) -> list[int]: ...  # most visited moves along this action of the root
    def counters(self) -> dict[str, int]: ...  # simulations, searches, evaluations, cache_hits, terminals

class AnalysisLimits:
    """What ends a search of AnalysisSearch."""

    simulations: int  # in all, those in the tree included; -1: any number
    seconds: float  # -1: any time
    processor_seconds: float  # of all threads together; -1: any
    actions: list[int]  # searched at the root; all if empty
    to_the_end: bool  # also if the best move cannot change any more
    def __init__(self) -> None: ...

class AnalysisReport:
    """What AnalysisSearch knows at one moment; values are for the player to move at the root."""

    simulations: int  # in the tree
    seconds: float
    value: float
    score: float  # in points; NaN: no evaluation had one
    ownership: list[float]  # [H * W]; empty: no evaluation had one
    ended: str  # empty while a thread searches
    actions: list[int]  # [L] legal, ascending
    moves: list[str]  # [L] the same as text
    order: list[int]  # [L] indices of them, best first
    visits: list[int]  # [L]
    priors: list[float]  # [L]
    values: list[float]  # [L] of the root if unvisited
    lower_bounds: list[float]  # [L] -1 below three visits
    variations: list[list[int]]  # [L] actions
    variation_visits: list[list[int]]
    resigns: bool  # alphago: by search.resign_below

class AnalysisSearch:
    """One position, searched by several threads on one tree; report() and stop() come from any thread."""

    def __init__(
        self, game: Game, options: SearchOptions, threads: int, leaves: int, megabytes: int, seed: int
    ) -> None: ...
    def set_position(self, position: Position) -> None: ...  # keeps the subtree if it lies below the present one
    def advance(self, action: int) -> None: ...  # legal; keeps the subtree
    def clear(self) -> None: ...  # forgets tree and cache
    def start(self, limits: AnalysisLimits) -> None: ...
    def stop(self) -> None: ...  # returns at once
    def select(self, thread: int, most: int, version: int) -> LeafArrays: ...  # none: this thread has ended
    def add_heads(  # ownership [B, H, W] and score [B] of the leaves, before expand_and_backup()
        self, thread: int, ownership: NDArray[np.float32] | None, score: NDArray[np.float32] | None
    ) -> None: ...
    def expand_and_backup(
        self, thread: int, logits: NDArray[np.float32], values: NDArray[np.float32], version: int
    ) -> None: ...
    def abandon(self, thread: int) -> None: ...  # instead of all further calls of this thread: the search ends
    def report(self) -> AnalysisReport: ...
    def is_running(self) -> bool: ...
    def most_in_flight(self) -> int: ...  # leaves that waited at once since start()
    def bytes(self) -> int: ...  # of the tree
    def has_virtual_loss(self) -> bool: ...  # alphago: any left; never once the search has ended

class GameBatch:
    """A batch of `size` parallel games of self-play; the k-th game with index i depends on (seed, i, k) alone.

    With resignation, the threshold comes from all games, so they depend on each other.
    """

    def __init__(
        self, game: Game, options: SearchOptions, size: int, seed: int, self_play: SelfPlayOptions
    ) -> None: ...
    def select(self, version: int) -> LeafArrays: ...  # of the weights: a key of cache and symmetry
    def expand_and_backup(self, logits: NDArray[np.float32], values: NDArray[np.float32], version: int) -> None: ...
    def take_finished(self) -> list[dict[str, Any]]: ...  # columns of common.messages.GameRecord, in order of finishing
    @staticmethod
    def for_value_network(
        game: Game, options: SearchOptions, size: int, seed: int, *, max_leaves: int, last_switch: int,
        temperature: float, learns_all: bool,
    ) -> GameBatch:
        """Games of two policies, see common/core/search/value_games.h; a select() has up to `max_leaves` leaves."""
    def choose_network(self) -> int: ...  # before select(): the one that is to answer it; games of self-play: 0
    def attach(
        self, inputs: NDArray[Any], policy: NDArray[np.float32], values: NDArray[np.float32], network: int = 0
    ) -> None: ...
    # the arrays of a network that takes S positions, no fewer than a select() has leaves: inputs [S, H, W, C] float32,
    #   or bf16 in uint16; policy [S, A]; values [S]
    def select_attached(self, version: int) -> int: ...  # select() without its arrays: the number of leaves
    def encode_attached(self) -> None: ...  # the leaves into `inputs`
    def expand_attached(self, version: int) -> int: ...  # from `policy` and `values`; how many finished games wait
    @property
    def resign_value(self) -> float: ...  # a player who sees less resigns; -1 until enough games have ended
    def begin_with_resign_value(self, value: float) -> None: ...  # of a run that was stopped, until enough have ended
    def counters(self) -> dict[str, int]: ...  # as above, and games, plies, discarded
    def snapshot(self) -> bytes: ...  # every open game with its search
    def play_pseudo_random(self, simulations: int) -> None: ...  # a benchmark: no Python in its loop
    def restore(self, snapshot: bytes) -> None: ...  # ValueError unless of the same game, options and size
    def open_game(self, index: int) -> dict[str, Any]: ...  # columns so far; policy_plies, avoided, may_resign
    # The moves of `record` replace the game with this index, whose search begins anew; ValueError unless they are legal
    def resume(
        self, index: int, record: GameRecord, *, komi: float = ..., policy_plies: int = ..., avoided: int = ...,
        may_resign: bool = ...,
    ) -> None: ...

def gather_logits(
    policy: NDArray[np.float32], offsets: NDArray[np.int32], actions: NDArray[np.uint16], out: NDArray[np.float32]
) -> None: ...  # policy [>= B, A], offsets [B + 1], actions [N] -> out [>= N]
def pseudo_random_evaluate(
    packed: NDArray[np.uint8],
    uniform: NDArray[np.float32],
    offsets: NDArray[np.int32],
    actions: NDArray[np.uint16],
    logits: NDArray[np.float32],
    values: NDArray[np.float32],
) -> None: ...  # a hash of position and action; writes logits [>= N], values [>= B]

class RequestRules:
    """The bytes of requests for one game, and all that a request is checked against: serving/request_layout.h."""

    def __init__(self, game: Game, crc: int, max_bytes: int) -> None: ...
    @property
    def max_bytes(self) -> int: ...  # of a request; one position with all its actions always fits
    def size(self, rows: int, actions: int) -> int: ...  # bytes of a request
    def encode(
        self,
        packed: NDArray[np.uint8],
        uniform: NDArray[np.float32],
        offsets: NDArray[np.int32],
        actions: NDArray[np.uint16],
    ) -> bytes: ...  # ValueError for the leaves of another game, or too many
    def decode(
        self, data: bytes
    ) -> tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.int32], NDArray[np.uint16]]:
        """Packed planes, uniform planes, offsets, actions in new arrays; ValueError with the reason."""

def decode_answer(
    data: bytes, rows: int, actions: int
) -> tuple[NDArray[np.float32], int]: ...  # values [rows] and logits [actions] end to end; version.  ValueError

class FireRule:
    """When an inference server runs a batch: full, no more can come, or the deadline: serving/fire_rule.h."""

    def __init__(self, largest: int, deadline_s: float) -> None: ...  # positions of a full batch
    def seconds_left(
        self, positions: int, able: int, prompt: int, waited: float, busy_s: float = 0.0
    ) -> float: ...
    def is_missed(self, positions: int, prompt: int, waited: float) -> bool: ...

class LiveClients:
    """Clients with a request in the last `seconds`, or one in flight; which can send another one; which are late."""

    def __init__(self, seconds: float) -> None: ...
    def record_request(self, client: int, now: float) -> None: ...
    def record_answer(self, client: int, now: float) -> None: ...
    def count(self, now: float) -> int: ...
    def record_deadline(self) -> None: ...
    def able(self, now: float) -> int: ...
    def prompt(self, now: float) -> int: ...

class BatchInputs:
    """Arrays that batches are laid into; `places` [N], row x num_actions + action, if they are wanted."""

    def __init__(
        self,
        packed: NDArray[np.uint8],
        uniform: NDArray[np.float32],
        offsets: NDArray[np.int32],
        actions: NDArray[np.uint16],
        places: NDArray[np.int32] | None = None,
    ) -> None: ...
    @property
    def rows(self) -> int: ...

class RequestBatch:
    """Requests that are evaluated together."""

    @property
    def rows(self) -> int: ...
    @property
    def actions(self) -> int: ...
    @property
    def began_at(self) -> float: ...  # time.monotonic() when its first request left the queue

class RequestQueue:
    """The requests of many clients; one thread lays them into batches and answers them: serving/request_queue.h."""

    def __init__(self, rules: RequestRules, rule: FireRule, max_waiting: int, live_seconds: float) -> None: ...
    def infer(self, client: int, payload: bytes, timeout: float) -> tuple[int, bytes]:
        """Waits for the outcome of a request, and the answer or the reason; outcome 0: none in time."""
    def gather(
        self, inputs: BatchInputs, takes: bool, has_room: bool, busy_until: float, until: float
    ) -> tuple[RequestBatch, tuple[NDArray[np.generic], ...]] | None:
        """A batch that should run now and its leaves, which lie in `inputs`; None after `wake`, `close` or at `until`.

        `takes`: False as long as there are no weights; `has_room`: the device takes another batch, else only a full one
        is laid; `busy_until`: when the device is free, as time.monotonic().
        """
    def answer(
        self, batch: RequestBatch, logits: NDArray[np.float32], values: NDArray[np.float32], version: int
    ) -> None: ...  # ValueError for a wrong shape
    def fail(self, batch: RequestBatch, why: str) -> None: ...
    def set_largest(self, rows: int) -> None: ...
    def wake(self) -> None: ...
    def close(self, why: str) -> None: ...
    @property
    def waiting(self) -> int: ...  # requests in the queue
    @property
    def clients(self) -> int: ...  # live ones
    def counters(self) -> tuple[dict[str, int], NDArray[np.float32]]:
        """Totals, and the seconds from arrival to answer of the newest 4,096 requests."""

class SharedTable:
    """Linux only: a table in shared memory with a row for each rank of a learner: ranks/shared_table.h."""

    def __init__(self, descriptor: int, rank: int, ranks: int, row_bytes: int) -> None:
        """Takes the descriptor over; RuntimeError if it is no such memory, or another process has this rank."""
    @staticmethod
    def file_bytes(ranks: int, row_bytes: int) -> int: ...
    def gather(self, own: NDArray[np.uint8], all: NDArray[np.uint8], seconds: float) -> None:
        """Own row [N] into the rows of all [ranks, N], in their order; the GIL is released.

        RuntimeError if a rank has ended, or does not come in time.
        """
    def sum(self, values: NDArray[np.float32] | NDArray[np.float64], seconds: float) -> None:
        """As `gather`, the sum of all rows [N] in the place of the own one: the same bits on all ranks."""

TowerSizes = tuple[int, int, int, int, int, int, int, int, int, bool]
"""Planes, height, width, actions, filters, blocks, policy_filters, value_filters, value_hidden, is_policy_by_cell."""

class Int8Tower:
    """A small residual tower whose 3x3 convolutions are of 8 bits: network/int8_tower.h.  One thread at a time."""

    @staticmethod
    def make(way: str, sizes: TowerSizes) -> Int8Tower | None:
        """Without weights; None where there are no loops for so many filters, or `way` is not one of `int8_ways`.

        ValueError for a size below 1.
        """
    def set_stem(self, weights: NDArray[np.float32], bias: NDArray[np.float32], steps: float) -> None:
        """[F, C, 3, 3], [F], and steps of 8 bits a unit of its output.  ValueError for other sizes, as all of these."""
    def set_layer(
        self, layer: int, weights: NDArray[np.int8], slope: NDArray[np.float32], shift: NDArray[np.float32],
        steps: float,
    ) -> None:
        """[F, F, 3, 3], and [F] that make a number of a sum.

        `steps` is 0 for a block's first layer, whose slope and shift have them.
        """
    def set_policy(
        self, features: NDArray[np.float32], features_bias: NDArray[np.float32], output: NDArray[np.float32],
        output_bias: NDArray[np.float32],
    ) -> None:
        """[P, F, 1, 1], [P], [A, P * H * W] and [A]; by cell [K, P] and [K]."""
    def set_value(
        self, features: NDArray[np.float32], features_bias: NDArray[np.float32], hidden: NDArray[np.float32],
        hidden_bias: NDArray[np.float32], output: NDArray[np.float32], output_bias: NDArray[np.float32],
    ) -> None:
        """[V, F, 1, 1], [V], [N, V * H * W], [N], [1, N] and [1]."""
    def run(
        self, planes: NDArray[np.uint16], rows: int, logits: NDArray[np.float32], values: NDArray[np.float32]
    ) -> None:
        """The first rows of planes [S, H, W, C] in bf16 -> logits [S, A] and values [S]; the GIL is released."""

class FloatTower:
    """A small residual tower of floats: network/float_tower.h.  One thread at a time."""

    def __init__(self, sizes: TowerSizes) -> None:
        """Without weights; ValueError for a size below 1, and unless the filters are a multiple of 16."""
    def set_layer(self, layer: int, weights: NDArray[np.float32], bias: NDArray[np.float32]) -> None:
        """[F, C, 3, 3] of layer 0, [F, F, 3, 3] of the others, and [F]; ValueError for other sizes, as all of these."""
    def set_policy(
        self, features: NDArray[np.float32], features_bias: NDArray[np.float32], output: NDArray[np.float32],
        output_bias: NDArray[np.float32],
    ) -> None:
        """[P, F, 1, 1], [P], [A, P * H * W] and [A]; by cell [K, P] and [K]."""
    def set_value(
        self, features: NDArray[np.float32], features_bias: NDArray[np.float32], hidden: NDArray[np.float32],
        hidden_bias: NDArray[np.float32], output: NDArray[np.float32], output_bias: NDArray[np.float32],
    ) -> None:
        """[V, F, 1, 1], [V], [N, V * H * W], [N], [1, N] and [1]."""
    def set_ownership(self, weights: NDArray[np.float32], bias: NDArray[np.float32]) -> None:
        """[1, F, 1, 1] and [1]; the tower has such a head from now on."""
    def set_score(
        self, features: NDArray[np.float32], features_bias: NDArray[np.float32], hidden: NDArray[np.float32],
        hidden_bias: NDArray[np.float32], output: NDArray[np.float32], output_bias: NDArray[np.float32],
    ) -> None:
        """As `set_value`; the tower has such a head from now on."""
    def run(
        self, planes: NDArray[np.float32], rows: int, logits: NDArray[np.float32], values: NDArray[np.float32],
        ownership: NDArray[np.float32] | None = None, scores: NDArray[np.float32] | None = None,
    ) -> None:
        """The first rows of planes [S, H, W, C] -> logits [S, A], values [S], ownership [S, H, W] and scores [S].

        Scores are not scaled.  The GIL is released.
        """

def int8_ways() -> list[str]:
    """How this processor can convolve numbers of 8 bits, the fastest way first: amx | vnni."""

def convolution_ways(is_bf16: bool) -> list[str]:
    """How this processor can convolve such numbers, the fastest way first: amx | winograd_16 | winograd_8."""

def convolution_forward(
    is_bf16: bool, sizes: tuple[int, int, int, int, int, int], x: int, kernels: int, strides: tuple[int, int, int],
    y: int, way: str,
) -> None:
    """Computes y, the 3x3 convolution of x: network/winograd_convolution.h, network/amx_convolution.h.

    `sizes`: boards, height, width, inputs, outputs, threads.  At these addresses x and y are [boards, height, width,
    inputs] and [..., outputs] of bf16 or float, and the kernels, of float, lie by strides of output, input and tap.
    `way`: of `convolution_ways`.  The GIL is released.
    """

def convolution_backward(
    is_bf16: bool, sizes: tuple[int, int, int, int, int, int], y_gradient: int, x: int, kernels: int,
    strides: tuple[int, int, int], adds: bool, x_gradient: int, kernel_gradients: int,
    gradient_strides: tuple[int, int, int], way: str,
) -> None:
    """Computes the gradients of x and of the kernels from that of y, in the same shapes; `x_gradient` may be 0.

    `adds`: the gradient of x is added to what is there.
    """

def norm_relu_fits(is_bf16: bool, rows: int, channels: int) -> bool:
    """Whether the next two take so many rows of so many channels: network/norm_relu.h."""

def norm_relu_forward(
    is_bf16: bool, rows: int, channels: int, threads: int, x: int, skip: int, weight: int, bias: int,
    running_mean: int, running_variance: int, momentum: float, epsilon: float, y: int, mean: int, scale: int,
) -> None:
    """Computes y = ReLU(norm(x) + skip).

    At these addresses x, skip and y are [rows, channels] of bf16 or float, the others [channels] of float.
    mean and scale are for the way back; `skip` may be 0.  The GIL is released.
    """

def norm_relu_backward(
    is_bf16: bool, rows: int, channels: int, threads: int, gradient: int, y: int, x: int, weight: int, mean: int,
    scale: int, x_gradient: int, skip_gradient: int, weight_gradient: int, bias_gradient: int,
) -> None:
    """From the gradient of y to the others; `skip_gradient` may be 0.  The GIL is released."""

class RequestPort:
    """Serves clients whose requests come through sockets; Linux only: serving/request_port.h."""

    def __init__(self, queue: RequestQueue) -> None: ...
    def attach_memory(self, socket: int, memory: int, slots: int, slot_bytes: int, client: int) -> None:
        """Serves a client of this host after its handshake; takes both descriptors over.  RuntimeError if it cannot."""
    def attach_tcp(self, socket: int, client: int) -> None:
        """Serves a client of another host after its handshake; takes the descriptor over, as above."""
    def run(self) -> None: ...  # until `end`
    def end(self) -> None: ...
    @property
    def connections(self) -> int: ...

class RowRing:
    """The newest `capacity` rows, packed or as moves; rows are numbered 0, 1, 2, … for ever."""

    def __init__(
        self,
        game: Game,
        capacity: int,
        *,
        horizons: Sequence[float] = ...,
        blunder_gap: float = 0.0,
        blunder_width: float = 0.0,
        ownership: bool = False,
        score: bool = False,
        reply: bool = False,
        policy_surprise: float = 0.0,
        value_surprise: float = 0.0,
        value_lambda: float = 0.0,
        is_cut_searched: bool = False,
        solved_empties: int = 0,
        solved_policies: bool = False,
        keeps_moves: bool = False,
    ) -> None:
        """Labels besides policy and outcome: see common.network.row_labels.RowLabels; the surprises: see ReplayConfig.

        `keeps_moves`: planes are made again when a row is sampled, from the moves of its game.

        ValueError when a number is out of its range, when `ownership` is set and the game has none, or when
        `solved_empties` is set and its board does not fill up.
        """
    @property
    def end(self) -> int: ...  # number of the next row; rows [max(0, end - capacity), end) are held
    @property
    def nbytes(self) -> int: ...
    def append(self, record: GameRecord, komi: float = ...) -> int:
        """Replays the game, checks it against the rules and keeps its rows of weight > 0; returns their number.

        `komi`: of this game; NaN, the default, that of the rules.  ValueError with the reason, and nothing kept, when
        an action is illegal, a policy is not on legal actions or does not sum to 65,535, a number is not finite,
        outcome or score is not the rules', or the game does not end as `ended_by` tells.
        """
    def sample(
        self, count: int, begin: int, end: int, seed: int, symmetries: bool, threads: int, packed: bool = False
    ) -> dict[str, Any]:
        """`count` rows of [begin, end), sampled by `seed` alone and ready for training; the GIL is released.

        observations [B, C, H, W], policy [B, A], outcome [B], root_values [B], weight [B], plies_left [B]: float32;
        versions [B] uint32, rows [B] int64.  If the ring was made with these labels, float32 too: short_term [B, K],
        ownership [B, H, W] and score [B] (NaN: not known), reply [B, A] (all 0: there is none).  With `packed` there
        are no observations but packed [B, packed bytes] uint8 and uniform [B, U] float32 as `Game.expand` takes them,
        and symmetry [B] uint8, which all else is under.
        """
