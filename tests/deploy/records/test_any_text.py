"""Whatever people write into names, headers and comments, the moves and the result of a game come back."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shusaku.deploy.records.files import RecordWriter, notation_of, read_records, write_records
from shusaku.deploy.records.game_record import GameRecord, Replay

FIRST_MOVES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "sgf": ("go", {"size": 5}, ["D4", "pass"]), "pgn": ("chess", {}, ["e2e4", "e7e5"]),
    "kif": ("shogi", {}, ["7g7f", "3c3d"]), "kifu": ("minishogi", {}, ["5d5c"]),
    "csa": ("shogi", {}, ["7g7f", "3c3d"]), "jsonl": ("hex", {"size": 5}, ["a1", "b2"]),
}
SIGNS = "ab1 \t\n\r\\[](){};:'\"*%$/#&|+-@.,=~é歩手まで変化：　\x0b\x85\u2028\0"
TEXTS = st.text(st.sampled_from(SIGNS), max_size=40) | st.text(max_size=40)


@pytest.mark.parametrize("notation", FIRST_MOVES)
@given(texts=st.lists(TEXTS, min_size=6, max_size=6), outcome=st.sampled_from([-1, 0, 1, None]))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_any_text(notation: str, texts: list[str], outcome: int | None) -> None:
    game, params, moves = FIRST_MOVES[notation]
    replay = Replay(game, params)
    for move, comment in zip(moves, texts, strict=False):
        replay.play(move)
        replay.annotate(comment=comment)
    record = replay.finish(outcome=outcome, players=(texts[2], texts[3]), comment=texts[4], event=texts[5],
                           headers={texts[0]: texts[1], "Site": texts[1], "場所": texts[1], "SITE": texts[1]})
    name = f"x.{notation}"
    text = write_records([record, record], name)
    for games in (read_records(text, name), read_records(text.encode(errors="replace"), name)):
        assert games.rejects == []
        assert [one.actions for one in games.records] == [record.actions] * 2
        assert [one.outcome for one in games.records] == [record.outcome] * 2
        again = read_records(write_records(games.records, name), name)
        assert again.records == games.records  # what was read once is read again as it is


def test_a_file_takes_what_its_charset_lacks(tmp_path: Path) -> None:
    replay = Replay("shogi", {})
    replay.play("7g7f")
    record: GameRecord = replay.finish(players=("é\ud800", "王"), ended_by="interrupted")
    for notation in ("kif", "kifu", "csa", "jsonl"):
        path = tmp_path / f"x.{notation}"
        with RecordWriter(path, "shogi") as writer:
            writer.write(record)
        [read] = read_records(path).records
        assert replace(read, players=("", "")) == replace(record, players=("", ""))
        assert read.players[1] == "王"
        assert path.read_bytes().decode(notation_of(path.name).charset)
