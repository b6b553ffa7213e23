import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recorded_games import random_records
from runs_in_process import WIRINGS

from shusaku.common._core import Game, RowRing
from shusaku.common.codec import decode_record
from shusaku.common.messages import EndedBy, RowKind
from shusaku.deploy.cli.main import main
from shusaku.deploy.records.files import read_records, write_records
from shusaku.deploy.records.game_record import GameRecord, RecordError, Replay
from shusaku.deploy.records.training_records import from_training, to_training
from shusaku.replay.record_log import RecordLog


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, JSON and stderr of `shusaku records`."""
    code = main(["records", *words, "--json"])
    out, err = capsys.readouterr()
    lines = out.splitlines()
    return code, json.loads(lines[-1]) if lines else {}, err


def games_file(path: Path, game: str = "connect_four", games: int = 30, **params: Any) -> list[GameRecord]:
    records = random_records(game, params, games)
    path.write_text(write_records(records, path.name), encoding="utf-8")
    return records


def test_check_counts_games_and_rejects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.sgf"
    file.write_text("(;SZ[9];B[aa](;W[bb])(;W[cc]))\n(;SZ[9];B[aa];W[aa])\n(;SZ[9];B[dd])", encoding="utf-8")
    code, result, err = call(capsys, "check", f"records.file={file}")
    assert code == 1
    assert (result["games"], result["plies"], result["variations"], result["rejected"]) == (2, 3, 1, 1)
    assert result["rejects"] == [{"file": str(file), "game": 2, "move": 2, "reason": "illegal move 'aa'"}]
    assert "1 of 3 games rejected" in err
    assert len(err.splitlines()) == 1
    file.write_text("(;SZ[9];B[aa])", encoding="utf-8")
    assert call(capsys, "check", f"records.file={file}")[0] == 0


def test_check_for_a_run_says_what_it_would_take(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.sgf"
    texts = ["(;SZ[9]KM[5.5]RE[B+R];B[aa])",
             "(;SZ[9];B[aa])", "(;SZ[9]AB[aa]PL[W]RE[B+R];W[bb])",
             "(;SZ[13]RE[B+R];B[aa])",
             "(;GM[2]RE[B+R];B[d3])"]
    file.write_text("\n".join(texts), encoding="utf-8")
    code, result, _ = call(capsys, "check", f"records.file={file}", "game=go", "game.size=9")
    assert (code, result["games"], result["rejected"]) == (1, 1, 4)
    reasons = [reject["reason"] for reject in result["rejects"]]
    parts = ("result is not known", "was set up", "size 13, the run has 9", "of othello")
    for reason, part in zip(reasons, parts, strict=True):
        assert part in reason


def test_from_one_notation_to_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "a.kifu"
    records = games_file(source, "shogi", 4, max_plies=40)
    code, result, _ = call(capsys, "export", f"records.source={source}", f"records.file={tmp_path / 'b.csa'}")
    assert (code, result["games"]) == (0, 4)
    assert [game.actions for game in read_records(tmp_path / "b.csa").records] == [game.actions for game in records]
    file = tmp_path / "c.jsonl"
    call(capsys, "export", f"records.source={tmp_path / '*.csa'}", f"records.file={file}", "records.games=3")
    assert [game.actions for game in read_records(file).records] == [game.actions for game in records[1:]]


@pytest.mark.parametrize("wiring", WIRINGS)
def test_export_of_a_run(wiring: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = WIRINGS[wiring]("go_9x9", tmp_path / "run", "game.size=5", "game.komi=3.5", "network.blocks=0")
    try:
        run.play_and_learn(110)
    finally:
        run.close()
    file = tmp_path / "x.sgf"
    words = ("export", f"run.dir={tmp_path / 'run'}", f"records.file={file}", "records.comments=true")
    code, result, _ = call(capsys, *words)
    assert code == 0
    games = read_records(file).records
    assert len(games) == result["games"] >= 2
    assert all(game.params["size"] == 5 for game in games)
    searched = [move for game in games for move in game.moves if move.value is not None]
    assert searched
    assert any(move.policy for move in searched)
    call(capsys, "export", f"run.dir={tmp_path / 'run'}", f"records.file={tmp_path / 'y.sgf'}", "records.games=1")
    [last] = read_records(tmp_path / "y.sgf").records
    assert last.actions == games[-1].actions


def test_imported_games_are_learned_from_before_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, directory = tmp_path / "x.jsonl", tmp_path / "run"
    records = games_file(file, games=40)
    words = ("import", f"records.file={file}", f"run.dir={directory}", "game=connect_four", "records.weight=0.5")
    code, result, _ = call(capsys, *words)
    assert (code, result["games"]) == (0, 40)
    assert sum(1 for _ in RecordLog(directory / "imported").iterate()) == 40
    rows = sum(map(len, records))
    run = WIRINGS["local"]("connect_four", directory)
    try:
        run.play_and_learn(rows // 2)
        first = [decode_record(data) for data in RecordLog(directory / "records").iterate()]
        assert first
        assert all(record.kind[0] == RowKind.IMPORTED for record in first)
    finally:
        run.close()
    run = WIRINGS["local"]("connect_four", directory)
    try:
        run.play_and_learn(rows)
        kept = [decode_record(data) for data in RecordLog(directory / "records").iterate()]
    finally:
        run.close()
    imported = [record for record in kept if record.kind[0] == RowKind.IMPORTED]
    assert [tuple(record.actions.tolist()) for record in imported] == [record.actions for record in records]
    assert len(kept) > len(imported)
    assert {float(record.row_weight[0]) for record in imported} == {0.5}
    # By the game of the run.
    assert call(capsys, "import", f"records.file={file}", f"run.dir={directory}", "game=tic_tac_toe")[0] == 0


@pytest.mark.parametrize(("game", "params"), [("go", {"size": 5}), ("chess", {}), ("connect_four", {}),
                                              ("shogi", {"max_plies": 50})])
def test_rows_of_imported_games(game: str, params: dict[str, Any]) -> None:
    rules = Game(game, params)
    ring = RowRing(rules, 2 * rules.max_plies)
    for record in random_records(game, params, 6):
        rows = to_training(record, rules, number=0)
        assert ring.append(rows) == len(record)
        assert np.array_equal(rows.policy_actions, rows.actions)
        assert set(rows.policy_shares.tolist()) == {65_535}
        assert rows.outcome == record.outcome
        assert rows.root_values[0] == record.outcome
        assert from_training(rows).actions == record.actions


def test_the_result_of_the_file_stays_where_the_rules_see_another_one() -> None:
    rules = Game("go", {"size": 5})
    replay = Replay("go", {"size": 5, "komi": 0.5})
    for move in ("C3", "pass", "pass"):
        replay.play(move)
    by_rules = replay.finish()
    assert by_rules.outcome == 1
    other = replay.finish(outcome=-1)  # such as after dead stones were taken away
    rows = to_training(other, rules, number=0)
    assert (rows.outcome, rows.ended_by, len(rows), rows.params["komi"]) == (-1, EndedBy.RESIGNATION, 2, 0.5)
    assert RowRing(rules, 100).append(rows, 0.5) == 2
    replay = Replay("connect_four", {})
    for move in "1212121":
        replay.play(move)
    with pytest.raises(RecordError, match="by the rules the first player has won"):
        to_training(replay.finish(outcome=-1), Game("connect_four"), number=0)


def read_sgf(text: str) -> GameRecord:
    [record] = read_records(text, "x.sgf").records
    return record


def test_a_game_that_was_given_up_behind_two_passes_is_learned_from_without_a_score() -> None:
    rules = Game("go", {"size": 9})
    rows = to_training(read_sgf("(;SZ[9]KM[7]RE[B+R];B[ee];W[];B[])"), rules, number=0)
    assert (rows.outcome, rows.ended_by, len(rows)) == (1, EndedBy.RESIGNATION, 2)
    assert np.isnan(rows.score)
    counted = to_training(read_sgf("(;SZ[9]KM[7];B[ee];W[];B[])"), rules, number=0)
    assert (counted.outcome, counted.ended_by, len(counted), counted.score) == (1, EndedBy.RULES, 3, 74)
    ring = RowRing(rules, 100)
    assert ring.append(rows) + ring.append(counted) == 5


def test_the_first_moves_of_a_game_may_have_no_weight() -> None:
    rules, record = Game("go", {"size": 9}), read_sgf("(;SZ[9]KM[7]RE[B+R];B[ee];W[cc];B[gc])")
    rows = to_training(record, rules, number=0, weight=0.5, skip=2)
    assert rows.row_weight.tolist() == [0, 0, 0.5]
    assert rows.num_rows == 1
    with pytest.raises(RecordError, match="no move behind the first 3 plies"):
        to_training(record, rules, number=0, skip=3)


@pytest.mark.parametrize("result", ["RE[Void]", "RE[?]"])
def test_a_result_that_is_not_known_is_not_learned_from(result: str) -> None:
    rules, record = Game("go", {"size": 9}), read_sgf(f"(;SZ[9]KM[7]{result};B[ee];W[];B[])")
    with pytest.raises(RecordError, match="the result is not known"):
        to_training(record, rules, number=0)
    drawn = to_training(record, rules, number=0, unknown="draw")
    assert (drawn.outcome, len(drawn)) == (0, 2)
    assert RowRing(rules, 100).append(drawn) == 2
    [cut] = read_records("1. Nf3 Nf6 2. Ng1 Ng8 3. Nf3 Nf6 4. Ng1 Ng8 5. e4 *", "x.pgn").records
    with pytest.raises(RecordError, match="the result is not known"):
        to_training(cut, Game("chess"), number=0)
    [mate] = read_records('[Termination "unterminated"]\n\n1. f3 e5 2. g4 Qh4# *', "x.pgn").records
    assert to_training(mate, Game("chess"), number=0, unknown="draw").outcome == 0


def test_without_a_komi_the_komi_of_the_run_is_learned_with() -> None:
    for komi, outcome in ((7.0, 1), (90.5, -1)):
        rules = Game("go", {"size": 9, "komi": komi})
        rows = to_training(read_sgf("(;SZ[9]RE[B+R];B[ee];W[])"), rules, number=0)
        assert (rows.params["komi"], rows.outcome) == (komi, 1)
        rows = to_training(read_sgf("(;SZ[9];B[ee];W[];B[])"), rules, number=0)
        assert (rows.params["komi"], rows.outcome, rows.ended_by) == (komi, outcome, EndedBy.RULES)
        rows = to_training(read_sgf("(;SZ[9]KM[6.5];B[ee];W[];B[])"), rules, number=0)
        assert (rows.params["komi"], rows.outcome) == (6.5, 1)


@pytest.mark.parametrize(("words", "part"), [
    (["check"], "records.file= is missing"),
    (["check", "records.file=x.doc"], "the ending .doc is no notation; there are .sgf"),
    (["check", "records.file=/no/such/x.sgf"], "no such file"),
    (["export", "records.file=x.sgf", "run.dir=/no/such"], "holds no run"),
    (["export", "records.file=x.pgn", "records.source={go}"], "pgn holds chess, not go"),
    (["export", "records.file=/no/such/x.sgf", "records.source={go}"], "No such file"),
    (["import", "records.file={go}", "records.weight=0", "game=go"], "records.weight"),
    (["import", "records.file={go}", "records.skip_plies=-1", "game=go"], "records.skip_plies"),
    (["swap", "records.file=x.sgf"], "unknown WHAT"),
])
def test_wrong_usage(words: list[str], part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    games_file(tmp_path / "go.sgf", "go", 1, size=5)
    code, _, err = call(capsys, *(word.format(go=tmp_path / "go.sgf") for word in words))
    assert code == 2
    assert part in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(("ending", "game"), [("sgf", "othello"), ("pgn", "chess"), ("csa", "minishogi"),
                                              ("jsonl", "tic_tac_toe")])
def test_a_match_writes_its_games(ending: str, game: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / f"x.{ending}"
    more = ["game.max_plies=40"] if game in ("chess", "minishogi") else []
    assert main(["match", f"game={game}", *more, "first.engine=random", "second.engine=random", "games=4",
                 "match.opening_plies=2", f"match.file={file}", "--json"]) == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    games = read_records(file)
    assert games.rejects == []
    assert len(games.records) == report["games"] == 4
    assert all(record.outcome is not None and record.players[0] == "random mover" for record in games.records)


def test_a_match_refuses_a_notation_without_its_game(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["match", "game=connect_four", "first.engine=random", "second.engine=random", "games=2",
                 f"match.file={tmp_path / 'x.sgf'}"]) == 2
    assert "sgf holds go, othello, hex, not connect_four" in capsys.readouterr().err


def log_records(directory: Path) -> list[Any]:
    return [decode_record(data) for data in RecordLog(directory).iterate()]


def test_import_into_a_record_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each game once; what is left out is counted, and said by file, game, move and reason."""
    file, out = tmp_path / "x.sgf", tmp_path / "log"
    texts = ["(;SZ[9]KM[5.5]RE[B+R];B[aa];W[bb])", "(;SZ[9]RE[W+R];B[aa];W[bb])", "(;SZ[9]RE[B+R];B[aa];W[aa])",
             "(;SZ[9];B[cc];W[bb])", "(;SZ[9]RE[0];B[dd])"]
    file.write_text("\n".join(texts), encoding="utf-8")
    words = ["import", f"records.file={file}", "game=go", "game.size=9"]
    code, result, err = call(capsys, *words, f"records.out={out}")
    assert code == 1
    assert (result["games"], result["duplicates"], result["rejected"]) == (2, 1, 2)
    assert [(reject["game"], reject["move"]) for reject in result["rejects"]] == [(3, 2), (4, 0)]
    first, second = log_records(out)
    assert (first.outcome, first.params["komi"], second.outcome) == (1, 5.5, 0)
    assert [first.actions.tolist(), second.actions.tolist()] == [[0, 10], [30]]
    assert set(first.kind) == {RowKind.IMPORTED}
    assert not (tmp_path / "log.part").exists()
    assert not (tmp_path / "runs").exists()
    assert "is there already" in call(capsys, *words, f"records.out={out}")[2]
    drawn = tmp_path / "drawn"
    code, result, _ = call(capsys, *words, f"records.out={drawn}", "records.unknown=draw")
    assert (result["games"], result["duplicates"], result["rejected"]) == (3, 1, 1)
    assert [record.outcome for record in log_records(drawn)] == [1, 0, 0]
    assert len(err.splitlines()) == 1


def test_import_of_nothing_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "x.sgf", tmp_path / "log"
    file.write_text("(;SZ[13]RE[B+R];B[aa])", encoding="utf-8")
    code, _, err = call(capsys, "import", f"records.file={file}", f"records.out={out}", "game=go", "game.size=9")
    assert code == 2
    assert "no game can be taken; first:" in err
    assert "size 13, the run has 9" in err
    assert len(err.splitlines()) == 1
    assert not list(tmp_path.glob("log*"))
