"""A game between notations: rules, moves with what is known of them, and result.

Readers play every move by the rules of the core, so a record holds a legal game.  Player 0 is the one who moves first
in the usual start: black in Go, Othello and hex, white in chess, sente in shogi.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from shusaku.common._core import Game, Position
from shusaku.common.codec import MAX_PLIES
from shusaku.common.errors import GameError, UsageError

Param = int | float | str | bool
Params = Mapping[str, Param]

# Why a game ended; empty: unknown.  A kind of fault of `actors.opponents.process` may stand there, too.
ENDINGS = ("rules", "ply_limit", "resignation", "time", "forfeit", "agreement", "illegal_move", "interrupted")
LOST = ("resignation", "time", "forfeit", "illegal_move")  # endings with a winner that the rules do not name
MAX_HEADERS = 64
MAX_TEXT = 65_536  # characters of a comment


class RecordError(ValueError):
    """A game that cannot be read or written; `ply` is the number of the move, from 1, or 0: none in particular."""

    def __init__(self, reason: str, ply: int = 0) -> None:
        super().__init__(" ".join(reason.split()).encode(errors="replace").decode())
        self.ply = ply


@dataclass(frozen=True, slots=True)
class Reject:
    """A game of a file that was left out."""

    file: str
    game: int  # number in the file, from 1
    ply: int  # number of the move, from 1; 0: none in particular
    reason: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.file}: game {self.game}{f', move {self.ply}' if self.ply else ''}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Move:
    """One move, and what is known of it."""

    action: int
    text: str  # as Position.to_move writes it
    comment: str = ""
    value: float | None = None  # in [-1, 1], of the search before the move, for the player who moves
    policy: tuple[tuple[int, float], ...] = ()  # actions and their shares of the search, largest first
    seconds: float | None = None  # that the player took
    nags: tuple[int, ...] = ()  # numeric annotation glyphs of PGN


@dataclass(frozen=True, slots=True)
class GameRecord:
    """One game."""

    game: str
    params: dict[str, Param]  # of the rules, all of them
    moves: tuple[Move, ...]
    start: str = ""  # a position as Game.position() reads it; empty: the usual one
    players: tuple[str, str] = ("", "")  # names of player 0 and 1
    outcome: int | None = None  # for player 0: -1, 0, 1; None: unknown
    score: float | None = None  # for player 0, in points; None: unknown, or the game has none
    ended_by: str = ""  # one of ENDINGS
    date: str = ""  # 2026-11-23, or a part of it
    event: str = ""
    comment: str = ""  # before the first move
    headers: dict[str, str] = field(default_factory=dict)  # what else the notation says of the game, by its own names
    variations: int = 0  # that were left out when the game was read
    cut: int = 0  # moves that were left out because the rules had ended the game before
    # What the file does not say and the reader assumed: komi, and outcome if it was counted with that komi.
    assumed: tuple[str, ...] = field(default=(), compare=False)

    def __len__(self) -> int:
        """Plies."""
        return len(self.moves)

    @property
    def actions(self) -> tuple[int, ...]:
        """The moves as actions."""
        return tuple(move.action for move in self.moves)

    def rules(self) -> Game:
        """The game with its parameters; RecordError if there is none."""
        return find_game(self.game, self.params)

    def first_position(self) -> Position:
        """The position before the first move."""
        return position_of(self.rules(), self.start)

    def positions(self) -> Iterator[tuple[Position, Move]]:
        """Each move and the position before it, which is valid until the next one is asked for."""
        position = self.first_position()
        for ply, move in enumerate(self.moves, start=1):
            yield position, move
            try:
                position.play(move.action)
            except ValueError:
                raise RecordError(f"the move {move.text} is illegal", ply) from None

    def last_position(self) -> Position:
        """The position after the last move."""
        position = self.first_position()
        for move in self.moves:
            position.play(move.action)
        return position


class Replay:
    """Plays the moves of a game that is being read."""

    def __init__(self, game: str, params: Params, start: str = "") -> None:
        """RecordError for unknown rules, or for a position that the game does not have."""
        self.game = find_game(game, params)
        self.start = start
        self.position = position_of(self.game, start)
        self.moves: list[Move] = []
        self.cut = 0
        self._is_over = self.position.is_terminal

    @property
    def outcome_by_rules(self) -> int | None:
        """For player 0; None if the rules have not ended the game."""
        if not self._is_over:
            return None
        return self.position.outcome if self.position.to_play == 0 else -self.position.outcome

    @property
    def ply(self) -> int:
        """The number of the next move, from 1."""
        return len(self.moves) + 1

    def play(self, text: str, shown: str = "") -> None:
        """Plays a move of the game's own notation; what follows the end of the game is only counted.

        RecordError naming `shown`, or else the text, if the move is illegal.
        """
        if self._is_over:
            self.cut += 1
            return
        try:
            action = self.position.from_move(text)
        except ValueError as error:
            reason = str(error).partition(": legal are")[0].replace(f"'{text}'", repr(shown or text))
            raise RecordError(reason, self.ply) from None
        self._add(action)

    def play_action(self, action: int, shown: str) -> None:
        """The same for an action."""
        if self._is_over:
            self.cut += 1
            return
        try:
            text = self.position.to_move(action)
        except GameError as error:
            raise RecordError(str(error), self.ply) from None
        except ValueError:
            raise RecordError(f"illegal move {shown!r}", self.ply) from None
        self._add(action, text)

    def annotate(self, **known: object) -> None:
        """Changes fields of the last move; nothing if there is none, or if it was left out."""
        if self.moves and not self.cut:
            last = self.moves[-1]
            fields = {name: getattr(last, name) for name in Move.__slots__}
            self.moves[-1] = Move(**{**fields, **known})

    def finish(
        self, *, outcome: int | None = None, score: float | None = None, ended_by: str = "",
        players: tuple[str, str] = ("", ""), date: str = "", event: str = "", comment: str = "",
        headers: Mapping[str, str] | None = None, variations: int = 0, assumed: tuple[str, ...] = (),
    ) -> GameRecord:
        """The record; the rules say the result if they end the game and the file does not say it.

        They say none if the game went on behind that end, or was interrupted: it is `interrupted`, without a result.
        """
        position = self.position
        by_rules = self.outcome_by_rules
        if by_rules is not None:
            has_score = not math.isnan(position.score)
            if outcome is None and (self.cut or ended_by == "interrupted"):
                ended_by = "interrupted"
            elif outcome in (None, by_rules) and not (has_score and ended_by in LOST):  # which counts no points
                assumed = (*assumed, "outcome") if assumed and outcome is None else assumed
                outcome, ended_by = by_rules, "ply_limit" if position.is_cut_off else "rules"
                if score is None and has_score:
                    score = position.score if position.to_play == 0 else -position.score
            elif ended_by in ("rules", "ply_limit"):  # the file errs
                ended_by = ""
        kept = dict(list((headers or {}).items())[:MAX_HEADERS])
        return GameRecord(
            self.game.name, dict(self.game.params), tuple(self.moves), self.start, players, outcome, score, ended_by,
            date, event, comment[:MAX_TEXT], kept, variations, self.cut, assumed)

    def _add(self, action: int, text: str = "") -> None:
        if len(self.moves) >= MAX_PLIES:
            raise RecordError(f"more than {MAX_PLIES:,} moves", self.ply)
        try:
            text = text or self.position.to_move(action)
            self.position.play(action)
            self._is_over = self.position.is_terminal
        except GameError as error:  # an external game broke its contract
            raise RecordError(str(error), self.ply) from None
        self.moves.append(Move(action, text))


def find_game(name: str, params: Params) -> Game:
    """The rules; RecordError if there is no such game, or not with these parameters."""
    try:
        return _game(name, tuple(sorted(params.items())))
    except (UsageError, ValueError, TypeError, OverflowError) as error:
        raise RecordError(str(error)) from None


def position_of(game: Game, start: str) -> Position:
    """The position that a text says, or the usual start; RecordError if it is none of this game."""
    try:
        return game.position(start) if start else game.start()
    except ValueError as error:
        raise RecordError(str(error)) from None


@lru_cache(maxsize=64)
def _game(name: str, params: tuple[tuple[str, Param], ...]) -> Game:
    return Game(name, dict(params))
