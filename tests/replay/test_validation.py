"""Records that must not be learned from go to the quarantine."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from shusaku.common._core import Game
from shusaku.common.codec import decode_record
from shusaku.common.config.schema import ReplayConfig
from shusaku.common.messages import EndedBy, GameRecord
from shusaku.replay.memory_buffer import MemoryBuffer
from shusaku.replay.validation import Quarantine

MakeRecord = Callable[..., GameRecord]
CONFIG = ReplayConfig(capacity=1000, minimum=100)


Edit = Callable[[GameRecord], GameRecord]


def put(**fields: Any) -> Edit:
    return lambda record: replace(record, **fields)


def at(column: str, index: int, value: Any) -> Edit:
    def edit(record: GameRecord) -> GameRecord:
        copy = getattr(record, column).copy()
        copy[index] = value
        return replace(record, **{column: copy})

    return edit


def repeat_a_move(record: GameRecord) -> GameRecord:
    """Fills its column, or hits its cell again."""
    return replace(record, actions=np.full(len(record), record.actions[0], np.uint16))


def keep(plies: int) -> Edit:
    """Only the first rows; a negative number counts from the end."""

    def edit(record: GameRecord) -> GameRecord:
        names = ("actions", "root_values", "raw_values", "versions", "kind", "row_weight", "surprise")
        bounds = record.policy_offsets[: len(record.actions[:plies]) + 1]
        return replace(
            record,
            **{name: getattr(record, name)[:plies] for name in names},
            policy_offsets=bounds,
            policy_actions=record.policy_actions[: bounds[-1]],
            policy_shares=record.policy_shares[: bounds[-1]],
        )

    return edit


def drop_policies(record: GameRecord) -> GameRecord:
    none = np.zeros(0, np.uint16)
    return replace(record, policy_offsets=np.zeros_like(record.policy_offsets), policy_actions=none, policy_shares=none)


def swap_outcome(record: GameRecord) -> GameRecord:
    return replace(record, outcome=-1 if record.outcome != -1 else 1)


BAD: list[tuple[str, Edit, str]] = [
    ("illegal move", at("actions", 1, 200), "action: 200 is illegal at ply 1"),
    ("repeated move", repeat_a_move, "action: "),
    ("policy off the board", at("policy_actions", -1, 300), "policy: action 300 is illegal"),
    ("policy sum", at("policy_shares", 0, 0), "policy: shares sum to"),
    ("policy order", at("policy_actions", 1, 0), "policy: actions are not ascending at ply 0"),
    ("no policy", drop_policies, "policy: missing in a row with weight at ply 0"),
    ("NaN value", at("root_values", 0, np.nan), "number: not finite at ply 0"),
    ("NaN raw value", at("raw_values", 2, np.nan), "number: not finite at ply 2"),
    ("NaN weight", at("row_weight", 0, np.nan), "number: not finite"),
    ("infinite surprise", at("surprise", 0, np.inf), "number: not finite"),
    ("large value", at("root_values", 0, 7), "number: a value outside"),
    ("negative weight", at("row_weight", 0, -1), "number: a weight outside"),
    ("unknown kind", at("kind", 0, 9), "kind: unknown at ply 0"),
    ("unknown schema", put(schema=3), "schema: 3 is unknown; this program reads (1, 2)"),
    ("odd schema", put(schema="new"), "schema: 'new' is unknown"),
    ("wrong outcome", swap_outcome, "outcome: "),
    ("impossible outcome", put(outcome=5), "format: outcome must be -1, 0 or 1, not 5"),
    ("resigned after the end", put(ended_by=EndedBy.RESIGNATION), "outcome: the rules ended the game"),
    ("not over", keep(-1), "outcome: the game is not over"),
    ("no plies", keep(0), "length: the game has no plies"),
    ("other game", put(game="chess"), "game: 'chess', this run plays "),
    ("other parameters", put(params={"gravity": 2}), "game: parameters {'gravity': 2}, this run plays with OURS"),
    ("other configuration", put(config_hash="beef"), "config: hash 'beef', this run has c0ffee"),
    ("unknown version", at("versions", 1, 8), "version: 8 is unknown; the newest published is 7"),
    ("lengths", put(surprise=np.zeros(1, np.float32)), "format: column surprise must be float32"),
    ("types", put(root_values=np.zeros(9)), "format: column root_values must be float32"),
    ("no array", put(actions=None), "format: column actions must be an array, not None"),
    ("no name", put(game_id=None), "format: game_id must be four numbers, not None"),
]


@pytest.mark.parametrize(("break_it", "reason"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_a_bad_record_goes_into_quarantine(game: Game, make_record: MakeRecord, break_it: Edit, reason: str) -> None:
    accepted: list[bytes] = []
    buffer = MemoryBuffer(game, CONFIG, batch_size=32, config_hash="c0ffee", on_accept=accepted.append)
    buffer.record_version(7)
    record = break_it(make_record(game))
    buffer.append(record)
    stats = buffer.stats()
    (entry,) = buffer.quarantine.entries
    assert entry.reason.startswith(reason.replace("OURS", str(game.params)))
    assert stats.quarantined == {reason.partition(":")[0]: 1}
    assert (stats.accepted, stats.rows, stats.games, accepted) == (0, 0, 0, [])
    if not reason.startswith(("format", "schema")):
        assert decode_record(entry.data).game_id == record.game_id
    buffer.append(make_record(game))  # the number was not used up
    assert buffer.stats().accepted == 1


def test_a_record_from_before_its_game_had_a_choice_of_planes(make_record: MakeRecord) -> None:
    game = Game("connect_four", {"planes": "threats"})
    old, other = replace(make_record(game, 1), params={}), replace(make_record(game, 2), params={"planes": "stones"})
    buffer = MemoryBuffer(game, CONFIG, batch_size=32)
    for record in (old, other):
        buffer.append(record)
    assert buffer.stats().accepted == 1
    assert [entry.reason for entry in buffer.quarantine.entries] == [
        "game: parameters {'planes': 'stones'}, this run plays with {'planes': 'threats'}"]


def test_good_records_of_every_end(game: Game, make_record: MakeRecord) -> None:
    buffer = MemoryBuffer(game, CONFIG, batch_size=32)
    buffer.record_version(3)
    resigned = replace(keep(-1)(make_record(game, 1)), ended_by=EndedBy.RESIGNATION, outcome=1)
    stopped = replace(keep(-1)(make_record(game, 2)), ended_by=EndedBy.PLY_LIMIT, outcome=0)
    current = replace(
        make_record(game, 3), config_hash="any", versions=np.full(len(make_record(game, 3)), 3, np.uint32)
    )
    for record in (resigned, stopped, current, decode_record(accepted_bytes(game, make_record(game, 4)))):
        buffer.append(record)
    assert list(buffer.quarantine.entries) == []
    assert buffer.stats().accepted == 4


def accepted_bytes(game: Game, record: GameRecord) -> bytes:
    accepted: list[bytes] = []
    MemoryBuffer(game, CONFIG, batch_size=32, on_accept=accepted.append).append(record)
    return accepted[0]


def test_the_quarantine_is_bounded() -> None:
    quarantine = Quarantine(limit=3)
    for number in range(10):
        quarantine.add(f"action: {number} is illegal", bytes(Quarantine.MAX_DATA + number))
    quarantine.add("without a key", b"")
    assert [entry.reason for entry in quarantine.entries] == [
        "action: 8 is illegal",
        "action: 9 is illegal",
        "without a key",
    ]
    assert max(len(entry.data) for entry in quarantine.entries) == Quarantine.MAX_DATA
    assert quarantine.counts == {"action": 10, "without a key": 1}
