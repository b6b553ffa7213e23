"""`position …` of UCI and USI: from the words to a position of the core."""

from collections.abc import Sequence

from shusaku.common._core import Game, Position


def read_position(game: Game, words: Sequence[str], set_up: str) -> Position:
    """The words behind `position`: `startpos` or `fen FEN` (`sfen SFEN`), and perhaps `moves …`.

    `set_up`: fen | sfen.  Moves may go on after our rules have ended the game, as after a third repetition that no
    player claims: then the position stays and its past is forgotten.  So they may where a player of shogi could have
    declared a win and moved instead.  ValueError says what is wrong.
    """
    split = words.index("moves") if "moves" in words else len(words)
    start, moves = words[:split], words[split + 1 :]
    if start[:1] == [set_up]:
        position = _set_up(game, start[1:])
    elif list(start) == ["startpos"]:
        position = game.start()
    else:
        raise ValueError(f"position: say `position startpos moves …` or `position {set_up} … moves …`")
    for move in moves:
        if position.is_terminal:
            position = without_past(game, position)
        if position.is_terminal and game.params.get("declaration"):
            position = _undeclared(game, position, move)
        else:
            position.play(position.from_move(move))
    return position


def without_past(game: Game, position: Position) -> Position:
    """The same position as the first one of a game: repetitions and plies are forgotten."""
    words = position.text.split()
    if len(words) == 6:
        words[4] = "0"  # FEN's halfmove clock
    else:
        words[-1] = "1"  # SFEN's number of the move
    return game.position(" ".join(words))


def _set_up(game: Game, words: Sequence[str]) -> Position:
    """The position of a FEN or SFEN; one whose number of the move our rules do not reach is the first of a game."""
    try:
        return game.position(" ".join(words))
    except ValueError:
        if len(words) != 4 or not words[-1].isdecimal():  # SFEN has four fields, and that number is the last one
            raise
        return game.position(" ".join([*words[:-1], "1"]))


def _undeclared(game: Game, position: Position, move: str) -> Position:
    """The position after a move that was made instead of declaring a win."""
    after = Game(game.name, {**game.params, "declaration": False}).position(position.text)
    after.play(after.from_move(move))
    return game.position(after.text)
