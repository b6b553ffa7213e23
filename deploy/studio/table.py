"""The game that is played or looked at in the studio: moves, a cursor, two sides, and one analysis that follows them.

Everything here is called from one thread.  Values are for the FIRST player, in [-1, 1], so that they make one curve.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Protocol

import numpy as np

from shusaku.actors.analysis.analysis import Limits, Report
from shusaku.common._core import Game, Position
from shusaku.deploy.records.game_record import GameRecord, Move
from shusaku.deploy.studio.boards import describe_position, describe_result, players
from shusaku.deploy.studio.temperature import ARGMAX_BELOW, move_probabilities

HUMAN, ENGINE = "human", "engine"
SHOWN_MOVES = 12  # of a report, with their variations
SHOWN_DROPS = 8
MIN_DROP = 0.05  # of the value, to be listed


class Searcher(Protocol):
    """The part of `actors.analysis.analysis.Analysis` that the table uses."""

    def set_position(self, position: Position) -> None:
        """Searches this position next."""

    def start(self, limits: Limits) -> None:
        """Begins to search and returns at once."""

    def wait(self, seconds: float | None = None) -> bool:
        """Whether the search has ended."""

    def report(self) -> Report:
        """What is known now."""

    def stop(self) -> Report:
        """Ends the search if one runs."""

    def close(self) -> None:
        """Releases the threads."""


@dataclass(frozen=True)
class Engine:
    """An analysis and what it was made from."""

    game: Game
    analysis: Searcher
    name: str  # of the weights, for people
    simulations: int  # of a move, unless the page says otherwise
    threads: int


@dataclass(frozen=True)
class Settings:
    """What the sliders of the page set."""

    simulations: int  # of a move, and of the analysis of a position
    threads: int
    temperature: float = 0.01  # of the engine's moves
    analyse: bool = True  # positions in which no engine is to move


class TableError(ValueError):
    """A request that the table refuses; the text says why."""


class Table:
    """One game, its cursor and its analysis."""

    def __init__(self, engine: Engine, open_engine: Callable[[int], Engine], seed: int = 0) -> None:
        """`open_engine` makes another engine, with so many threads."""
        self._engine, self._open_engine = engine, open_engine
        self._random = Random(seed)
        self.game = self._engine.game
        self.settings = Settings(self._engine.simulations, self._engine.threads)
        self.sides = [HUMAN, ENGINE]
        self.names = ("", "")  # of the players, as far as a file or a review says them
        self._opened: GameRecord | None = None  # the file that the game is from, while its moves are the same
        self._purpose = ""  # of the running search: move | analysis | review
        self._report: Report | None = None  # of the position at the cursor
        self._resigned: int | None = None  # who gave up
        self.revision = 0  # grows with every change
        self._begin(self.game.start())

    # --- the game ----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begins the search that the first position asks for."""
        self._follow()

    def new(self, sides: tuple[str, str], text: str = "") -> None:
        """Begins a game, from the position that the text says, or from the start."""
        try:
            start = self.game.position(text) if text else self.game.start()
        except ValueError as error:
            raise TableError(str(error)) from None
        self._stop()
        self.sides = list(sides)
        self._begin(start, text)
        self._follow()

    def play(self, action: int, ply: int | None = None) -> None:
        """Plays at the cursor; later moves are dropped.

        `ply`: the cursor as the page shows it; None: as it is now.
        """
        position = self.position
        if position.is_terminal or self._is_resigned:
            raise TableError("the game is over")
        if ply not in (None, self.ply):
            raise TableError(f"the move was meant for ply {ply}, and the game is at ply {self.ply} now: look at the "
                             "board again")
        if self._is_live and self.sides[position.to_play] == ENGINE:
            raise TableError("the engine is to move: undo, or change the sides")
        if action not in position.legal_actions:
            raise TableError(f"action {action} is not legal here")
        self._stop()
        self._play(action)
        self._follow()

    def undo(self) -> None:
        """Takes back moves until a human is to move again, at least one; or only that a human gave up."""
        if not self._is_live:
            raise TableError("undo at the last move of the game: go to its end, or play another move here")
        if self._resigned is None and self.ply == 0:
            raise TableError("there is no move to take back")
        self._stop()
        self._opened = None
        resigned, self._resigned = self._resigned, None
        has_move_to_cut = resigned is None or self.sides[resigned] == ENGINE  # which would give up again at once
        while has_move_to_cut and self.ply > 0:
            self._cut(self.ply - 1)
            has_move_to_cut = self.sides.count(HUMAN) == 1 and self.sides[self.position.to_play] == ENGINE
        self._follow()

    def go_to(self, ply: int) -> None:
        """Moves the cursor."""
        self._stop()
        self.ply = min(max(ply, 0), len(self.actions))
        self._follow()

    def resign(self) -> None:
        """The human gives up; the player to move if both sides are humans, or none is."""
        if self.position.is_terminal or self._is_resigned:
            raise TableError("the game is over")
        if not self._is_live:
            raise TableError("resign at the last move of the game")
        self._stop()
        self._give_up(self.sides.index(HUMAN) if self.sides.count(HUMAN) == 1 else self.position.to_play)

    def set_sides(self, sides: tuple[str, str]) -> None:
        """Who plays whom from now on."""
        self._stop()
        self.sides = list(sides)
        self._follow()

    def change(self, settings: Settings) -> None:
        """Takes new settings; another number of threads opens the engine anew."""
        # before anything stops: it may be refused
        is_other = settings.threads != self._engine.threads
        engine = self._open_engine(settings.threads) if is_other else self._engine
        self._stop()
        if is_other:
            self._engine.analysis.close()
            self._engine = engine
        self.settings = replace(settings, threads=self._engine.threads)
        self._follow()

    def review(self) -> None:
        """Searches every position of the game, one after the other, for the curve and its drops."""
        if not self.actions:
            raise TableError("there is no move to review: play or open a game first")
        self._stop()
        first, second = (self._engine.name if side == ENGINE else name
                         for side, name in zip(self.sides, self.names, strict=True))
        self.names = (first, second)  # of those that have played it
        self.sides = [HUMAN, HUMAN]
        self.ply, self._is_reviewing = 0, True
        self._follow()

    def open(self, record: GameRecord) -> None:
        """Shows a game that was read from a file, from its beginning; both sides are moved by hand."""
        theirs, ours = _kind(record.game, record.params), _kind(self.game.name, self.game.params)
        if theirs != ours:
            raise TableError(f"the file holds a game of {theirs}; these weights play {ours}")
        text = self._start_of(record.first_position(), record.start)
        positions = [self.game.position(text) if text else self.game.start()]
        for ply, action in enumerate(record.actions):  # by our rules: komi, superko and limits may be others
            if action not in positions[-1].legal_actions:
                raise TableError(f"move {ply + 1} of the file, {record.moves[ply].text}, is illegal by the rules of "
                                 f"these weights, {self.game.params}")
            positions.append(positions[-1].copy())
            positions[-1].play(action)
        self._stop()
        self.sides = [HUMAN, HUMAN]
        self._begin(positions[0], text)
        self.names = record.players
        for action in record.actions:
            self._play(action)
        if record.ended_by == "resignation" and record.outcome and not self.position.is_terminal:
            self._resigned = 0 if record.outcome < 0 else 1
        self.ply = 0
        self._opened = record
        self._follow()

    def record(self) -> GameRecord:
        """The game with the values of its positions; all that its file said as long as its moves are the same."""
        position = self._start.copy()
        moves = []
        for action, value in zip(self.actions, self.values, strict=False):
            mover_value = None if value is None else value if position.to_play == 0 else -value
            moves.append(Move(action, position.to_move(action), value=mover_value))
            position.play(action)
        if self._opened is not None:
            return replace(self._opened, moves=tuple(map(_with_value, self._opened.moves, moves)))
        outcome, score, ended_by = None, None, ""
        if position.is_terminal:
            sign = 1 if position.to_play == 0 else -1
            outcome, ended_by = sign * position.outcome, "ply_limit" if position.is_cut_off else "rules"
            score = sign * position.score if position.score == position.score else None
        elif self._resigned is not None:
            outcome, ended_by = (-1 if self._resigned == 0 else 1), "resignation"
        names = tuple(self._engine.name if side == ENGINE else name or "Human"
                      for side, name in zip(self.sides, self.names, strict=True))
        return GameRecord(self.game.name, dict(self.game.params), tuple(moves), self._start_text,
                          (names[0], names[1]), outcome, score, ended_by, time.strftime("%Y-%m-%d"))

    # --- the search --------------------------------------------------------------------------------------------------

    @property
    def is_searching(self) -> bool:
        """Whether a search runs, so that `tick` has to be called."""
        return bool(self._purpose)

    def tick(self) -> bool:
        """Takes the result of a search that has ended, plays the engine's move, goes on; whether anything changed."""
        if not self._purpose or not self._engine.analysis.wait(0):
            return False
        purpose, self._purpose = self._purpose, ""
        report = self._engine.analysis.report()
        self._take(report)
        if purpose == "move" and report.resigns:
            self._give_up(self.position.to_play)
        elif purpose == "move":
            self._play(self._choose())
            self._follow()
        elif purpose == "review":
            self._review_next()
        self.revision += 1
        return True

    def close(self) -> None:
        """Ends the search."""
        self._stop()
        self._engine.analysis.close()

    # --- for the page ------------------------------------------------------------------------------------------------

    @property
    def position(self) -> Position:
        """The one at the cursor."""
        return self._positions[self.ply]

    def state(self) -> dict[str, Any]:
        """All that the page shows of the game."""
        position = self.position
        board = describe_position(self.game, position)
        if self._is_resigned:
            assert self._resigned is not None
            winner = players(self.game.name)[1 - self._resigned]
            board |= {"legal": [], "result": f"{winner} wins by resignation"}
        return {
            **board, "moves": self._texts, "cursor": self.ply, "sides": self.sides, "names": self.names,
            "last": self.actions[self.ply - 1] if self.ply else None,
            "previous": self._last_move(), "values": [_rounded(value) for value in self.values],
            "drops": self.drops(), "thinking": self._purpose, "end": self._end(), "engine": self._engine.name,
            "settings": vars(self.settings), "revision": self.revision,
        }

    def report(self) -> dict[str, Any] | None:
        """What is known of the position at the cursor; None: nothing."""
        report = self._engine.analysis.report() if self._purpose else self._report
        if report is None or self.position.is_terminal:
            return None
        sign = 1 if self.position.to_play == 0 else -1
        ownership = None if report.ownership is None else [round(float(x) * sign, 2) for x in report.ownership.ravel()]
        return {
            "ply": self.ply, "simulations": report.simulations, "seconds": round(report.seconds, 3),
            "value": _rounded(sign * report.value), "is_running": bool(self._purpose), "ended": report.ended,
            "score": None if report.score is None else round(sign * report.score, 1), "ownership": ownership,
            "moves": [
                {"action": m.action, "move": m.move, "visits": m.visits, "prior": _rounded(m.prior),
                 "value": _rounded(sign * m.value), "lower_bound": _rounded(m.lower_bound),
                 "variation": self._texts_of(m.variation) if index < SHOWN_MOVES and m.visits else []}
                for index, m in enumerate(report.moves)
            ],
        }

    def drops(self) -> list[dict[str, Any]]:
        """The moves after which their player's value fell most, by the searches before and after them."""
        found = []
        for ply, (before, after) in enumerate(zip(self.values, self.values[1:], strict=False)):
            if before is None or after is None:
                continue
            drop = (before - after) * (1 if self._positions[ply].to_play == 0 else -1)
            if drop >= MIN_DROP:
                found.append((-drop, ply))
        return [{"ply": ply, "move": self._texts[ply], "drop": _rounded(-lost)}
                for lost, ply in sorted(found)[:SHOWN_DROPS]]

    # --- inside ------------------------------------------------------------------------------------------------------

    def _begin(self, start: Position, text: str = "") -> None:
        """`text`: of the start; empty: the usual one."""
        self._start_text = self._start_of(start, text)  # first: a game of the user may raise
        self._start = start
        self.names = ("", "")
        self.actions: list[int] = []
        self._texts: list[str] = []
        self._positions = [start.copy()]
        self.values: list[float | None] = [None]
        self.ply = 0
        self._resigned = None
        self._opened = None
        self._is_reviewing = False
        self._take_end()

    def _start_of(self, start: Position, text: str) -> str:
        """A start as a record has it: empty if it is the usual one; as given if the game writes no positions."""
        try:
            written = start.text
        except ValueError:
            return text
        return "" if written == self.game.start().text else written

    def _cut(self, ply: int) -> None:
        del self.actions[ply:], self._texts[ply:], self._positions[ply + 1:], self.values[ply + 1:]
        self.ply = ply

    def _play(self, action: int) -> None:
        self._resigned = self._resigned if self._is_live else None
        self._opened = None
        self._cut(self.ply)
        position = self.position.copy()
        self._texts.append(position.to_move(action))
        position.play(action)
        self.actions.append(action)
        self._positions.append(position)
        self.values.append(None)
        self.ply += 1
        self._take_end()

    def _give_up(self, player: int) -> None:
        self._resigned, self._opened = player, None
        self._follow()

    def _take_end(self) -> None:
        """The value of a game that is over is its result."""
        position = self._positions[-1]
        if position.is_terminal:
            self.values[-1] = float(position.outcome * (1 if position.to_play == 0 else -1))

    @property
    def _is_live(self) -> bool:
        """Whether the cursor is at the last move."""
        return self.ply == len(self.actions)

    @property
    def _is_resigned(self) -> bool:
        return self._resigned is not None and self._is_live

    def _follow(self) -> None:
        """Begins the search that the position at the cursor asks for."""
        self.revision += 1
        self._report = None
        position = self.position
        if position.is_terminal or self._is_resigned:
            if self._is_reviewing:
                self._review_next()
            return
        if self._is_reviewing:
            purpose = "review"
        elif self._is_live and self.sides[position.to_play] == ENGINE:
            purpose = "move"
        elif self.settings.analyse:
            purpose = "analysis"
        else:
            return
        self._engine.analysis.set_position(position)
        is_sampled = purpose == "move" and self.settings.temperature >= ARGMAX_BELOW  # from all the visits
        self._engine.analysis.start(Limits(simulations=self.settings.simulations, to_the_end=is_sampled))
        self._purpose = purpose

    def _stop(self) -> None:
        self._is_reviewing = False
        if self._purpose:
            self._take(self._engine.analysis.stop())
            self._purpose = ""

    def _take(self, report: Report) -> None:
        self._report = report
        if report.simulations:
            self.values[self.ply] = report.value * (1 if self.position.to_play == 0 else -1)

    def _review_next(self) -> None:
        self._is_reviewing = self.ply < len(self.actions)
        if self._is_reviewing:
            self.ply += 1
            self._follow()

    def _choose(self) -> int:
        assert self._report is not None
        moves = self._report.moves
        probabilities = move_probabilities([move.visits for move in moves], self.settings.temperature)
        if probabilities.max() == 1:
            return moves[0].action  # the report's best: bounds and proofs count, too
        [move] = self._random.choices(moves, weights=np.maximum(probabilities, 0).tolist())
        return move.action

    def _texts_of(self, variation: tuple[int, ...]) -> list[str]:
        position, texts = self.position.copy(), []
        for action in variation:
            texts.append(position.to_move(action))
            position.play(action)
        return texts

    def _last_move(self) -> list[int]:
        """The cells of the move before the cursor."""
        if self.ply == 0:
            return []
        before = describe_position(self.game, self._positions[self.ply - 1])
        moves = [move for move in before["legal"] if move["action"] == self.actions[self.ply - 1]]
        return [move[key] for move in moves for key in ("from", "to") if move.get(key) is not None]

    def _end(self) -> str:
        """How the whole game ended, also while the cursor is elsewhere; empty: it has not."""
        if self._positions[-1].is_terminal:
            return describe_result(self.game, self._positions[-1])
        return "" if self._resigned is None else f"{players(self.game.name)[1 - self._resigned]} wins by resignation"


def _kind(name: str, params: Mapping[str, Any]) -> str:
    """What a file has to share with the weights, for people: the game, of the user's games which one, and the size."""
    which, size = params.get("entry") or params.get("name"), params.get("size")
    return f"{name}{f' {which}' if which else ''}{f' on {size} x {size}' if size else ''}"


def _with_value(move: Move, searched: Move) -> Move:
    """A move of a file; a search of ours stands in place of the file's, whose shares are not of that value."""
    return move if searched.value is None else replace(move, value=searched.value, policy=())


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(float(value), 4)
