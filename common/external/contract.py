"""The contract of a game as checks: `shusaku games check` and the tests run them.

Random games are played with a fixed seed, and every rule is checked at every position.  Of a broken rule the first
violation is kept, with the actions and moves that lead there.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shusaku.common._core import Game, Position, external_names
from shusaku.common.errors import GameError

RULES = {
    "legal": "legal actions are ascending, in [0, num_actions), and at most max_legal_actions",
    "terminal": "a position is terminal exactly if no action is legal",
    "illegal": "an illegal action is refused and leaves the position as it is",
    "turns": "player 0 moves first, and to_play is 0 or 1",
    "moves": "the moves of a position differ, and each names its action",
    "copies": "playing on a copy leaves the position as it is",
    "replay": "the same actions lead to the same position again",
    "length": "a game ends within max_plies",
    "outcome": "the outcome is -1, 0 or 1, and only if the game is over",
    "observation": "the observation has its shape, finite numbers, and 0 and 1 in its binary planes",
    "symmetries": "the mirrored game is the same game: legal actions, observations and the end",
    "keys": "equal evaluation keys mean equal observations and equal legal actions",
    "states": "play makes a new state and leaves the one that it was given as it is",
    "adapter": "no method raises or returns what it must not",
}
SOME = 8  # illegal actions, and moves to read, that are tried in a position
KEYS_KEPT = 200_000


@dataclass
class Report:
    """The result of `check_game`."""

    games: int = 0
    plies: int = 0
    violations: dict[str, str] = field(default_factory=dict)  # rule -> its first violation
    unchecked: set[str] = field(default_factory=set)  # rules that were not checked

    @property
    def is_kept(self) -> bool:
        """Whether no rule is broken."""
        return not self.violations


def check_game(game: Game, games: int = 50, seed: int = 1, rules: Any = None) -> Report:
    """Plays random games and checks every rule; `rules` is the object behind an external game."""
    return _Checks(game, rules).run(games, seed)


class _Checks:
    def __init__(self, game: Game, rules: Any) -> None:
        self.game, self.rules = game, rules
        self.report = Report()
        self._actions: list[int] = []  # of the game that is played
        self._seen: dict[int, bytes] = {}  # evaluation key -> hash of what the network sees
        # Go's: player 1 moves first, and the stones leave fewer symmetries.  No game of a user has this exception.
        self._has_handicap = game.name not in external_names() and bool(game.params.get("handicap"))
        self._permuted = [
            [game.permute_action(symmetry, action) for action in range(game.num_actions)]
            for symmetry in range(game.num_symmetries)
        ]

    def run(self, games: int, seed: int) -> Report:
        if self.rules is None:
            self.report.unchecked.add("states")
        for number in range(min(games, 10) if self.rules is not None else 0):
            with contextlib.suppress(Exception):  # the adapter reports it better
                self._play_states(np.random.default_rng((seed, number)))
        if not self.report.is_kept:  # states that change, or are not the same twice, break everything else
            self.report.unchecked = set(RULES) - set(self.report.violations)
            return self.report
        symmetries = self._symmetries()
        for number in range(games):
            try:
                self._play(np.random.default_rng((seed, number)), symmetries[number % len(symmetries)])
            except GameError as error:  # its text tells where
                self.report.violations.setdefault("adapter", str(error))
            except ValueError as error:
                self._broken("adapter", str(error))
            self.report.games += 1
        return self.report

    def _symmetries(self) -> list[int]:
        """Those that the mirrored game is played through, from the same start: all, but those that move a handicap."""
        numbers = list(range(self.game.num_symmetries))
        if not self._has_handicap:
            return numbers
        start = self.game.start()
        return [number for number in numbers if np.array_equal(start.observation(number), start.observation())]

    def _play(self, rng: np.random.Generator, symmetry: int) -> None:
        """Plays one game, and the mirrored one with it."""
        actions: list[int] = []
        self._actions = actions
        game, position, permuted = self.game, self.game.start(), self._permuted[symmetry]
        mirrored = game.start()
        first = int(self._has_handicap)
        self._rule("turns", position.to_play == first, f"player {1 - first} moves first")
        while not position.is_terminal and len(actions) <= game.max_plies:
            for rule, text in self._look(position, rng):
                self._broken(rule, text)
            action = int(rng.choice(position.legal_actions))
            self._mirror(position, mirrored, permuted, symmetry)
            before = self._facts(position)
            position = self._played(position, action, before)
            if "symmetries" not in self.report.violations:
                mirrored.play(permuted[action])
            actions.append(action)
            self.report.plies += 1
        over = position.is_terminal
        self._rule("length", over and len(actions) <= game.max_plies,
                   f"{len(actions)} plies were played, and max_plies is {game.max_plies}")
        self._rule("terminal", not over or position.legal_actions == [],
                   f"the game is over, and {position.legal_actions} are legal")
        if over:
            self._end(position, mirrored)

    def _end(self, position: Position, mirrored: Position) -> None:
        self._rule("outcome", position.outcome in (-1, 0, 1), f"the outcome is {position.outcome}")
        if "symmetries" not in self.report.violations:
            same = mirrored.is_terminal and mirrored.to_play == position.to_play
            self._rule("symmetries", same and mirrored.outcome == position.outcome,
                       "the mirrored game does not end alike")
        again = self.game.start()
        for action in self._actions:
            again.play(action)
        same = again.is_terminal and (again.outcome, again.to_play) == (position.outcome, position.to_play)
        self._rule("replay", same, "played again, the game does not end alike")

    def _look(self, position: Position, rng: np.random.Generator) -> Iterator[tuple[str, str]]:
        """Rules that this position breaks, each with what is wrong."""
        game, legal = self.game, position.legal_actions
        if legal != sorted(set(legal)) or not legal or not 0 <= legal[0] <= legal[-1] < game.num_actions:
            yield "legal", f"the legal actions are {legal}"
        if len(legal) > game.max_legal_actions:
            yield "legal", f"{len(legal)} actions are legal, and max_legal_actions is {game.max_legal_actions}"
        if position.to_play not in (0, 1):
            yield "turns", f"to_play is {position.to_play}"
        moves = [position.to_move(action) for action in legal]
        for move, count in Counter(moves).items():
            if count > 1:
                yield "moves", f"{count} actions are called '{move}'"
        for k in rng.permutation(len(legal))[:SOME]:
            if position.from_move(moves[k]) != legal[k]:
                yield "moves", f"the move '{moves[k]}' of action {legal[k]} is read as {position.from_move(moves[k])}"
        yield from self._look_at_planes(position)
        before = self._facts(position)
        others = np.setdiff1d(np.arange(game.num_actions), legal)
        tried = [int(a) for a in rng.permutation(others)[:SOME]]
        for action in (-1, game.num_actions, 1 << 16, *tried):
            if _succeeds(lambda action=action: position.copy().play(action)):  # type: ignore[misc]
                yield "illegal", f"action {action} is illegal and was played"
            elif self._facts(position) != before:
                yield "illegal", f"action {action} was refused, and the position is another"
        if _succeeds(lambda: position.outcome):
            yield "outcome", "there is an outcome, and the game is not over"

    def _look_at_planes(self, position: Position) -> Iterator[tuple[str, str]]:
        planes = position.observation()
        binary = planes[: len(planes) - self.game.num_uniform_planes]
        if planes.shape != self.game.observation_shape:
            yield "observation", f"its shape is {planes.shape}, not {self.game.observation_shape}"
        elif not np.isfinite(planes).all():
            yield "observation", "a number is not finite"
        elif not ((binary == 0) | (binary == 1)).all():
            yield "observation", "a binary plane holds another number than 0 and 1"
        facts = planes.tobytes() + np.array(position.legal_actions).tobytes()
        if len(self._seen) < KEYS_KEPT and self._seen.setdefault(position.evaluation_key, facts) != facts:
            yield "keys", f"the key {position.evaluation_key} is that of another position too"

    def _mirror(self, position: Position, mirrored: Position, permuted: list[int], symmetry: int) -> None:
        if "symmetries" in self.report.violations:
            return
        same = sorted(permuted[a] for a in position.legal_actions) == mirrored.legal_actions
        self._rule("symmetries", same, f"seen through symmetry {symmetry}, other actions are legal")
        same = np.array_equal(position.observation(symmetry), mirrored.observation())
        self._rule("symmetries", same, f"through symmetry {symmetry}, the observation is not that of the mirrored game")

    def _played(self, position: Position, action: int, before: Any) -> Position:
        after = position.copy()
        after.play(action)
        self._rule("copies", self._facts(position) == before, f"action {action} on a copy changed it")
        position.play(action)
        self._rule("copies", after.is_terminal == position.is_terminal and str(after) == str(position),
                   f"action {action} led to different positions")
        return position

    def _play_states(self, rng: np.random.Generator) -> None:
        """Plays a game with the object itself: the adapter caches results and would not see a state that changes."""
        rules, state = self.rules, self.rules.start()
        actions: list[int] = []
        self._actions = actions
        while not rules.is_terminal(state) and len(actions) < self.game.max_plies:
            before = self._state_facts(state)
            for action in list(rules.legal_actions(state))[:3]:
                once, again = (self._state_facts(rules.play(state, action)) for _ in range(2))
                self._rule("replay", once == again, f"action {action} led to two different states")
            same = self._state_facts(state) == before
            self._rule("states", same, "play changed the state that it was given")
            if self.report.violations:
                return
            actions.append(int(rng.choice(rules.legal_actions(state))))
            state = rules.play(state, actions[-1])

    def _state_facts(self, state: Any) -> Any:
        rules = self.rules
        return rules.to_play(state), list(rules.legal_actions(state)), np.asarray(rules.observation(state)).tobytes()

    @staticmethod
    def _facts(position: Position) -> Any:
        return position.ply, position.to_play, position.legal_actions, position.evaluation_key, str(position)

    # --- violations --------------------------------------------------------------------------------------------------

    def _rule(self, rule: str, holds: bool, text: str) -> None:
        if not holds:
            self._broken(rule, text)

    def _broken(self, rule: str, text: str) -> None:
        self.report.violations.setdefault(rule, text + self._after())

    def _after(self) -> str:
        """How the position came about, to play it again."""
        position, moves = self.game.start(), []
        try:
            for action in self._actions:
                moves.append(position.to_move(action))
                position.play(action)
        except ValueError:
            moves = ["(which cannot be named)"]
        if not self._actions:
            return "; at the start"
        return f"; after the actions {' '.join(map(str, self._actions))}, the moves {' '.join(moves)}"


def _succeeds(call: Callable[[], object]) -> bool:
    """Whether it does not raise the ValueError of something illegal."""
    try:
        call()
    except GameError:
        raise
    except ValueError:
        return False
    return True
