"""The commands with which clients watch a search: lz-analyze, kata-analyze, their genmove, and kata-raw-nn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from shusaku.actors.analysis.report import Limits, MoveReport, Report
from shusaku.common._core import Position
from shusaku.deploy.protocols.gtp.engine import Command, Engine, Thinking, colour_to_move, vertex
from shusaku.deploy.protocols.gtp.text import (
    SYNTAX_ERROR,
    CommandError,
    parse_colour,
    parse_count,
    parse_flag,
)

USUAL_INTERVAL = 1.0  # seconds
SHORTEST_INTERVAL = 0.01
FLAGS = ("rootInfo", "ownership", "pvVisits")
NO_VALUES = (  # of KataGo; what they ask for is not known here and left out
    "ownershipStdev", "movesOwnership", "movesOwnershipStdev", "pvEdgeVisits", "noResultValue",
)


@dataclass
class Options:
    """What an analysis is asked to tell."""

    interval: float = USUAL_INTERVAL  # seconds
    least_moves: int = 0
    most_moves: int = 1 << 30
    flags: dict[str, bool] = field(default_factory=dict)
    avoided: set[str] = field(default_factory=set)  # moves at the root, in small letters
    allowed: set[str] = field(default_factory=set)  # empty: all
    actions: tuple[int, ...] = ()  # that these two leave; (): all


def parse_options(words: Sequence[str], colour: int) -> Options:
    """Everything behind the colour; `avoid` and `allow` count at the root only, so for the player to move."""
    options, rest = Options(), list(words)
    if rest and rest[0].isdigit():
        options.interval = _seconds(rest.pop(0))
    while rest:
        key = rest.pop(0)
        count = 3 if key in ("avoid", "allow") else 1
        if len(rest) < count:
            raise SYNTAX_ERROR
        values, rest = rest[:count], rest[count:]
        if key in ("avoid", "allow"):
            whose, depth = parse_colour(values[0]), parse_count(values[2])
            if whose == colour and depth > 0:
                moves = options.avoided if key == "avoid" else options.allowed
                moves.update(values[1].lower().split(","))
        elif key == "interval":
            options.interval = _seconds(values[0])
        elif key == "minmoves":
            options.least_moves = parse_count(values[0])
        elif key == "maxmoves":
            options.most_moves = max(1, parse_count(values[0]))
        elif key in (*FLAGS, *NO_VALUES):
            options.flags[key] = parse_flag(values[0])
        else:
            raise SYNTAX_ERROR
    return options


def _seconds(word: str) -> float:
    return max(SHORTEST_INTERVAL, parse_count(word) / 100)


def restrict_actions(position: Position, options: Options) -> None:
    """Sets the actions that `avoid` and `allow` leave.  CommandError if they leave none."""
    if not options.avoided and not options.allowed:
        return
    moves = {action: position.to_move(action).lower() for action in position.legal_actions}
    left = tuple(action for action, move in moves.items()
                 if move not in options.avoided and (not options.allowed or move in options.allowed))
    if not left:
        raise CommandError("no legal move is left to analyse")
    options.actions = () if len(left) == len(moves) else left


def shown_moves(report: Report, options: Options) -> list[MoveReport]:
    """The moves that were searched, best first, as many as are asked for."""
    moves = [move for move in report.moves if not options.actions or move.action in options.actions]
    visited = sum(move.visits > 0 for move in moves)
    return moves[: min(options.most_moves, max(visited, options.least_moves))]


def vertices(position: Position, actions: Sequence[int]) -> list[str]:
    """The vertices of a sequence of moves."""
    position, found = position.copy(), []
    for action in actions:
        found.append(vertex(position.to_move(action)))
        position.play(action)
    return found


def win_rate(value: float) -> float:
    """A value in [-1, 1] as a share of won games."""
    return (max(-1.0, min(1.0, value)) + 1) / 2


def leela_line(report: Report, position: Position, options: Options) -> str:
    """`info move D4 visits 9 winrate 5123 prior 1200 lcb 4800 order 0 pv D4 Q16 info …`: in units of 1/10,000."""
    return " ".join(
        f"info move {vertex(move.move)} visits {move.visits} winrate {round(10_000 * win_rate(move.value))} "
        f"prior {round(10_000 * move.prior)} lcb {round(10_000 * win_rate(move.lower_bound))} order {order} "
        f"pv {' '.join(vertices(position, move.variation))}"
        for order, move in enumerate(shown_moves(report, options))
    )


def katago_line(report: Report, position: Position, options: Options) -> str:
    """The same with numbers from 0 to 1, and what the flags ask for."""
    parts = []
    for order, move in enumerate(shown_moves(report, options)):
        parts.append(
            f"info move {vertex(move.move)} visits {move.visits} utility {_real(move.value)} "
            f"winrate {_real(win_rate(move.value))} prior {_real(move.prior)} lcb {_real(win_rate(move.lower_bound))} "
            f"utilityLcb {_real(move.lower_bound)} order {order} pv {' '.join(vertices(position, move.variation))}"
        )
        if options.flags.get("pvVisits"):
            parts.append("pvVisits " + " ".join(map(str, move.variation_visits or (move.visits,))))
    if options.flags.get("rootInfo"):
        score = "" if report.score is None else f" scoreMean {_real(report.score)} scoreLead {_real(report.score)}"
        parts.append(f"rootInfo visits {report.simulations} utility {_real(report.value)} "
                     f"winrate {_real(win_rate(report.value))}{score}")
    if options.flags.get("ownership") and report.ownership is not None:
        parts.append("ownership " + " ".join(map(_real, report.ownership.reshape(-1).tolist())))
    return " ".join(parts)


def _real(number: float) -> str:
    """With a point always: Sabaki takes a number without one for hundredths of a percent."""
    return f"{number:.6f}"


Line = Callable[[Report, Position, Options], str]


def _analyze(line: Line) -> Command:
    def command(engine: Engine, words: Sequence[str]) -> str | Thinking:
        """Searches the colour's move until the next line of input, and tells about it."""
        colour, rest = colour_to_move(engine, words)
        options = parse_options(rest, colour)
        engine.place(colour)
        position = engine.analysis.position
        restrict_actions(position, options)
        show = _show(engine, line, position, options)
        return Thinking(Limits(actions=options.actions), lambda report: "", show, options.interval, ends_at_input=True)

    return command


def _genmove_analyze(line: Line) -> Command:
    def command(engine: Engine, words: Sequence[str]) -> str | Thinking:
        """As genmove, and tells about the search; the answer ends with `play VERTEX`."""
        colour, rest = colour_to_move(engine, words)
        options = parse_options(rest, colour)
        if engine.passes:
            return f"\n{engine.generate(colour, prefix='play ')}"
        engine.place(colour)
        position = engine.analysis.position
        restrict_actions(position, options)
        show = _show(engine, line, position, options)
        return engine.generate(colour, actions=options.actions, show=show, interval=options.interval, prefix="play ")

    return command


def _show(engine: Engine, line: Line, position: Position, options: Options) -> Callable[[Report], str]:
    """The line of a report.  A missing head is no error: a client would rather have an analysis without it."""

    def show(report: Report) -> str:
        if options.flags.get("ownership") and report.ownership is None:
            engine.note_once("ownership is left out: these weights have no such head")
        return line(report, position, options)

    return show


OF_ALL_GAMES: dict[str, Command] = {
    "lz-analyze": _analyze(leela_line), "kata-analyze": _analyze(katago_line),
    "lz-genmove_analyze": _genmove_analyze(leela_line), "kata-genmove_analyze": _genmove_analyze(katago_line),
}
