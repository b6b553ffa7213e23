"""A game in the terminal, without input and output: words in, text out."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from shusaku.actors.analysis.analysis import Analysis
from shusaku.actors.analysis.report import Limits, MoveReport, Report
from shusaku.common._core import Game, Position
from shusaku.common.errors import UsageError
from shusaku.common.suggestions import nearest
from shusaku.deploy.protocols.variation import play_variation
from shusaku.deploy.records.files import RecordWriter
from shusaku.deploy.records.game_record import GameRecord, Move, RecordError

FIRST, SECOND = (0,), (1,)
SIDES = {"first": FIRST, "second": SECOND, "both": (0, 1), "none": ()}  # the players that the user plays
COLOURS = {  # names of the players, the first one first
    "go": ("black", "white"), "othello": ("black", "white"), "hex": ("black", "white"), "chess": ("white", "black"),
    "shogi": ("sente", "gote"), "minishogi": ("sente", "gote"), "connect_four": ("X", "O"), "tic_tac_toe": ("X", "O"),
}
WAIT_S = 0.1  # between two moments at which Ctrl-C is heard
HINTS = 3  # moves that a hint shows
SHOWN_PLIES = 6  # of a variation
MOST_SIMULATIONS = 1 << 20


class PlayError(Exception):
    """A word or a move that cannot be taken, as one line for the user."""


@dataclass
class Strength:
    """How the computer plays."""

    simulations: int
    temperature: float = 0.0  # moves are sampled from visits^(1 / temperature); 0: the best one is played


@dataclass
class _Ply:
    """A move that was made."""

    before: Position
    move: Move


@dataclass
class Session:
    """One game between the user and the network, on one analysis."""

    game: Game
    analysis: Analysis
    strength: Strength
    side: tuple[int, ...] = FIRST
    seed: int = 1
    name: str = "Shusaku"
    has_ended: bool = False  # the user wants no more
    _plies: list[_Ply] = field(default_factory=list, init=False)
    _resigned: int | None = field(default=None, init=False)  # the player who gave up

    def __post_init__(self) -> None:
        self.position = self.game.start()
        self._random = random.Random(self.seed)

    # --- what is shown -----------------------------------------------------------------------------------------------

    @property
    def players(self) -> tuple[str, str]:
        """Names of the two players of this game, the first one first."""
        return COLOURS.get(self.game.name, ("first", "second"))

    @property
    def is_over(self) -> bool:
        """Whether the game has a result."""
        return self.position.is_terminal or self._resigned is not None

    @property
    def is_computers_turn(self) -> bool:
        """Whether `think` has to be called."""
        return not self.is_over and self.position.to_play not in self.side

    def board(self) -> str:
        """The board, the last move, and whose turn it is or who has won."""
        lines = [str(self.position).rstrip("\n")]
        if self._plies:
            lines.append(f"last move: {self._plies[-1].move.text}")
        if self.is_over:
            lines.append(self.result())
        else:
            who = "you" if self.position.to_play in self.side else self.name
            lines.append(f"move {len(self._plies) + 1}: {self.players[self.position.to_play]} ({who})")
        return "\n".join(lines)

    def result(self) -> str:
        """Who has won, and how; empty while the game goes on."""
        if self._resigned is not None:
            return f"{self.players[1 - self._resigned]} wins, {self.players[self._resigned]} resigned"
        if not self.position.is_terminal:
            return ""
        outcome = self._outcome()
        if outcome == 0:
            return "a draw"
        points = self.position.score
        by = f" by {abs(points):g} points" if points == points and points else ""
        return f"{self.players[outcome < 0]} wins{by}"

    # --- words -------------------------------------------------------------------------------------------------------

    def receive(self, line: str) -> str:
        """What a line of the user's does, as text to show; PlayError if it can do nothing."""
        words = line.split()
        if not words:
            return ""
        command = COMMANDS.get(words[0].lower())
        if command is not None:
            return command(self, words[1:])
        if self.is_over:
            raise PlayError("the game is over; new, undo, save FILE or quit")
        if len(words) > 1:
            raise PlayError(f"{words[0]} is no command; {nearest_command(words[0])}")
        self.play(words[0])
        return self.board()

    def play(self, text: str) -> None:
        """Makes the move for the player whose turn it is; PlayError if it is illegal."""
        reason = ""
        for spelling in dict.fromkeys((text, text.lower(), text.upper())):
            try:
                self._play(self.position.from_move(spelling))
                return
            except ValueError as error:
                reason = reason or str(error).splitlines()[0]
        raise PlayError(f"{reason}; {nearest_command(text)}")

    def think(self) -> str:
        """Makes the computer's move."""
        report = self._search()
        chosen = self._sample(report)
        self._play(chosen.action, report)
        value = f", expects {report.value:+.2f}" if chosen.visits else ""
        return f"{self.board()}\n{self.name} played {chosen.move} after {report.simulations:,} simulations in " \
               f"{report.seconds:.1f} s{value}"

    def hint(self) -> str:
        """The moves that the network would make."""
        if self.is_over:
            raise PlayError("the game is over, so there is no move to hint at")
        report = self._search()
        total = max(1, sum(move.visits for move in report.moves))
        best = [move for move in report.moves[:HINTS] if move.visits] or report.moves[:1]
        return "\n".join(f"{move.move:<8}{100 * move.visits / total:5.1f} %  value {move.value:+.2f}  "
                         f"{self._variation(move)}" for move in best)

    def undo(self) -> str:
        """Takes back the last move of the user's, and what the computer answered."""
        if self._resigned is not None:
            self._resigned = None
            return self.board()
        mine = [number for number, ply in enumerate(self._plies) if ply.before.to_play in self.side]
        if not mine:
            raise PlayError("there is no move of yours to take back")
        self.position = self._plies[mine[-1]].before
        del self._plies[mine[-1] :]
        return self.board()

    def resign(self) -> str:
        """Gives the game up."""
        if self.is_over:
            raise PlayError("the game is over already")
        self._resigned = self.position.to_play
        return self.result()

    def begin(self) -> str:
        """A new game."""
        self.position, self._plies, self._resigned = self.game.start(), [], None
        return self.board()

    def save(self, name: str) -> str:
        """Writes the game in the notation of the file's ending; PlayError if it cannot be written."""
        try:
            with RecordWriter(Path(name).expanduser(), self.game.name, comments=True) as writer:
                writer.write(self.record())
        except (RecordError, UsageError) as error:
            raise PlayError(str(error)) from None
        return f"saved {len(self._plies)} {'move' if len(self._plies) == 1 else 'moves'} in {name}"

    def record(self) -> GameRecord:
        """The game so far."""
        names = [self.name, self.name]
        for player in self.side:
            names[player] = "user"
        outcome, ended_by = None, "interrupted"
        if self._resigned is not None:
            outcome, ended_by = (-1 if self._resigned == 0 else 1), "resignation"
        elif self.position.is_terminal:
            outcome, ended_by = self._outcome(), "ply_limit" if self.position.is_cut_off else "rules"
        score = None
        if self.position.is_terminal and self.position.score == self.position.score:
            score = self.position.score if self.position.to_play == 0 else -self.position.score
        return GameRecord(
            self.game.name, dict(self.game.params), tuple(ply.move for ply in self._plies),
            players=(names[0], names[1]), outcome=outcome, score=score, ended_by=ended_by,
            date=time.strftime("%Y-%m-%d"),
        )

    # --- the search --------------------------------------------------------------------------------------------------

    def _search(self) -> Report:
        self.analysis.set_position(self.position)
        self.analysis.start(Limits(simulations=self.strength.simulations, to_the_end=self.strength.temperature > 0))
        while not self.analysis.wait(WAIT_S):
            pass
        return self.analysis.report()

    def _sample(self, report: Report) -> MoveReport:
        best, temperature = report.moves[0], self.strength.temperature
        if temperature == 0 or best.visits == 0:
            return best
        most = max(move.visits for move in report.moves)
        weights = [(move.visits / most) ** (1 / temperature) for move in report.moves]
        return self._random.choices(report.moves, weights)[0]

    def _play(self, action: int, report: Report | None = None) -> None:
        before, text = self.position, self.position.to_move(action)
        after = before.copy()
        after.play(action)
        move = Move(action, text)
        if report is not None:
            total = max(1, sum(move.visits for move in report.moves))
            policy = tuple((move.action, move.visits / total) for move in report.moves if move.visits)
            move = Move(action, text, value=report.value, policy=policy, seconds=round(report.seconds, 2))
        self.position = after
        self._plies.append(_Ply(before, move))

    def _variation(self, move: MoveReport) -> str:
        return " ".join(play_variation(self.position, move.variation[:SHOWN_PLIES])[0])

    def _outcome(self) -> int:
        """For the first player."""
        return self.position.outcome if self.position.to_play == 0 else -self.position.outcome


Command = Callable[[Session, Sequence[str]], str]


def nearest_command(word: str) -> str:
    """A sentence that leads to the right word."""
    return f"help lists the commands, nearest: {nearest(word.lower(), COMMANDS)}"


def _show_moves(session: Session, words: Sequence[str]) -> str:
    position = session.position
    return " ".join(position.to_move(action) for action in position.legal_actions)


def _set_side(session: Session, words: Sequence[str]) -> str:
    session.side = parse_side(words[0] if words else "", session.game)
    return session.board()


def parse_side(word: str, game: Game) -> tuple[int, ...]:
    """The players that the user plays; PlayError if the word names none of the game's."""
    names = COLOURS.get(game.name, ("first", "second"))
    known = {**SIDES, names[0].lower(): FIRST, names[1].lower(): SECOND}
    if word.lower() not in known:
        raise PlayError(f"side={word}: must be one of {', '.join(known)}")
    return known[word.lower()]


def _set_simulations(session: Session, words: Sequence[str]) -> str:
    if words:
        session.strength.simulations = int(_number(words[0], 1, MOST_SIMULATIONS, is_whole=True))
    return f"{session.strength.simulations:,} simulations a move"


def _set_temperature(session: Session, words: Sequence[str]) -> str:
    if words:
        session.strength.temperature = _number(words[0], 0, 10)
    return f"temperature {session.strength.temperature:g}"


def _number(word: str, least: float, most: float, *, is_whole: bool = False) -> float:
    try:
        number = int(word) if is_whole else float(word)
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        kind = "a whole number" if is_whole else "a number"
        raise PlayError(f"{word[:40]}: must be {kind} from {least:g} to {most:,}")
    return number


def _save(session: Session, words: Sequence[str]) -> str:
    if len(words) != 1:
        raise PlayError("save needs a file name, such as save game.jsonl; its ending says the notation")
    return session.save(words[0])


def _quit(session: Session, words: Sequence[str]) -> str:
    session.has_ended = True
    return ""


def _help(session: Session, words: Sequence[str]) -> str:
    position = session.position
    example = position.to_move(position.legal_actions[0]) if not position.is_terminal else "its text"
    lines = [f"  {name:<18}{text}" for name, text in HELP.items()]
    return "\n".join([f"  {example:<18}makes this move; so does every text that `moves` lists", *lines])


COMMANDS: dict[str, Command] = {
    "hint": lambda session, words: session.hint(),
    "undo": lambda session, words: session.undo(),
    "moves": _show_moves,
    "board": lambda session, words: session.board(),
    "side": _set_side,
    "simulations": _set_simulations,
    "temperature": _set_temperature,
    "resign": lambda session, words: session.resign(),
    "new": lambda session, words: session.begin(),
    "save": _save,
    "help": _help,
    "quit": _quit,
}
HELP = {
    "pass": "in Go and Othello, if the rules allow it",
    "hint": "what the network would play, with shares of the search and values",
    "undo": "takes your last move back, and the answer to it",
    "moves": "the legal moves",
    "board": "the board again",
    "side NAME": "the player that is you: first, second, both, none, or a colour",
    "simulations N": "strength: simulations for a move of the computer's",
    "temperature T": "0: it plays the best move; more: others, too",
    "resign": "gives the game up",
    "new": "begins another game",
    "save FILE": "writes the game: .sgf, .pgn, .kif, .csa or .jsonl, as the game allows",
    "quit": "ends; so do Ctrl-D and Ctrl-C",
}
