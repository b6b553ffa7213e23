"""Commands of GTP that play: moves in and out, undo, and the game as a whole."""

from collections.abc import Sequence

from shusaku.deploy.protocols.gtp.engine import Command, Engine, Thinking, colour_to_move
from shusaku.deploy.protocols.gtp.game_state import PASS
from shusaku.deploy.protocols.gtp.status import dead_stones
from shusaku.deploy.protocols.gtp.text import SYNTAX_ERROR, CommandError, expect_words, parse_colour, parse_count


def play(engine: Engine, words: Sequence[str]) -> str:
    """A colour and a vertex."""
    expect_words(words, 2)
    engine.state.play(parse_colour(words[0]), words[1])
    return ""


def play_sequence(engine: Engine, words: Sequence[str]) -> str:
    """Colours and vertices; none is played if one of them is illegal."""
    if len(words) % 2:
        raise SYNTAX_ERROR
    colours = [parse_colour(word) for word in words[::2]]
    for number, (colour, vertex) in enumerate(zip(colours, words[1::2], strict=True)):
        try:
            engine.state.play(colour, vertex)
        except CommandError:
            _undo(engine, number)
            raise
    return ""


def genmove(engine: Engine, words: Sequence[str]) -> str | Thinking:
    """Makes and plays a move of the colour."""
    expect_words(words, 1)
    return engine.generate(parse_colour(words[0]))


def reg_genmove(engine: Engine, words: Sequence[str]) -> str | Thinking:
    """The move that genmove would make, without a clock; nothing is played."""
    expect_words(words, 1)
    return engine.generate(parse_colour(words[0]), plays=False)


def genmove_cleanup(engine: Engine, words: Sequence[str]) -> str | Thinking:
    """As genmove, but as long as dead stones of the opponent are on the board there is no pass."""
    expect_words(words, 1)
    colour = parse_colour(words[0])
    engine.place(colour)
    position, cells = engine.analysis.position, engine.state.cells
    if not any(cells[cell] == 1 - colour for cell in dead_stones(engine)):
        return engine.generate(colour)
    plays = tuple(action for action in position.legal_actions if position.to_move(action) != PASS)
    return engine.generate(colour, actions=plays)


def undo(engine: Engine, words: Sequence[str]) -> str:
    """Takes one move back."""
    expect_words(words, 0)
    engine.state.undo()
    return ""


def undo_several(engine: Engine, words: Sequence[str]) -> str:
    """Takes so many moves back (1), or none if there are fewer."""
    expect_words(words, 0, 1)
    count = parse_count(words[0]) if words else 1
    if count > len(engine.state.moves):
        raise CommandError("cannot undo")
    _undo(engine, count)
    return ""


def move_history(engine: Engine, words: Sequence[str]) -> str:
    """The moves, the last one first."""
    return "\n".join(f"{('black', 'white')[colour]} {vertex}" for colour, vertex in reversed(engine.state.moves))


def all_legal(engine: Engine, words: Sequence[str]) -> str:
    """The legal moves of a colour, the pass left out."""
    colour, rest = colour_to_move(engine, words)
    expect_words(rest, 0)
    engine.place(colour)
    position = engine.analysis.position
    moves = [position.to_move(action) for action in position.legal_actions]
    return " ".join(move.upper() for move in moves if move != PASS)


def is_legal(engine: Engine, words: Sequence[str]) -> str:
    """1 if `play` would take this colour and vertex, else 0."""
    expect_words(words, 2)
    colour = parse_colour(words[0])
    try:
        engine.state.play(colour, words[1])
    except CommandError:
        return "0"
    engine.state.undo()
    return "1"


def showboard(engine: Engine, words: Sequence[str]) -> str:
    """The board as a drawing."""
    drawing = str(engine.state.position).rstrip("\n")
    return f"\n{drawing}"


def _undo(engine: Engine, count: int) -> None:
    for _ in range(count):
        engine.state.undo()


OF_ALL_GAMES: dict[str, Command] = {
    "play": play, "gogui-play_sequence": play_sequence, "genmove": genmove, "reg_genmove": reg_genmove, "undo": undo,
    "gg-undo": undo_several, "move_history": move_history, "all_legal": all_legal, "is_legal": is_legal,
    "showboard": showboard,
}
OF_GO: dict[str, Command] = {"kgs-genmove_cleanup": genmove_cleanup}
