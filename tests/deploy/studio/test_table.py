"""The game on the table: moves, sides, the analysis that follows, and what goes wrong."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from studio_fixtures import make_table, settle

from shusaku.common._core import Game
from shusaku.deploy.records.game_record import GameRecord, Move
from shusaku.deploy.studio.table import ENGINE, HUMAN, Settings, Table, TableError


@pytest.fixture
def table() -> Iterator[Table]:
    made = make_table(Game("tic_tac_toe"))
    yield made
    made.close()


def test_the_engine_answers_every_move_until_the_game_is_over(table: Table) -> None:
    table.new((HUMAN, ENGINE))
    while not table.state()["result"]:
        assert table.state()["to_play"] == 0
        table.play(table.state()["legal"][0]["action"])
        assert table.state()["thinking"] == "" or table.state()["thinking"] == "move"
        settle(table, lambda: table.position.to_play == 0)
    state = table.state()
    assert state["end"] == state["result"]
    assert len(state["moves"]) >= 5
    assert state["values"][-1] in (-1.0, 0.0, 1.0)
    with pytest.raises(TableError, match="the game is over"):
        table.play(0)


def test_the_engine_plays_itself(table: Table) -> None:
    table.new((ENGINE, ENGINE))
    settle(table)
    assert table.position.is_terminal
    assert all(value is not None for value in table.state()["values"])


def test_undo_goes_back_to_a_human_move(table: Table) -> None:
    table.new((HUMAN, ENGINE))
    table.play(4)
    settle(table, lambda: table.position.to_play == 0)
    assert table.ply == 2
    table.undo()
    assert (table.ply, table.actions) == (0, [])
    table.set_sides((HUMAN, HUMAN))
    table.play(4)
    table.play(0)
    table.undo()
    assert table.actions == [4]


def test_a_move_at_an_earlier_ply_drops_the_later_ones(table: Table) -> None:
    table.new((HUMAN, HUMAN))
    for action in (0, 1, 2):
        table.play(action)
    table.go_to(1)
    assert table.state()["moves"] == ["a3", "b3", "c3"]
    table.play(8)
    assert table.state()["moves"] == ["a3", "c1"]
    table.go_to(99)
    assert table.ply == 2


def test_an_engine_does_not_move_while_the_cursor_is_in_the_past(table: Table) -> None:
    table.new((HUMAN, ENGINE))
    table.play(4)
    settle(table, lambda: table.position.to_play == 0)
    table.go_to(1)
    assert table.state()["thinking"] == "analysis"
    settle(table)
    assert len(table.actions) == 2


def test_resigning_ends_the_game_for_both(table: Table) -> None:
    table.new((HUMAN, HUMAN))
    table.play(0)
    table.resign()
    state = table.state()
    assert (state["result"], state["legal"], state["thinking"]) == ("X wins by resignation", [], "")
    with pytest.raises(TableError, match="over"):
        table.play(1)
    assert (table.record().outcome, table.record().ended_by) == (1, "resignation")
    table.undo()
    assert table.state()["result"] == ""


def test_a_report_has_every_move_and_values_of_the_first_player(table: Table) -> None:
    table.new((HUMAN, HUMAN))
    table.play(4)
    settle(table)
    report = table.report()
    assert report is not None
    assert report["ply"] == 1
    assert report["simulations"] >= 16
    assert {move["action"] for move in report["moves"]} == set(table.position.legal_actions)
    assert sum(move["prior"] for move in report["moves"]) == pytest.approx(1, abs=1e-3)
    best = report["moves"][0]
    assert best["variation"][0] == best["move"]
    assert table.state()["values"][1] == pytest.approx(report["value"], abs=1e-3)


def test_a_review_gives_every_position_a_value_and_lists_drops(table: Table) -> None:
    table.new((HUMAN, HUMAN))
    table.change(Settings(16, 1, analyse=False))
    for action in (0, 3, 1, 8, 2):  # X wins; O does nothing about it
        table.play(action)
    table.review()
    settle(table)
    state = table.state()
    assert state["cursor"] == 5
    assert all(value is not None for value in state["values"])
    assert state["values"][5] == 1.0
    for drop in state["drops"]:
        before, after = state["values"][drop["ply"]], state["values"][drop["ply"] + 1]
        sign = 1 if drop["ply"] % 2 == 0 else -1
        assert drop["drop"] == pytest.approx(sign * (before - after), abs=2e-4)
        assert drop["drop"] >= 0.05


def test_a_game_goes_out_and_in_again(table: Table) -> None:
    table.new((HUMAN, HUMAN), "X../.O./... X")
    table.play(8)
    table.play(2)
    record = table.record()
    assert record.start == "X../.O./... X"
    table.open(record)
    assert (table.ply, table.state()["moves"], table.sides) == (0, ["c1", "c3"], [HUMAN, HUMAN])


def test_a_file_of_another_game_or_board_is_refused() -> None:
    table = make_table(Game("go", {"size": 5}))
    try:
        with pytest.raises(TableError, match="connect_four; these weights play go on 5 x 5"):
            table.open(GameRecord("connect_four", {}, (Move(0, "1"),)))
        with pytest.raises(TableError, match="go on 9 x 9"):
            table.open(GameRecord("go", Game("go", {"size": 9}).params, ()))
        other_komi = Game("go", {"size": 5, "komi": 0.5})
        table.open(GameRecord("go", other_komi.params, (Move(12, "C3"),)))
        assert table.state()["moves"] == ["C3"]
    finally:
        table.close()


def test_what_is_wrong_is_said_and_changes_nothing(table: Table) -> None:
    table.new((HUMAN, HUMAN))
    revision = table.revision
    for call in (lambda: table.play(77), lambda: table.new((HUMAN, HUMAN), "nonsense"), table.review):
        with pytest.raises(TableError):
            call()
    assert (table.revision, table.actions) == (revision, [])


def test_another_number_of_threads_opens_the_engine_anew(table: Table) -> None:
    table.new((HUMAN, HUMAN))
    table.change(Settings(24, 2, 0.5, True))
    assert table.state()["settings"] == {"simulations": 24, "threads": 2, "temperature": 0.5, "analyse": True}
    settle(table)
    report = table.report()
    assert report is not None
    assert 16 < report["simulations"] <= 24
    assert report["simulations"] == 24 or report["ended"] == "decided"


def test_a_high_temperature_draws_different_moves() -> None:
    table = make_table(Game("connect_four"), 16)
    try:
        table.change(Settings(16, 1, 2.0, False))
        firsts = set()
        for _ in range(12):
            table.new((ENGINE, HUMAN))
            settle(table)
            firsts.add(table.actions[0])
        assert len(firsts) > 1
    finally:
        table.close()


def test_an_engine_that_resigns_loses_on_the_page_too(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """As AlphaGo's search does below its threshold."""
    analysis = table._engine.analysis
    report = analysis.report
    monkeypatch.setattr(analysis, "report", lambda: replace(report(), resigns=True))
    table.new((HUMAN, ENGINE))
    table.play(4)
    settle(table)
    state = table.state()
    assert (state["result"], state["moves"]) == ("X wins by resignation", ["b2"])
    assert (table.record().outcome, table.record().ended_by) == (1, "resignation")
