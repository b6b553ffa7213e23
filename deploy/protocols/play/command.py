"""`shusaku play checkpoint=…`: a game against a network, in the terminal or through a pipe."""

import io
import sys
from typing import Any

from shusaku.common.config.schema import Config
from shusaku.common.errors import UsageError
from shusaku.deploy.protocols.opening import open_analysis
from shusaku.deploy.protocols.play.session import PlayError, Session, Strength, parse_side

PROMPT = "> "


def run(config: Config, as_json: bool) -> dict[str, Any]:
    """Plays until `quit` or the end of stdin; the JSON has the moves and the result."""
    opened = open_analysis(config)
    for note in opened.notes:
        print(note, file=sys.stderr)
    try:
        side = parse_side(config.play.side, opened.game)
    except PlayError as error:
        raise UsageError(f"play.{error}") from None
    weights = opened.chosen.weights
    print(f"{opened.game.name}, version {weights.version} after {weights.step:,} steps, on {opened.evaluator}; "
          f"{opened.simulations:,} simulations a move; help lists the commands")
    strength = Strength(opened.simulations, config.play.temperature)
    session = Session(opened.game, opened.analysis, strength, side, config.run.seed)
    try:
        play(session)
    except KeyboardInterrupt:
        print()
        raise
    finally:
        opened.analysis.close()
    record = session.record()
    return {"checkpoint": config.checkpoint, "game": opened.game.name, "moves": [move.text for move in record.moves],
            "outcome": record.outcome, "ended_by": record.ended_by}


def play(session: Session) -> None:
    """Lines in, boards out."""
    is_terminal = sys.stdin.isatty()
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    if is_terminal:
        import readline  # noqa: F401  (arrow keys and history)
    print(session.board(), flush=True)
    while not session.has_ended:
        if session.is_computers_turn:
            print(session.think(), flush=True)
            continue
        try:
            line = input(PROMPT if is_terminal else "")
        except EOFError:
            print(end="\n" if is_terminal else "")
            return
        try:
            text = session.receive(line)
        except PlayError as error:
            text = str(error)
        if text:
            print(text, flush=True)
