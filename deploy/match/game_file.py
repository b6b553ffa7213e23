"""`match.file`: the games of a match as they end, in the notation that the file's ending says, else as JSON lines."""

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from shusaku.actors.arena.arena import FinishedGame
from shusaku.common._core import Game
from shusaku.common.config.schema import Config
from shusaku.common.errors import UsageError
from shusaku.deploy.match.players import MatchParts
from shusaku.deploy.records import json_lines
from shusaku.deploy.records.files import ENDINGS, RecordWriter
from shusaku.deploy.records.game_record import GameRecord, Replay


def open_game_file(config: Config, parts: MatchParts, stack: ExitStack) -> Callable[[FinishedGame], None]:
    """A function that writes a game; UsageError if the file cannot be written, or its notation lacks the game."""
    path, game = config.match.file, parts.game
    if not path:
        return lambda finished: None

    def names() -> tuple[str, str]:  # an engine tells it only when it plays
        return parts.seats[0].player.name, parts.seats[1].player.name

    if ENDINGS.get(Path(path).suffix.lower(), "jsonl") != "jsonl":
        try:
            writer = stack.enter_context(RecordWriter(Path(path), game.name))
        except UsageError as error:
            raise UsageError(f"match.file={error}") from None
        return lambda finished: writer.write(record_of(finished, game, names()))
    try:
        file = stack.enter_context(Path(path).open("w", encoding="utf-8", buffering=1))  # noqa: SIM115  (closed by the stack)
    except OSError as error:
        raise UsageError(f"match.file={path}: {error.strerror}; name a file that can be written") from None

    def write(finished: FinishedGame) -> None:
        facts = json_lines.to_json(record_of(finished, game, names()))
        file.write(json.dumps({**facts, **finished.to_json()}) + "\n")

    return write


def record_of(finished: FinishedGame, game: Game, names: tuple[str, str]) -> GameRecord:
    """The game as a record; `names` of the first and the second player of the match."""
    replay = Replay(game.name, game.params)
    for action in finished.actions:
        replay.play_action(action, str(action))
    points = finished.points if finished.side == 0 else 1 - finished.points
    return replay.finish(
        outcome=round(2 * points - 1), ended_by=finished.ended_by,
        players=(names[finished.side], names[1 - finished.side]),
        date=time.strftime("%Y-%m-%d"), event=f"shusaku match, game {finished.number + 1}", comment=finished.message)
