"""The game on the table: moves, sides, the analysis that follows, and what goes wrong."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from external_fixtures import Takeaway, TicTacToe, entry_of, python_game
from studio_fixtures import make_engine, make_table, settle

from shusaku.actors.analysis.analysis import Limits
from shusaku.common._core import Game
from shusaku.common.errors import UsageError
from shusaku.deploy.records.game_record import GameRecord, Move
from shusaku.deploy.studio.table import ENGINE, HUMAN, Engine, Settings, Table, TableError


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


def test_a_page_moves_only_for_the_human(table: Table) -> None:
    table.change(Settings(1 << 20, 1, 2.0, False))  # the engine thinks until it is asked for less
    table.new((HUMAN, ENGINE))
    table.play(4, 0)
    for ply, reason in ((0, "meant for ply 0, and the game is at ply 1"), (1, "the engine is to move: undo, or")):
        with pytest.raises(TableError, match=reason):
            table.play(0, ply)
    assert (table.actions, table.state()["thinking"]) == ([4], "move")
    table.go_to(0)
    table.play(8, 0)  # at an earlier ply a human may move
    assert table.actions == [8]


@pytest.mark.parametrize(("sides", "result"), [
    ((HUMAN, ENGINE), "O wins by resignation"), ((ENGINE, HUMAN), "X wins by resignation"),
    ((HUMAN, HUMAN), "X wins by resignation")])
def test_the_human_resigns_also_while_the_engine_thinks(table: Table, sides: tuple[str, str], result: str) -> None:
    table.change(Settings(1 << 20, 1, 2.0, False))
    table.new((HUMAN, HUMAN))
    table.play(4)
    table.set_sides(sides)
    table.resign()
    assert table.state()["result"] == result
    table.undo()
    assert (table.state()["result"], table.actions) == ("", [4])


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
    table.go_to(0)
    with pytest.raises(TableError, match="undo at the last move of the game: go to its end"):
        table.undo()
    assert table.actions == [4]
    table.go_to(1)
    table.undo()
    with pytest.raises(TableError, match="no move to take back"):
        table.undo()


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
    assert (table.state()["result"], table.actions) == ("", [0])


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


def test_a_game_of_a_file_is_saved_with_all_that_the_file_said(table: Table) -> None:
    table.change(Settings(16, 1, analyse=False))
    moves = (Move(4, "b2", "the centre", 0.25, ((4, 0.75), (0, 0.25)), 1.5, (1,)), Move(0, "a3", nags=(2,)),
             Move(8, "c1", "a trap", -0.5, ((8, 1.0),)))
    record = GameRecord("tic_tac_toe", {}, moves, "", ("Ann", "Bob"), -1, None, "time", "1999-05-01", "a match",
                        "a comment", {"Round": "3"})
    table.open(record)
    assert table.record() == record
    table.go_to(1)
    table.change(Settings(16, 1))
    settle(table)
    value = table.values[1]
    assert value is not None
    assert table.record() == replace(record, moves=(moves[0], replace(moves[1], value=-value), moves[2]))
    table.review()
    settle(table)
    reviewed = table.record()
    assert all(move.value is not None and not move.policy for move in reviewed.moves)
    assert replace(reviewed, moves=moves) == record
    assert [move.comment for move in reviewed.moves] == ["the centre", "", "a trap"]
    table.go_to(3)
    table.play(1)
    changed = table.record()
    assert (changed.players, changed.ended_by, changed.comment, len(changed)) == (("Ann", "Bob"), "", "", 4)


def test_a_start_that_looks_usual_to_the_network_is_kept() -> None:
    table = make_table(Game("chess", {"planes": "small"}))
    try:
        table.change(Settings(16, 1, analyse=False))
        black_first = table.game.start().text.replace(" w ", " b ")
        table.new((HUMAN, HUMAN), black_first)
        assert table.position.evaluation_key == table.game.start().evaluation_key
        assert table.record().start == black_first
        table.new((HUMAN, HUMAN), table.game.start().text)
        assert table.record().start == ""
    finally:
        table.close()


def test_games_of_the_user_are_set_up_and_opened_again() -> None:
    table = make_table(python_game(TicTacToe))
    try:
        table.change(Settings(16, 1, analyse=False))
        for text in ("", "XO./.X./..."):
            table.new((HUMAN, HUMAN), text)
            table.play(8)
            record = table.record()
            assert (record.start, len(record)) == (text, 1)
            table.open(record)
            assert (table.record(), table.state()["moves"]) == (record, ["c1"])
        with pytest.raises(TableError, match="no board of nine"):
            table.new((HUMAN, ENGINE), "0,1")
        assert (table.record(), table.sides) == (record, [HUMAN, HUMAN])
        other = replace(record, params={"entry": entry_of(Takeaway), "pile": 9})
        with pytest.raises(TableError, match=r"game of python .*:Takeaway; these weights play python .*:TicTacToe"):
            table.open(other)
    finally:
        table.close()


@pytest.mark.parametrize("change", [lambda table: table.resign(), lambda table: table.undo()])
def test_a_file_does_not_say_how_a_changed_game_ended(table: Table, change: Callable[[Table], None]) -> None:
    table.change(Settings(16, 1, analyse=False))
    table.open(GameRecord("tic_tac_toe", {}, (Move(4, "b2"), Move(0, "a3")), outcome=-1, ended_by="time"))
    table.go_to(2)
    change(table)
    assert (table.record().outcome, table.record().ended_by) in ((-1, "resignation"), (None, ""))


def test_a_review_keeps_the_name_of_the_engine(table: Table) -> None:
    table.new((HUMAN, ENGINE))
    table.play(4)
    settle(table, lambda: table.position.to_play == 0)
    table.review()
    settle(table)
    assert table.record().players == ("Human", "Shusaku, version 1")
    table.new((HUMAN, HUMAN))
    assert table.record().players == ("Human", "Human")


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


def test_threads_that_cannot_be_had_change_nothing() -> None:
    def refuse(threads: int) -> Engine:
        raise UsageError(f"threads={threads}: no memory")

    table = Table(make_engine(Game("tic_tac_toe")), refuse)
    try:
        table.new((ENGINE, HUMAN))
        with pytest.raises(UsageError, match="threads=3"):
            table.change(Settings(16, 3, 1.0, False))
        assert (table.settings.threads, table.state()["thinking"]) == (1, "move")
        settle(table)
        assert len(table.actions) == 1
    finally:
        table.close()


@pytest.mark.parametrize(("temperature", "sides", "to_the_end"), [
    (1.0, (ENGINE, HUMAN), True), (0.05, (ENGINE, HUMAN), True), (0.04, (ENGINE, HUMAN), False),
    (1.0, (HUMAN, ENGINE), False)])
def test_a_move_is_sampled_from_all_the_visits_that_are_asked_for(
    table: Table, monkeypatch: pytest.MonkeyPatch, temperature: float, sides: tuple[str, str], to_the_end: bool
) -> None:
    limits: list[Limits] = []
    start = table._engine.analysis.start

    def record(asked: Limits) -> None:
        limits.append(asked)
        start(asked)

    monkeypatch.setattr(table._engine.analysis, "start", record)
    table.change(Settings(24, 1, temperature))
    limits.clear()
    table.new(sides)
    assert limits == [Limits(simulations=24, to_the_end=to_the_end)]


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
    table.undo()  # else it would resign again at once
    assert (table.state()["result"], table.actions) == ("", [])
