"""The game that a client of GTP plays: board, moves in any order of colours, undo, set-up stones and komi."""

import math
from collections.abc import Iterable, Mapping

from shusaku.common._core import Game, Position
from shusaku.deploy.protocols.gtp.text import BLACK, WHITE, CommandError

PASS = "pass"  # as a move, in every game that has it
SIGNS = {"·": None, "●": BLACK, "○": WHITE}  # of the games' drawings
MAX_KOMI = 361.0  # of the core


class GameState:
    """One game of Go, Othello or hex.

    GTP lets a colour move twice in a row and play go on after two passes.  A colour that the rules do not expect moves
    after a pass of the other one; in Go, where that would end the game, the board is set up anew, and the history that
    superko looks at begins there.
    """

    def __init__(self, game: Game) -> None:
        if game.params.get("handicap"):  # stones come by commands
            game = Game(game.name, {**game.params, "handicap": 0})
        self.komi = float(game.params.get("komi", 0.0))  # as the client said it
        self.handicap = 0  # stones that are on the board since its beginning
        self.bonus = ""  # points for white at a handicap: 0 (empty), N or N-1, one a stone
        self.game = game
        self.clear()

    @property
    def is_go(self) -> bool:
        """Whether it is Go: with komi, handicap, passes at any time."""
        return self.game.name == "go"

    @property
    def size(self) -> int:
        """Rows and columns of the board."""
        return self.game.observation_shape[1]

    @property
    def moves(self) -> list[tuple[int, str]]:
        """Colour and vertex of all moves since the board was set up."""
        return [move for _, move in self._played]

    @property
    def cells(self) -> list[int | None]:
        """[H * W] from the top, the colour of each stone, or None."""
        return cells_of(self.position, self.size)

    @property
    def white_bonus(self) -> float:
        """Komi, and the compensation for handicap stones."""
        return self.komi + {"": 0, "N": self.handicap, "N-1": max(0, self.handicap - 1)}[self.bonus]

    def clear(self) -> None:
        """An empty board, without moves."""
        self.position: Position = self.game.start()
        self._played: list[tuple[Position, tuple[int, str]]] = []  # the position before each move, and the move
        self.handicap = 0
        self.set_rules({})

    def set_rules(self, params: Mapping[str, int | float | str | bool]) -> None:
        """Parameters of the game, of which komi is the state's own; the moves so far stay as they are."""
        if not self.is_go:
            return
        wanted = {**self.game.params, **params, "komi": playable_komi(self.white_bonus)}
        if wanted != self.game.params:
            self.game = Game("go", wanted)
            self._replay()

    def set_up(self, cells: Mapping[int, int], to_play: int) -> None:
        """Stones (colour by cell) on an empty board of Go, without moves; ValueError if one has no liberty."""
        self.position = self.game.position(self._sgf(cells, to_play))
        self._played = []

    def place_handicap(self, cells: Iterable[int]) -> None:
        """Black stones on an empty board; white moves first."""
        stones = dict.fromkeys(cells, BLACK)
        self.handicap = len(stones)
        self.set_rules({})  # the compensation
        self.set_up(stones, WHITE)

    def play(self, colour: int, vertex: str) -> None:
        """CommandError, and nothing changed, if the move is illegal."""
        before = self.position
        if self.game.name == "othello" and before.is_terminal and vertex.lower() == PASS:
            self._played.append((before, (colour, PASS)))  # other programs pass until two passes end the game
            return
        try:
            self.position = self.turn_to(colour)
            action = self.parse_move(vertex)
            self.position.play(action)
        except ValueError:
            self.position = before
            raise CommandError("illegal move") from None
        self._played.append((before, (colour, vertex.lower() if vertex.lower() == PASS else vertex.upper())))

    def undo(self) -> None:
        """Takes the last move back; CommandError if there is none."""
        if not self._played:
            raise CommandError("cannot undo")
        self.position = self._played.pop()[0]

    def turn_to(self, colour: int) -> Position:
        """A copy of the position in which this colour moves; ValueError if the rules have none."""
        position = self.position.copy()
        if position.to_play != colour and not position.is_terminal:
            position.play(position.from_move(PASS))
        if position.is_terminal and self.is_go:
            position = self.set_up_again(colour)
        if position.is_terminal or position.to_play != colour:
            raise ValueError("the game is over")
        return position

    def set_up_again(self, colour: int) -> Position:
        """The stones of Go on the board, as a game that begins with them and with this colour."""
        return self.game.position(self._sgf(dict(self._stones()), colour))

    def parse_move(self, vertex: str) -> int:
        """The action of a vertex in small or capital letters, for the player to move; ValueError if it is illegal."""
        try:
            return self.position.from_move(vertex.lower())
        except ValueError:
            return self.position.from_move(vertex.upper())

    def parse_point(self, vertex: str) -> int:
        """The cell of a vertex of the board, whatever lies there; ValueError if it is none."""
        try:
            return self.game.start().from_move(vertex.lower())
        except ValueError:
            return self.game.start().from_move(vertex.upper())

    def _stones(self) -> list[tuple[int, int]]:
        return [(cell, colour) for cell, colour in enumerate(self.cells) if colour is not None]

    def _sgf(self, cells: Mapping[int, int], to_play: int) -> str:
        """The set-up as the root of an SGF file, which is how the core reads one."""
        points = {cell: chr(97 + cell % self.size) + chr(97 + cell // self.size) for cell in cells}
        lists = ["".join(f"[{points[cell]}]" for cell, colour in cells.items() if colour == wanted)
                 for wanted in (BLACK, WHITE)]
        stones = "".join(f"{name}{points}" for name, points in zip(("AB", "AW"), lists, strict=True) if points)
        return f"(;SZ[{self.size}]{stones}PL[{'BW'[to_play]}])"

    def _replay(self) -> None:
        """The same moves in the game of today; the board is set up where its rules do not allow one of them."""
        position, played = self.position, self._played
        start = played[0][0] if played else position
        self.position, self._played = self._reread(start), []
        try:
            for _, (colour, vertex) in played:
                self.play(colour, vertex)
        except CommandError:
            self.position, self._played = self._reread(position), []

    def _reread(self, position: Position) -> Position:
        """The board of this position in the game of today."""
        self.position = position
        stones, to_play = dict(self._stones()), position.to_play
        return self.game.position(self._sgf(stones, to_play)) if stones or to_play else self.game.start()


def cells_of(position: Position, size: int) -> list[int | None]:
    """[H * W] from the top, the colour of each stone, or None."""
    drawn = [SIGNS[sign] for sign in str(position) if sign in SIGNS]
    return drawn[: size**2]


def playable_komi(komi: float) -> float:
    """The multiple of a half with which every game has the result that it has with `komi`."""
    komi = max(-MAX_KOMI, min(MAX_KOMI, komi))
    return komi if komi * 2 == int(komi * 2) else math.floor(komi) + 0.5
