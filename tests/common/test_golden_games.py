"""Games that earlier versions have recorded are decoded, replayed and labelled as they were then."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from external_fixtures import Takeaway
from golden_games import FOLDER, describe, describe_rows, make_game

from shusaku.common.codec import decode_record
from shusaku.common.messages import GameRecord, RowKind

FILES = sorted(FOLDER.glob("*/*.msgpack"))


def read(path: Path) -> tuple[list[GameRecord], dict[str, Any]]:
    return ([decode_record(data) for data in msgpack.unpackb(path.read_bytes())],
            json.loads(path.with_suffix(".json").read_text()))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_record_says_what_it_said(path: Path) -> None:
    records, expected = read(path)
    assert [describe(record) for record in records] == expected["records"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_its_rows_are_what_they_were(path: Path) -> None:
    records, expected = read(path)
    assert describe_rows(make_game(path.stem), records) == expected["rows"]


def test_the_golden_games_have_everything_that_a_record_may_hold() -> None:
    assert {path.stem for path in FILES} == {"connect_four", "go_9x9", "moves_twice"}
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 100_000
    seen: Counter[str] = Counter()
    for path in FILES:
        for record in read(path)[0]:
            seen.update([str(record.ended_by), f"outcome {record.outcome}"])
            seen.update(RowKind(kind).name for kind in record.kind)
            seen["komi"] += record.params.get("komi", 7.0) != 7.0
            seen["score"] += not np.isnan(record.score)
            seen["decided"] += bool(((record.row_weight > 0) & (record.row_weight < 1)).any())
    assert all(seen[name] for name in (
        "rules", "resignation", "outcome 1", "outcome -1", "OPENING", "FULL", "CHEAP", "komi", "score", "decided",
    )), seen


@pytest.mark.parametrize("path", [path for path in FILES if path.stem == "moves_twice"], ids=lambda p: p.parent.name)
def test_z_of_a_golden_game_follows_from_its_rules(path: Path) -> None:
    """Worked out by the rules in Python, for a game in which the parity of the ply does not tell who moves."""
    records, expected = read(path)
    outcomes, by_parity = "", ""
    for record in records:
        rules = Takeaway(20)
        state = rules.start()
        for t, action in enumerate(record.actions):
            if record.row_weight[t] > 0:
                outcomes += "-=+"[1 + (record.outcome if rules.to_play(state) == 0 else -record.outcome)]
                by_parity += "-=+"[1 + record.outcome * (-1) ** t]
            state = rules.play(state, int(action))
        assert rules.is_terminal(state) == (record.ended_by == "rules")
        if rules.is_terminal(state):
            assert record.outcome == (-1 if rules.to_play(state) == 0 else 1), "the other player took the last"
    assert outcomes == expected["rows"]["z"] != by_parity
