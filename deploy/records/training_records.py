"""Games of a run as games for people, and games of others as rows to learn from.

An imported game has moves and an outcome but no search.  Its rows are those of AlphaGo's supervised learning (Silver et
al. 2016): the policy is the move that was played, alone, and every value is the outcome, for the player to move.
"""

import math
from dataclasses import replace

import numpy as np

from shusaku.common._core import Game
from shusaku.common.messages import EndedBy, GameId, RowKind
from shusaku.common.messages import GameRecord as TrainingRecord
from shusaku.deploy.records.game_record import LOST, GameRecord, Move, Param, RecordError, Replay

IMPORT_ACTOR = 1 << 30  # signs imported games; no actor has such a number
IMPORT_HASH = "imported"
WHOLE = 65_535  # shares of a policy sum to it


def from_training(record: TrainingRecord) -> GameRecord:
    """A game that self-play has made, with the values and policies of its searches; RecordError if it is illegal."""
    replay = Replay(record.game, record.params)
    for ply, action in enumerate(record.actions.tolist()):
        replay.play_action(action, str(action))
        begin, end = int(record.policy_offsets[ply]), int(record.policy_offsets[ply + 1])
        if record.kind[ply] not in (RowKind.OPENING, RowKind.IMPORTED):
            replay.annotate(value=float(record.root_values[ply]))
        if begin < end:
            actions, shares = record.policy_actions[begin:end].tolist(), record.policy_shares[begin:end].tolist()
            ranked = sorted(zip(actions, shares, strict=True), key=lambda item: (-item[1], item[0]))
            replay.annotate(policy=tuple((move, share / WHOLE) for move, share in ranked if share))
    versions = record.versions.tolist() or [0]
    name = f"Shusaku, version {min(versions)}" + (f" to {max(versions)}" if max(versions) > min(versions) else "")
    if len(record) and record.kind[-1] == RowKind.IMPORTED:
        name = ""
    return replay.finish(
        outcome=record.outcome, score=None if math.isnan(record.score) else record.score, ended_by=str(record.ended_by),
        players=(name, name), comment=f"game {'.'.join(map(str, record.game_id))}")


def to_training(
    record: GameRecord, game: Game, *, number: int, epoch: int = 0, weight: float = 1.0, unknown: str = "reject",
    skip: int = 0,
) -> TrainingRecord:
    """The game as rows for a run of `game`, whose komi alone may differ; RecordError with the reason if it is none.

    `unknown`: what becomes of a game without a result, reject | draw; `skip`: plies at its begin whose rows have no
    weight.

    If the rules see another result than the record (dead stones that were left on the board, a draw that was not
    claimed), or if it was lost behind the end of the rules, the last move is left out and the record's result stays.
    """
    record = _by_rules_of(record, game, unknown)
    if not record.moves:
        raise RecordError("the game has no moves")
    outcome, ended_by, moves = _result(record)
    plies = len(moves)
    if plies <= skip:
        raise RecordError(f"the game has no move behind the first {skip} plies, which are skipped")
    actions = np.array([move.action for move in moves], np.uint16)
    values = np.array([outcome if player == 0 else -outcome for player in _players(record, plies)], np.float32)
    is_whole = plies == len(record)
    return TrainingRecord(
        game=game.name, params=dict(record.params), game_id=GameId(epoch, IMPORT_ACTOR, 0, number),
        config_hash=IMPORT_HASH, outcome=outcome, ended_by=ended_by,
        score=_score(record) if is_whole else math.nan,
        actions=actions, policy_offsets=np.arange(plies + 1, dtype=np.uint32), policy_actions=actions,
        policy_shares=np.full(plies, WHOLE, np.uint16), root_values=values, raw_values=values,
        versions=np.zeros(plies, np.uint32), kind=np.full(plies, RowKind.IMPORTED, np.uint8),
        row_weight=np.where(np.arange(plies) < skip, 0, weight).astype(np.float32),
        surprise=np.zeros(plies, np.float32),
    )


def _by_rules_of(record: GameRecord, game: Game, unknown: str) -> GameRecord:
    """The game replayed under the rules of the run, with its own komi."""
    if record.game != game.name:
        raise RecordError(f"a game of {record.game}, the run plays {game.name}")
    if record.start:
        raise RecordError("the game begins with a position that was set up")
    for key in ("size", "handicap"):
        if record.params.get(key) != game.params.get(key):
            raise RecordError(f"{key} {record.params.get(key)}, the run has {game.params.get(key)}")
    params: dict[str, Param] = dict(game.params)
    if "komi" in params and "komi" not in record.assumed:
        params["komi"] = record.params["komi"]
    replay = Replay(game.name, params)
    for move in record.moves:
        replay.play_action(move.action, move.text)
    outcome = None if "outcome" in record.assumed else record.outcome
    played = replay.finish(outcome=outcome, ended_by=record.ended_by)
    if played.outcome is None:
        if unknown == "reject":
            raise RecordError("the result is not known")
        played = replay.finish(outcome=0, ended_by="interrupted")
    return replace(played, score=None)


def _result(record: GameRecord) -> tuple[int, EndedBy, tuple[Move, ...]]:
    """Outcome, end, and the moves that fit to it."""
    assert record.outcome is not None
    last = record.last_position()
    if not last.is_terminal:
        return record.outcome, EndedBy.RESIGNATION if record.outcome else EndedBy.PLY_LIMIT, record.moves
    by_rules = last.outcome if last.to_play == 0 else -last.outcome
    if by_rules == record.outcome and record.ended_by not in LOST:
        return by_rules, EndedBy.PLY_LIMIT if last.is_cut_off else EndedBy.RULES, record.moves
    if record.game != "go" and by_rules != 0 and record.ended_by not in (*LOST, "interrupted"):
        names = {1: "the first player has won", 0: "it is a draw", -1: "the second player has won"}
        raise RecordError(f"the file says that {names[record.outcome]}, by the rules {names[by_rules]}", len(record))
    moves = record.moves[:-1]
    if not moves:
        raise RecordError("the game has no moves")
    return record.outcome, EndedBy.RESIGNATION if record.outcome else EndedBy.PLY_LIMIT, moves


def _players(record: GameRecord, plies: int) -> list[int]:
    return [position.to_play for position, _ in record.positions()][:plies]


def _score(record: GameRecord) -> float:
    """For the first player; NaN if the rules did not end the game: a resignation, a draw by agreement."""
    last = record.last_position()
    if not last.is_terminal:
        return math.nan
    return last.score if last.to_play == 0 else -last.score
