"""GTP 2 by the sections of its specification (draft 2, Gunnar Farneback, 2002), a line of it a test."""

import re

import pytest
from gtp_client import GtpClient

REQUIRED = (  # section 6.1
    "protocol_version", "name", "version", "known_command", "list_commands", "quit", "boardsize", "clear_board", "komi",
    "play", "genmove",
)
TOURNAMENT = (  # section 6.2: the tournament subset
    "fixed_handicap", "place_free_handicap", "set_free_handicap", "time_settings", "time_left", "final_score",
    "final_status_list", "undo",
)
VERTEX = re.compile(r"[A-HJ][1-9]|pass|resign")


@pytest.fixture
def go() -> GtpClient:
    return GtpClient()


# --- 2: the protocol --------------------------------------------------------------------------------------------------


def test_an_answer_ends_with_two_line_ends(go: GtpClient) -> None:
    assert go.raw("protocol_version") == "= 2\n\n"
    assert go.raw("clear_board") == "=\n\n"


def test_an_error_begins_with_a_question_mark(go: GtpClient) -> None:
    assert go.raw("boardsize 99") == "? unacceptable size\n\n"


def test_the_id_comes_back(go: GtpClient) -> None:
    assert go.raw("17 protocol_version") == "=17 2\n\n"
    assert go.raw("18 boardsize 99") == "?18 unacceptable size\n\n"
    assert go.raw("19 clear_board") == "=19\n\n"
    assert go.raw("0 name").startswith("=0 ")
    assert go.raw("4294967295 komi 7") == "=4294967295\n\n"
    assert go.raw("20 genmove b").startswith("=20 ")


def test_an_id_without_a_command_is_an_error(go: GtpClient) -> None:
    assert go.raw("5") == "?5 unknown command\n\n"


@pytest.mark.parametrize("line", ["", "   ", "\t", "# a comment", "   # another", "\r", "\x01\x02"])
def test_lines_without_a_command_are_not_answered(go: GtpClient, line: str) -> None:
    assert go.raw(line) == ""


@pytest.mark.parametrize("line", [
    "protocol_version # with a comment", "protocol_version#", "\tprotocol_version\t", "  protocol_version  ",
    "protocol_version\r", "proto\x07col_version", "protocol_version\x7f",
])
def test_what_is_discarded_changes_nothing(go: GtpClient, line: str) -> None:
    assert go.raw(line) == "= 2\n\n"


def test_a_tab_separates_words(go: GtpClient) -> None:
    go.ask("play\tb\tD4")
    assert go.ask("move_history") == "black D4"


def test_unknown_commands(go: GtpClient) -> None:
    assert go.raw("3 no_such_command 1 2") == "?3 unknown command\n\n"
    assert go.refuse("PROTOCOL_VERSION") == "unknown command"  # names are case sensitive


@pytest.mark.parametrize("line", [
    "boardsize", "boardsize nine", "boardsize -9", "boardsize 9.0", "komi", "komi x", "komi nan", "komi inf",
    "play", "play b", "play green D4", "play b D4 E5", "genmove", "genmove x", "fixed_handicap two", "time_settings 1",
    "time_settings a b c", "time_settings -1 0 0", "time_left b 1", "time_left x 1 1", "kgs-time_settings",
    "kgs-time_settings byoyomi 1", "kgs-time_settings weekly", "known_command", "undo 3", "loadsgf",
    "kata-analyze b rootInfo", "kata-analyze b rootInfo 3", "kata-analyze b nonsense 3", "lz-analyze b avoid b D4",
    "kata-set-rules", "gogui-play_sequence b",
])
def test_syntax_errors(go: GtpClient, line: str) -> None:
    assert go.refuse(line) == "syntax error"


def test_colours_and_vertices_in_any_case(go: GtpClient) -> None:
    for colour, vertex in (("B", "d4"), ("White", "E5"), ("bLACK", "f6"), ("w", "G7"), ("black", "PASS")):
        go.ask(f"play {colour} {vertex}")
    assert go.ask("move_history").splitlines() == ["black pass", "white G7", "black F6", "white E5", "black D4"]


@pytest.mark.parametrize("vertex", ["I5", "J10", "A0", "K1", "A", "5", "A01", "Z9", "D4D4", "D-4", "resign", "é4"])
def test_no_vertices(go: GtpClient, vertex: str) -> None:
    assert go.refuse(f"play b {vertex}") == "illegal move"


def test_quit_is_answered(go: GtpClient) -> None:
    assert not go.send("1 quit")
    assert go.said == "=1\n\n"


# --- 6: the commands --------------------------------------------------------------------------------------------------


def test_every_command_of_the_specification_is_there(go: GtpClient) -> None:
    listed = go.ask("list_commands").split("\n")
    assert len(set(listed)) == len(listed)
    for name in (*REQUIRED, *TOURNAMENT, "loadsgf", "reg_genmove", "showboard"):
        assert name in listed
        assert go.ask(f"known_command {name}") == "true"
    assert go.ask("known_command no_such_command") == "false"


@pytest.mark.parametrize("name", ["othello", "hex"])
def test_other_games_have_the_required_subset(name: str) -> None:
    client = GtpClient(name)
    listed = client.ask("list_commands").split()
    assert set(REQUIRED) <= set(listed)
    assert "fixed_handicap" not in listed
    assert client.refuse("fixed_handicap 2") == "unknown command"
    client.ask("komi 3.5")


def test_name_and_version(go: GtpClient) -> None:
    assert go.ask("name") == "Shusaku"
    assert go.ask("version") == "7"


def test_boardsize_is_the_networks(go: GtpClient) -> None:
    go.ask("play b D4")
    go.ask("boardsize 9")
    assert go.ask("move_history") == ""
    for size in (1, 8, 10, 19, 0, 26, 1000000):
        assert go.refuse(f"boardsize {size}") == "unacceptable size"


def test_hex_may_be_told_both_sides() -> None:
    client = GtpClient("hex")
    client.ask("boardsize 5 5")
    assert client.refuse("boardsize 5 6") == "unacceptable size"


def test_clear_board(go: GtpClient) -> None:
    go.ask("play b D4")
    go.ask("clear_board")
    assert go.ask("move_history") == ""
    assert go.refuse("undo") == "cannot undo"
    assert go.ask("is_legal b D4") == "1"


@pytest.mark.parametrize("komi", ["0", "7", "7.5", "-3.5", "6.7", "1000", "-1e6", "0.25"])
def test_every_komi_is_taken(go: GtpClient, komi: str) -> None:
    go.ask("play b D4")
    go.ask(f"komi {komi}")
    assert float(go.ask("get_komi")) == float(komi)
    assert go.ask("move_history") == "black D4"
    go.ask("genmove w")


def test_komi_counts_in_the_score(go: GtpClient) -> None:
    go.ask("kata-set-rules tromp-taylor")
    for line in ("komi 0.5", "play b D4", "play w pass", "play b pass"):
        go.ask(line)
    assert go.ask("final_score") == "B+80.5"
    go.ask("komi 81")
    assert go.ask("final_score") == "0"
    go.ask("komi 90.25")
    assert go.ask("final_score") == "W+9.25"


FIXED = {2: "G7 C3", 3: "G7 C7 C3", 4: "G7 C7 G3 C3", 5: "E5", 9: "E5 E7 E3 C5 G5"}  # 9 x 9, section 4.1.1


@pytest.mark.parametrize("stones", [2, 3, 4, 5, 6, 7, 8, 9])
def test_fixed_handicap(go: GtpClient, stones: int) -> None:
    vertices = go.ask(f"fixed_handicap {stones}").split()
    assert len(vertices) == len(set(vertices)) == stones
    assert set(FIXED.get(stones, "C3").split()) <= set(vertices)
    assert go.ask("gogui-rules_side_to_move") == "white"
    assert go.refuse("undo") == "cannot undo"
    go.ask("play w E6")
    assert go.refuse("fixed_handicap 2") == "board not empty"


@pytest.mark.parametrize("stones", [0, 1, 10, 100])
def test_fixed_handicap_has_bounds(go: GtpClient, stones: int) -> None:
    assert go.refuse(f"fixed_handicap {stones}") == "invalid number of stones"


@pytest.mark.parametrize(("size", "most"), [(5, 0), (7, 4), (8, 4), (13, 9), (14, 4)])
def test_fixed_handicap_by_size(size: int, most: int) -> None:
    client = GtpClient(size=size)
    assert client.refuse(f"fixed_handicap {most + 1}") == "invalid number of stones"
    if most:
        assert len(client.ask(f"fixed_handicap {most}").split()) == most


@pytest.mark.parametrize("stones", [2, 5, 9, 10, 20, 80, 81, 200])
def test_place_free_handicap(go: GtpClient, stones: int) -> None:
    vertices = go.ask(f"place_free_handicap {stones}").split()
    assert len(vertices) == len(set(vertices)) == min(stones, 80)
    assert go.refuse("place_free_handicap 2") == "board not empty"
    go.ask("clear_board")
    assert go.refuse("place_free_handicap 1") == "invalid number of stones"


def test_set_free_handicap(go: GtpClient) -> None:
    for vertices in ("D4", "D4 D4", "D4 pass", "D4 X9", ""):
        assert go.refuse(f"set_free_handicap {vertices}") == "bad vertex list"
    assert go.ask("set_free_handicap d4 E5 f6") == ""
    assert go.ask("gogui-rules_board").count("X") == 3
    assert go.refuse("set_free_handicap A1 A2") == "board not empty"
    assert VERTEX.fullmatch(go.ask("genmove w"))


def test_play_takes_any_colour(go: GtpClient) -> None:
    """"Consecutive moves of the same color are not considered illegal from the protocol point of view"."""
    for vertex in ("A1", "B1", "C1", "pass", "pass", "D1", "pass", "E1"):
        go.ask(f"play b {vertex}")
    go.ask("play w E5")
    go.ask("play w F5")
    board = go.ask("gogui-rules_board")
    assert (board.count("X"), board.count("O")) == (5, 2)


def test_play_refuses_what_the_rules_forbid(go: GtpClient) -> None:
    go.ask("play b D4")
    assert go.refuse("play w D4") == "illegal move"
    for line in ("play b A2", "play b B1"):
        go.ask(line)
    assert go.refuse("play w A1") == "illegal move"  # suicide
    assert go.ask("move_history").splitlines() == ["black B1", "black A2", "black D4"]


def test_ko(go: GtpClient) -> None:
    for line in ("b B2", "w C2", "b A1", "w D1", "b C1", "w B1"):
        go.ask(f"play {line}")
    assert go.refuse("play b C1") == "illegal move"
    go.ask("play b E5")
    go.ask("play w F5")
    go.ask("play b C1")


def test_undo(go: GtpClient) -> None:
    go.ask("play b D4")
    go.ask("play w E5")
    before = go.ask("showboard")
    move = go.ask("genmove b")
    assert VERTEX.fullmatch(move)
    go.ask("undo")
    assert go.ask("showboard") == before
    go.ask("undo")
    go.ask("undo")
    assert go.refuse("undo") == "cannot undo"


def test_undo_gives_captured_stones_and_the_ko_back(go: GtpClient) -> None:
    for line in ("b B2", "w C2", "b A1", "w D1", "b C1"):
        go.ask(f"play {line}")
    before = go.ask("showboard")
    go.ask("play w B1")
    assert go.ask("showboard") != before
    go.ask("undo")
    assert go.ask("showboard") == before
    go.ask("play w B1")
    assert go.refuse("play b C1") == "illegal move"


def test_genmove_plays_its_move(go: GtpClient) -> None:
    for number in range(8):
        colour = "bw"[number % 2]
        move = go.ask(f"genmove {colour}")
        assert VERTEX.fullmatch(move)
        assert go.ask("move_history").splitlines()[0].split()[1] == move


def test_genmove_for_a_colour_twice_and_after_the_end(go: GtpClient) -> None:
    """"The controller may ask for several moves of one color in a row", and after two passes."""
    assert VERTEX.fullmatch(go.ask("genmove w"))
    assert VERTEX.fullmatch(go.ask("genmove w"))
    go.ask("play b pass")
    go.ask("play w pass")
    assert VERTEX.fullmatch(go.ask("genmove b"))


def test_reg_genmove_changes_nothing_and_is_deterministic(go: GtpClient) -> None:
    go.ask("play b D4")
    before = go.ask("showboard")
    moves = {go.ask("reg_genmove w") for _ in range(3)}
    assert len(moves) == 1
    assert go.ask("showboard") == before
    assert go.ask("move_history") == "black D4"


def test_final_status_list_names_every_stone_once(go: GtpClient) -> None:
    for line in ("b D4", "w E5", "b D5", "w F5", "b A1", "w J9"):
        go.ask(f"play {line}")
    stones = [vertex for state in ("alive", "dead", "seki") for vertex in go.ask(f"final_status_list {state}").split()]
    assert sorted(stones) == ["A1", "D4", "D5", "E5", "F5", "J9"]
    assert go.refuse("final_status_list sleepy") == "invalid status"


def test_showboard_shows_the_stones(go: GtpClient) -> None:
    go.ask("play b D4")
    board = go.ask("showboard")
    assert len([line for line in board.splitlines() if line.strip().startswith("4")]) == 1
    assert board.count("●") == 1


# --- time -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", [
    "time_settings 60 0 0", "time_settings 0 0 0", "time_settings 0 1 0", "time_settings 10 5 3",
    "time_left b 3 0", "time_left w 0 1", "time_left b -3 0", "kgs-time_settings none", "kgs-time_settings absolute 9",
    "kgs-time_settings byoyomi 10 3 5", "kgs-time_settings canadian 10 30 5",
])
def test_time_is_taken_and_a_move_follows(line: str) -> None:
    client = GtpClient(settings=None)
    client.ask("time_settings 0 1 0")
    client.ask("time_left b 0.2 0")
    client.ask(line)
    client.ask("time_left b 0.2 0")  # so that the test is quick
    assert VERTEX.fullmatch(client.ask("genmove b"))


def test_without_time_a_move_comes_at_once(go: GtpClient) -> None:
    go.ask("time_settings 0 0 0")
    for colour in "bwbw":
        assert VERTEX.fullmatch(go.ask(f"genmove {colour}"))
