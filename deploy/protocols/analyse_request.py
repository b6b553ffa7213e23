"""What one line of `shusaku analyse` asks for: JSON, checked field by field."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shusaku.common._core import Game, Position
from shusaku.common.config.search import DEFAULTS, GumbelConfig, SearchConfig, change_search, make_search
from shusaku.common.errors import UsageError
from shusaku.common.suggestions import nearest

MOST_SIMULATIONS = 1 << 20
LEAST_REPORT_S = 0.02  # between two reports of one position
ACTIONS = ("terminate", "terminate_all", "clear_cache", "version")
SETTINGS = (  # of the search that a request may change: those that have a meaning without self-play
    "c_puct", "c_puct_log", "c_puct_base", "fpu", "fpu_reduction", "root_fpu_reduction", "move_choice", "lcb_stdevs",
    "lcb_least_share", "proven_results",
)


class RequestError(ValueError):
    """A line that asks for nothing that can be done; `field` names where."""

    def __init__(self, field: str, text: str, identity: str | int | None = None) -> None:
        super().__init__(text)
        self.field, self.identity = field, identity


@dataclass(frozen=True)
class Control:
    """A request that searches nothing."""

    identity: str | int
    action: str  # one of ACTIONS
    target: str | int | None = None  # of terminate


@dataclass(frozen=True)
class Task:
    """One position to search."""

    identity: str | int
    ply: int  # moves that were played from the start of the request
    position: Position
    actions: tuple[int, ...]  # the only ones to search at the root; (): all
    simulations: int | None
    seconds: float | None
    report_every: float  # seconds; inf: only at the end
    priority: int  # the largest first
    search: SearchConfig
    most_moves: int  # that a report lists; 0: all with a visit
    policy: bool  # whether a report has the prior of every legal move
    ownership: bool


Check = Callable[[Any], bool]
_FIELDS: dict[str, tuple[Check, str]] = {
    "position": (lambda v: isinstance(v, str), "must be a position in the game's notation, as text"),
    "moves": (lambda v: _is_list(v, str), "must be a list of moves, as text"),
    "plies": (lambda v: v == "all" or (_is_list(v, int) and len(v) > 0),
              'must be "all", or a list of whole numbers of moves that were played'),
    "simulations": (lambda v: _is_whole(v) and 1 <= v <= MOST_SIMULATIONS,
                    f"must be a whole number from 1 to {MOST_SIMULATIONS}"),
    "seconds": (lambda v: _is_number(v) and 0 < v <= 86_400, "must be a number above 0 and at most 86400"),
    "report_every": (lambda v: _is_number(v) and LEAST_REPORT_S <= v <= 86_400,
                     f"must be a number of seconds from {LEAST_REPORT_S} to 86400"),
    "priority": (lambda v: _is_whole(v) and abs(v) <= 1 << 30, "must be a whole number"),
    "most_moves": (lambda v: _is_whole(v) and v >= 0, "must be a whole number from 0 on; 0: all"),
    "policy": (lambda v: isinstance(v, bool), "must be true or false"),
    "ownership": (lambda v: isinstance(v, bool), "must be true or false"),
    "allow": (lambda v: _is_list(v, str), "must be a list of moves, as text"),
    "avoid": (lambda v: _is_list(v, str), "must be a list of moves, as text"),
    "search": (lambda v: isinstance(v, dict), "must be an object of settings"),
}


def read_request(line: str, game: Game, search: SearchConfig, simulations: int) -> Control | list[Task]:
    """The request of a line; `search` and `simulations`: what holds unless it says otherwise.  RequestError."""
    tree = _parse(line)
    identity = tree.pop("id", None)
    if not isinstance(identity, str | int) or isinstance(identity, bool):
        raise RequestError("id", "id: must be there, a text or a whole number, and comes back with every answer")
    try:
        return _control(identity, tree) if "action" in tree else _tasks(identity, tree, game, search, simulations)
    except RequestError as error:
        error.identity = identity
        raise


def _parse(line: str) -> dict[str, Any]:
    try:
        tree = json.loads(line)
        json.dumps(tree, ensure_ascii=False).encode()  # half a character is no text
    except (ValueError, RecursionError) as error:
        raise RequestError("", f"the line is no JSON: {error}") from None
    if not isinstance(tree, dict):
        raise RequestError("", "the line must be a JSON object")
    return tree


def _control(identity: str | int, tree: dict[str, Any]) -> Control:
    action, target = tree.get("action"), tree.get("target")
    if action not in ACTIONS:
        raise RequestError("action", f"action={action!r}: must be one of {', '.join(ACTIONS)}")
    if action == "terminate" and (not isinstance(target, str | int) or isinstance(target, bool)):
        raise RequestError("target", "target: must be the id of the request to end")
    return Control(identity, action, target)


def _tasks(
    identity: str | int, tree: dict[str, Any], game: Game, search: SearchConfig, simulations: int
) -> list[Task]:
    for name, value in tree.items():
        if name not in _FIELDS:
            raise RequestError(name, f"there is no field {name[:40]!r}; nearest: {nearest(name[:40], _FIELDS)}; there "
                                     f"are id, action, {', '.join(_FIELDS)}")
        holds, text = _FIELDS[name]
        if not holds(value):
            raise RequestError(name, f"{name}={json.dumps(value)[:60]}: {text}")
    positions = _positions(game, tree)
    asked = tree.get("plies", [len(positions) - 1])
    seconds = tree.get("seconds")
    like = Task(
        identity, 0, positions[0], (), tree.get("simulations", simulations if seconds is None else None), seconds,
        tree.get("report_every", math.inf), tree.get("priority", 0), _changed(search, tree.get("search", {})),
        tree.get("most_moves", 0), tree.get("policy", False), tree.get("ownership", False),
    )
    plies = range(len(positions)) if asked == "all" else dict.fromkeys(asked)
    for ply in plies:
        if not 0 <= ply < len(positions):
            raise RequestError("plies", f"plies: {ply} is none of the plies 0 to {len(positions) - 1} of these moves")
    _check_avoided([positions[ply] for ply in plies], tree.get("avoid", ()))
    return [replace(like, ply=ply, position=positions[ply], actions=_actions(positions[ply], tree)) for ply in plies]


def _positions(game: Game, tree: Mapping[str, Any]) -> list[Position]:
    """After 0, 1, 2, … of the moves."""
    try:
        positions = [game.position(tree["position"]) if "position" in tree else game.start()]
    except ValueError as error:
        raise RequestError("position", f"position: {error}") from None
    for ply, move in enumerate(tree.get("moves", ())):
        position = positions[-1].copy()
        try:
            position.play(position.from_move(move))
        except ValueError as error:
            raise RequestError("moves", f"moves[{ply}]: {error}") from None
        positions.append(position)
    return positions


def _check_avoided(positions: Sequence[Position], moves: Sequence[str]) -> None:
    """Each of the moves has to be legal in one of the positions that are searched, not in all of them."""
    for move in moves:
        problems = [_problem(position, move) for position in positions if not position.is_terminal]
        if problems and all(problems):
            raise RequestError("avoid", f"avoid: {problems[-1]}")


def _problem(position: Position, move: str) -> str:
    """Why the move is illegal; empty: it is legal."""
    try:
        position.from_move(move)
    except ValueError as error:
        return str(error)
    return ""


def _actions(position: Position, tree: Mapping[str, Any]) -> tuple[int, ...]:
    """What `allow` and `avoid` leave of the legal actions; (): all of them."""
    if position.is_terminal:
        return ()
    try:
        allowed = dict.fromkeys(position.from_move(move) for move in tree.get("allow", ()))
    except ValueError as error:
        raise RequestError("allow", f"allow: {error}") from None
    avoided = {position.from_move(move) for move in tree.get("avoid", ()) if not _problem(position, move)}
    legal = position.legal_actions
    left = [action for action in allowed or legal if action not in avoided]
    if not left:
        raise RequestError("avoid", "avoid: leaves no legal move to search")
    return () if len(left) == len(legal) else tuple(left)


def _changed(search: SearchConfig, settings: Mapping[str, Any]) -> SearchConfig:
    for name, value in settings.items():
        if name not in SETTINGS:
            raise RequestError("search", f"search.{name[:40]}: cannot be changed here; there are {', '.join(SETTINGS)}")
        is_right = _is_number(value) if isinstance(DEFAULTS[name], float) else type(value) is type(DEFAULTS[name])
        if not is_right:
            raise RequestError("search", f"search.{name}={json.dumps(value)[:40]}: must be of the kind of "
                                         f"{json.dumps(DEFAULTS[name])}")
    if settings and isinstance(search, GumbelConfig):  # for which `Analysis` searches as puct here
        search = make_search("puct", **vars(search))
    try:
        return change_search(search, settings, "search")
    except UsageError as error:
        raise RequestError("search", str(error)) from None


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= 1e300  # no NaN


def _is_list(value: Any, kind: type) -> bool:
    return isinstance(value, list) and all(isinstance(item, kind) and not isinstance(item, bool) for item in value)

