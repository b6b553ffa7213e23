"""Which games engines play over UCI and USI, the names of the games there, and the notation of their moves."""

import re
from dataclasses import dataclass

from shusaku.common._core import Game
from shusaku.common.errors import UsageError

FILES = "abcdefghi"
OUR_MOVE = re.compile(r"(?:([A-Z])\*|([1-9][a-i]))([1-9][a-i])(\+?)")
CHESS_MOVE = re.compile(r"(?:([A-Z])@|([a-i][1-9]))([a-i][1-9])(\+?)")


@dataclass(frozen=True, slots=True)
class KnownGame:
    """One of our games in a protocol, or in an engine for several games."""

    variant: str  # of the option UCI_Variant, if an engine has one
    start: str  # the position that `startpos` is, as FEN or SFEN
    set_up: str  # the word in `position` before another start: fen | sfen
    side: int = 0  # of a shogi board with chess's names of squares; 0: moves are written as ours


CHESS = KnownGame("chess", "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1", "fen")
SHOGI_START = "lnsgkgsnl/1r5b1/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL b - 1"
MINISHOGI_START = "rbsgk/4p/5/P4/KGSBR b - 1"

# protocol -> our name of a game.  UCI was made for chess; Fairy-Stockfish plays shogi over it with chess's squares.
KNOWN: dict[str, dict[str, KnownGame]] = {
    "uci": {
        "chess": CHESS,
        "shogi": KnownGame("shogi", SHOGI_START, "sfen", 9),
        "minishogi": KnownGame("minishogi", MINISHOGI_START, "sfen", 5),
    },
    "usi": {
        "shogi": KnownGame("shogi", SHOGI_START, "sfen"),
        "minishogi": KnownGame("minishogi", MINISHOGI_START, "sfen"),
    },
}


def known_game(key: str, protocol: str, game: Game) -> KnownGame:
    """The game in this protocol; UsageError if it has none.  `key`: the setting of the player."""
    found = KNOWN[protocol].get(game.name)
    if found is None:
        others = [f"{key}.engine={other}" for other in KNOWN if game.name in KNOWN[other]]
        way_out = " or ".join(others) or f"{key}.engine=gtp and a program that plays it"
        raise UsageError(f"{key}.engine={protocol}: has no words for {game.name}, only for "
                         f"{', '.join(KNOWN[protocol])}; use {way_out}")
    return found


def start_words(known: KnownGame, game: Game) -> str:
    """The words behind `position`: `startpos`, or the position if the game begins elsewhere."""
    text = game.start().text
    return "startpos" if text == known.start else f"{known.set_up} {text}"


def to_engine(known: KnownGame, move: str) -> str:
    """A move in the engine's notation: 7g7f -> c3c4, P*5e -> P@e5 if it names squares as chess does."""
    found = OUR_MOVE.fullmatch(move) if known.side else None
    if found is None:
        return move
    piece, begin, end, promotion = found.groups()
    return (f"{piece}@" if piece else _chess_square(begin, known.side)) + _chess_square(end, known.side) + promotion


def from_engine(known: KnownGame, move: str) -> str:
    """The inverse; a text that is no move is returned unchanged, and our rules reject it."""
    found = CHESS_MOVE.fullmatch(move) if known.side else None
    if found is None:
        return move
    piece, begin, end, promotion = found.groups()
    return (f"{piece}*" if piece else _shogi_square(begin, known.side)) + _shogi_square(end, known.side) + promotion


def _chess_square(square: str, side: int) -> str:
    """7g -> c3: shogi counts files from the right and ranks from the top."""
    return f"{FILES[side - int(square[0])]}{side - FILES.index(square[1])}"


def _shogi_square(square: str, side: int) -> str:
    """c3 -> 7g; a square outside the board stays invalid."""
    return f"{side - FILES.index(square[0])}{FILES[side - int(square[1])]}"
