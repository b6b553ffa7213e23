"""A game of OpenSpiel behind the contract of docs/adding-a-game.md (Lanctot et al. 2019; the extra [open_spiel]).

It must be a game for two players in turn, without chance and hidden information, in which one wins what the other
loses.  The player who begins is our player 0 (in OpenSpiel's chess that is its player 1).

**Planes.**  OpenSpiel does not describe the numbers of its tensors, so random games with a fixed seed show them: a
plane that held only 0 and 1 is binary, one that held a single number everywhere on the board is uniform.  If some plane
is neither, or the tensor has one dimension, every number becomes a plane on a board of one cell.  Binary planes come
first.  The last plane is uniform and tells whose turn it is, which many tensors do not.  If a plane breaks its kind
later, an error names the way out, `game.planes=flat`: every number a uniform plane.
"""

import math
import random
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shusaku.common.codec import MAX_PLIES
from shusaku.common.errors import UsageError

PROBE_GAMES, PROBE_POSITIONS, PROBE_SEED = 200, 5000, 1
SPARE_ACTIONS = 64  # a position may have four times the most legal actions that were seen, and at least so many


def _pyspiel() -> Any:
    try:
        import pyspiel
    except ImportError as error:
        raise UsageError(f"game=open_spiel: OpenSpiel is not installed ({error}); install it with "
                         "`pip install 'shusaku[open_spiel]'`") from None
    return pyspiel


class OpenSpielGame:
    """One game of OpenSpiel; its states are OpenSpiel's own."""

    parameter_help = {  # noqa: RUF012 - read, never written
        "name": "as pyspiel.load_game takes it: breakthrough, or \"hex(board_size=5)\"",
        "planes": "auto: as random games show them | flat: every number a uniform plane of one cell",
        "max_plies": "a game that is not over after so many plies is a draw; 0: OpenSpiel's own bound",
        "max_legal_actions": "no position has more; 0: four times the most that random games have",
    }
    hints = {  # noqa: RUF012 - the ways out, should random games not have shown everything
        "observation": "set game.planes=flat",
        "legal_actions": "set game.max_legal_actions to more",
    }

    def __init__(self, name: str, planes: str = "auto", max_plies: int = 0, max_legal_actions: int = 0) -> None:
        if planes not in ("auto", "flat"):
            raise UsageError(f"game.planes={planes}: must be auto or flat")
        self._pyspiel = pyspiel = _pyspiel()
        self._name = name
        self._game = game = _load(pyspiel, name)
        _check_properties(pyspiel, name, game)
        self.num_actions = game.num_distinct_actions()
        self._limit = max_plies
        if not 0 <= max_plies <= MAX_PLIES:
            raise UsageError(f"game.max_plies={max_plies}: must lie in [0, {MAX_PLIES}]; 0 is OpenSpiel's own bound")
        self.max_plies = max_plies or game.max_game_length()
        if self.max_plies > MAX_PLIES:
            raise UsageError(f"game.name={name}: its games may take {self.max_plies:,} plies, and at most "
                             f"{MAX_PLIES:,} can be kept; set game.max_plies=500, say, and longer ones are draws")
        self._start = game.new_initial_state()
        self._first = self._start.current_player()  # OpenSpiel's number of our player 0
        self._has_points = (game.min_utility(), game.max_utility()) != (-1.0, 1.0)
        self._tensor, self._read = _reader(game)
        if not 0 <= max_legal_actions <= self.num_actions:
            raise UsageError(f"game.max_legal_actions={max_legal_actions}: must lie in [0, {self.num_actions}]")
        most = self._look(planes)
        self.max_legal_actions = max_legal_actions or min(self.num_actions, max(SPARE_ACTIONS, 4 * most))
        if max_plies == 0:  # OpenSpiel's own functions, without one of ours around them
            vars(self).update(is_terminal=pyspiel.State.is_terminal, legal_actions=pyspiel.State.legal_actions)
        self.play = pyspiel.State.child

    def start(self) -> Any:
        """The first state."""
        return self._start

    def is_terminal(self, state: Any) -> bool:
        """Whether the game is over, by its rules or by the limit on the plies."""
        return bool(state.is_terminal()) or self.is_cut_off(state)

    def legal_actions(self, state: Any) -> list[int]:
        """OpenSpiel's, ascending; none once the game is over."""
        return [] if self.is_cut_off(state) else list(state.legal_actions())

    def to_play(self, state: Any) -> int:
        """0 for the player who began, else 1; 0 once the game is over."""
        player: int = state.current_player()
        return 0 if player < 0 else player ^ self._first

    def is_cut_off(self, state: Any) -> bool:
        """Whether the limit on the plies has ended the game."""
        return 0 < self._limit <= state.move_number() and not state.is_terminal()

    def outcome(self, state: Any) -> int:
        """The sign of the utility for the player to move; `score` has its size."""
        return int(np.sign(self._utility(state)))

    def score(self, state: Any) -> float | None:
        """The utility for the player to move; None if it is only -1, 0 or 1."""
        return self._utility(state) if self._has_points else None

    def _utility(self, state: Any) -> float:
        if not state.is_terminal():
            return 0.0  # cut off
        return float(state.returns()[self.to_play(state) ^ self._first])

    def observation(self, state: Any) -> NDArray[np.float32]:
        """[C, H, W], in memory that the next call overwrites."""
        player = state.current_player()
        player = self._first if player < 0 else player
        self._read(state, player)
        tensor = self._tensor.reshape(-1, self._planes.shape[1] * self._planes.shape[2])
        np.take(tensor, self._order, axis=0, out=self._flat[:-1])
        self._flat[-1] = player ^ self._first
        return self._planes

    def to_move(self, state: Any, action: int) -> str:
        """OpenSpiel's text of the action, without blanks."""
        return "_".join(state.action_to_string(state.current_player(), action).split())

    def render(self, state: Any) -> str:
        """OpenSpiel's text of the state."""
        return str(state)

    def parse(self, text: str) -> Any:
        """As OpenSpiel's new_initial_state(text) takes it, such as FEN for chess."""
        try:
            state = self._game.new_initial_state(text)
        except Exception as error:
            reason = " ".join(str(error).split())[:200]
            raise ValueError(f"OpenSpiel sets up no {self._name} from '{text[:60]}': {reason}") from None
        if state.is_terminal() or state.current_player() < 0:
            raise ValueError(f"OpenSpiel's {self._name} from '{text[:60]}': no player is to move there")
        return state

    # --- the planes --------------------------------------------------------------------------------------------------

    def _look(self, planes: str) -> int:
        """Plays random games and decides on the planes; returns the most legal actions that a position had."""
        tensors, most = self._probe()
        shape = _board_shape(self._tensor_shape(), self.num_actions)
        kinds = _kinds(tensors.reshape(len(tensors), *shape)) if planes == "auto" else None
        if kinds is None:
            shape = (tensors.shape[1], 1, 1)
            kinds = _kinds(tensors.reshape(len(tensors), *shape))
            assert kinds is not None
            if planes == "flat":
                kinds = np.zeros_like(kinds)
        self._order = np.argsort(~kinds, kind="stable")  # binary planes first
        self.uniform_planes = int(np.count_nonzero(~kinds)) + 1
        self.observation_shape = (shape[0] + 1, shape[1], shape[2])
        self._planes = np.zeros(self.observation_shape, np.float32)
        self._flat = self._planes.reshape(shape[0] + 1, -1)
        return most

    def _tensor_shape(self) -> tuple[int, ...]:
        kind = self._game.get_type()
        shape = (self._game.observation_tensor_shape() if kind.provides_observation_tensor
                 else self._game.information_state_tensor_shape())
        return tuple(int(n) for n in shape)

    def _probe(self) -> tuple[NDArray[np.float32], int]:
        """Tensors of the positions of random games [N, size], and the most legal actions of one."""
        rng, most = random.Random(PROBE_SEED), 0
        tensors: list[NDArray[np.float32]] = []
        for _ in range(PROBE_GAMES):
            state = self._game.new_initial_state()
            for _ in range(self.max_plies):
                if state.is_terminal() or len(tensors) >= PROBE_POSITIONS:
                    break
                self._read(state, state.current_player())
                tensors.append(self._tensor.copy())
                legal = state.legal_actions()
                most = max(most, len(legal))
                state.apply_action(rng.choice(legal))
        return np.stack(tensors), most


def playable_names() -> list[str]:
    """OpenSpiel's names of the games that can be played here, judged by their types."""
    pyspiel = _pyspiel()
    return [
        kind.short_name for kind in pyspiel.registered_games()
        if kind.default_loadable and kind.min_num_players <= 2 <= kind.max_num_players
        and not list(_wrong_properties(pyspiel, kind))
    ]


def _load(pyspiel: Any, name: str) -> Any:
    short = name.partition("(")[0]
    names = pyspiel.registered_names()
    if short not in names:
        near = get_close_matches(short, playable_names(), 1, 0.0)[0]
        raise UsageError(f"game.name={name}: OpenSpiel has no such game; nearest: {near}; `shusaku games` lists those "
                         "that can be played here")
    try:
        given = pyspiel.game_parameters_from_string(name)
        known = next(k for k in pyspiel.registered_games() if k.short_name == short).parameter_specification
        unknown = [key for key in given if key not in known and key != "name"]
        if unknown:  # checked here, because OpenSpiel also prints its errors
            takes = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
            raise UsageError(f"game.name={name}: OpenSpiel's {short} has no parameter {unknown[0]}: {takes}")
        return pyspiel.load_game(name)
    except pyspiel.SpielError as error:
        raise UsageError(f"game.name={name}: OpenSpiel refuses it: {' '.join(str(error).split())[:200]}") from None


def _wrong_properties(pyspiel: Any, kind: Any) -> Any:
    """The properties of the game's type that do not fit, each with its name and value."""
    wanted = {
        "dynamics": (kind.dynamics, pyspiel.GameType.Dynamics.SEQUENTIAL, "the players must move in turn"),
        "chance_mode": (kind.chance_mode, pyspiel.GameType.ChanceMode.DETERMINISTIC, "there must be no chance"),
        "information": (kind.information, pyspiel.GameType.Information.PERFECT_INFORMATION,
                        "nothing may be hidden from a player"),
        "utility": (kind.utility, pyspiel.GameType.Utility.ZERO_SUM, "one must win what the other loses"),
    }
    for name, (value, right, rule) in wanted.items():
        if value != right:
            yield f"{name} is {value.name}, {rule} ({right.name})"
    if not (kind.provides_observation_tensor or kind.provides_information_state_tensor):
        yield "it has neither an observation tensor nor an information state tensor to learn from"


def _check_properties(pyspiel: Any, name: str, game: Any) -> None:
    wrong = list(_wrong_properties(pyspiel, game.get_type()))
    if game.num_players() != 2:
        wrong.insert(0, f"num_players is {game.num_players()}, there must be two players")
    if wrong:
        raise UsageError(f"game.name={name}: cannot be played here: {'; '.join(wrong)}; `shusaku games` lists those "
                         "that can")


def _reader(game: Any) -> tuple[NDArray[np.float32], Any]:
    """An array [size], and a function that writes a state's tensor into it, seen by a player (OpenSpiel's number)."""
    from open_spiel.python.observation import make_observation

    if game.get_type().provides_observation_tensor:
        observer = make_observation(game)
        return observer.tensor, observer.set_from
    tensor = np.zeros(math.prod(game.information_state_tensor_shape()), np.float32)

    def read(state: Any, player: int) -> None:
        tensor[:] = state.information_state_tensor(player)

    return tensor, read


def _board_shape(shape: tuple[int, ...], actions: int) -> tuple[int, int, int]:
    """OpenSpiel's shape as planes, rows and columns."""
    if len(shape) == 3:
        return shape[0], shape[1], shape[2]
    if len(shape) == 2:
        side = math.isqrt(shape[1])
        if shape[1] == actions == side * side:  # planes of a square whose cells are the actions: gomoku
            return shape[0], side, side
        return 1, shape[0], shape[1]
    return math.prod(shape), 1, 1


def _kinds(tensors: NDArray[np.float32]) -> NDArray[np.bool_] | None:
    """[N, C, H, W] -> of each plane whether it is binary; None if one is neither binary nor uniform."""
    binary: NDArray[np.bool_] = ((tensors == 0) | (tensors == 1)).all(axis=(0, 2, 3))
    uniform = (tensors == tensors[:, :, :1, :1]).all(axis=(0, 2, 3))
    return binary if (binary | uniform).all() else None
