"""`loadsgf`: a game of a file."""

from collections.abc import Sequence
from pathlib import Path

from shusaku.common.errors import UsageError
from shusaku.deploy.protocols.gtp.engine import Command, Engine
from shusaku.deploy.protocols.gtp.game_state import cells_of
from shusaku.deploy.protocols.gtp.text import WHITE, CommandError, expect_words, parse_count
from shusaku.deploy.records.files import read_records
from shusaku.deploy.records.game_record import GameRecord


def loadsgf(engine: Engine, words: Sequence[str]) -> str:
    """The first game of a file, with the komi that it says, up to the position before the move of the given number."""
    expect_words(words, 1, 2)
    until = parse_count(words[1]) - 1 if len(words) == 2 else None
    try:
        records = read_records(Path(words[0]), "game.sgf", limit=1).records
    except (UsageError, OSError):
        records = []
    if not records or records[0].game != "go" or records[0].params["size"] != engine.state.size:
        raise CommandError("cannot load file")
    komi = engine.state.komi
    engine.begin_game()
    try:
        _replay(engine, records[0], until)
    except (CommandError, ValueError):  # a move that the rules of today forbid
        engine.state.komi = komi
        engine.begin_game()
        raise CommandError("cannot load file") from None
    return ""


def _replay(engine: Engine, record: GameRecord, until: int | None) -> None:
    """Komi, set-up stones and moves of the record, before the move with the number `until`, from 0."""
    state, start = engine.state, record.first_position()
    if "komi" not in record.assumed:
        state.komi = float(record.params["komi"])
    state.set_rules(engine.rules.params)
    stones = {cell: colour for cell, colour in enumerate(cells_of(start, state.size)) if colour is not None}
    if len(stones) >= 2 and WHITE not in stones.values() and start.to_play == WHITE:
        state.place_handicap(stones)
    elif stones or start.to_play:
        state.set_up(stones, start.to_play)
    for number, (position, move) in enumerate(record.positions()):
        if number == until:
            return
        state.play(position.to_play, move.text)


OF_GO: dict[str, Command] = {"loadsgf": loadsgf}
