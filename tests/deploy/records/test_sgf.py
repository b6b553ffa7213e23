import time
from collections import Counter
from typing import Any

import pytest
from oracles import find, missing, package
from recorded_games import random_records, without_search

from shusaku.common._core import Game
from shusaku.deploy.records.files import read_records, write_records
from shusaku.deploy.records.game_record import GameRecord, Replay
from shusaku.deploy.records.sgf_tree import MAX_NESTING
from shusaku.deploy.records.stones import start_of, stones_of

RULES: list[tuple[str, dict[str, Any]]] = [
    ("go", {"size": 9}), ("go", {"size": 5, "komi": -2.5, "rules": "tromp_taylor", "superko": "situational"}),
    ("go", {"size": 9, "handicap": 3, "max_plies": 40, "planes": "tutorial"}), ("othello", {}),
    ("othello", {"size": 6}),
    ("hex", {"size": 5}), ("hex", {}),
]


def read_one(text: str) -> GameRecord:
    games = read_records(text, "x.sgf")
    assert games.rejects == []
    [record] = games.records
    return record


def reason(text: str) -> str:
    games = read_records(text, "x.sgf")
    assert games.records == []
    [reject] = games.rejects
    assert str(reject).count("\n") == 0
    return str(reject)


@pytest.mark.parametrize(("game", "params"), RULES)
def test_a_game_comes_back_as_it_was(game: str, params: dict[str, Any]) -> None:
    records = random_records(game, params, 10, annotated=True, event="a: [b]\\", comment="before\nit")
    assert read_records(write_records(records, "x.sgf", comments=True), "x.sgf").records == records
    plain = [without_search(record) for record in records]
    assert read_records(write_records(records, "x.sgf"), "x.sgf").records == plain


@pytest.mark.parametrize(("game", "params"), [rules for rules in RULES if rules[0] == "go"])
def test_sgfmill_reads_what_is_written(game: str, params: dict[str, Any]) -> None:
    sgf = package("sgfmill.sgf")
    for record in random_records(game, params, 5, annotated=True):
        tree = sgf.Sgf_game.from_bytes(write_records([record], "x.sgf", comments=True).encode())
        size, moves = record.rules().observation_shape[1], []
        for node in tree.get_main_sequence():
            colour, point = node.get_move()
            if colour is not None:
                moves.append(size * size if point is None else (size - 1 - point[0]) * size + point[1])
        assert tuple(moves) == record.actions
        assert tree.get_komi() == record.params["komi"]
        assert tree.get_winner() == {1: "b", -1: "w", 0: None}[record.outcome or 0]
        assert tree.get_handicap() == (record.params["handicap"] or None)
        assert tree.get_player_name("b") == record.players[0]


@pytest.mark.parametrize(("folder", "whole"), [
    ("gnugo-games", {9: 129, 19: 420}), ("kombilo-games", {19: 30}),
])
def test_games_that_may_be_used_freely(folder: str, whole: dict[int, int]) -> None:
    """Whole games with a result, as sgfmill sees them, have the moves and the winner that sgfmill reads."""
    files, sgf = find(folder), package("sgfmill.sgf")
    if files is None:
        missing(f"{folder}: `make oracles` fetches it")
    counts: Counter[int] = Counter()
    refused = []
    for path in sorted(files.rglob("*.sgf")):
        try:
            tree = sgf.Sgf_game.from_bytes(path.read_bytes())
            winner, handicap, root = tree.get_winner(), tree.get_handicap(), tree.get_root()
        except ValueError:
            continue
        nodes = tree.get_main_sequence()
        played = [node.get_move() for node in nodes]
        colours = [colour for colour, _ in played if colour is not None]
        is_usual = not any(node.has_setup_stones() for node in nodes[1:]) and (
            bool(handicap) or not root.has_setup_stones()) and colours == [
            "wb"[ply % 2] if handicap else "bw"[ply % 2] for ply in range(len(colours))]
        if winner is None or not is_usual or len(colours) < 20 or tree.get_size() not in whole:
            continue
        games = read_records(path)
        if not games.records:
            refused.append(str(games.rejects[0]))
            continue
        [record] = games.records
        size = tree.get_size()
        moves = [size * size if point is None else (size - 1 - point[0]) * size + point[1]
                 for colour, point in played if colour is not None]
        assert list(record.actions) == moves[: len(moves) - record.cut], path
        assert record.outcome == {"b": 1, "w": -1}[winner], path
        counts[size] += 1
    assert all(counts[size] >= least for size, least in whole.items()), (counts, refused)
    assert len(refused) <= 0.1 * counts.total(), refused


def test_what_sgfmill_writes_is_read() -> None:
    sgf = package("sgfmill.sgf")
    for record in random_records("go", {"size": 7}, 5):
        tree = sgf.Sgf_game(7)
        tree.root.set("KM", record.params["komi"])
        tree.root.set("PB", "x]y\\z")
        for ply, action in enumerate(record.actions):
            node = tree.extend_main_sequence()
            node.set_move("bw"[ply % 2], None if action == 49 else (6 - action // 7, action % 7))
            node.set("C", "a\nb")
        read = read_one(tree.serialise().decode())
        assert read.actions == record.actions
        assert read.players[0] == "x]y\\z"
        assert read.moves[0].comment == "a\nb"


@pytest.mark.parametrize("name", ["go", "othello", "hex"])
def test_a_position_that_was_set_up_comes_back(name: str) -> None:
    game = Game(name, {"size": 6})
    position = game.start()
    for _ in range(8):
        position.play(position.legal_actions[len(position.legal_actions) // 2])
    start = start_of(game, stones_of(game, position), position.to_play)
    assert str(game.position(start)) == str(position)
    replay = Replay(name, {"size": 6}, start)
    replay.play_action(replay.position.legal_actions[0], "")
    record = replay.finish(outcome=-1, ended_by="resignation")
    assert read_records(write_records([record], "x.sgf"), "x.sgf").records == [record]


def test_a_handicap_is_a_parameter_if_its_points_are_the_usual_ones() -> None:
    usual = read_one("(;GM[1]SZ[9]HA[2]AB[cg][gc]KM[0.5];W[ee];B[ef])")
    assert usual.params["handicap"] == 2
    assert usual.start == ""
    assert [move.text for move in usual.moves] == ["E5", "E4"]
    free = read_one("(;GM[1]SZ[9]HA[2]AB[cc][dd]KM[0.5];W[ee])")
    assert free.params["handicap"] == 0
    assert free.first_position().to_play == 1
    assert free.headers["HA"] == "2"


@pytest.mark.parametrize(("text", "start", "moves"), [
    ("(;GM[1]SZ[9]AB[cc]AW[gg]B[ee];W[dd];B[cd]RE[B+R])", {"C7": 0, "G3": 1}, ["E5", "D6", "C6"]),
    ("(;GM[1]SZ[9];B[ee]AW[gg]AB[cc];W[dd])", {"C7": 0, "G3": 1}, ["E5", "D6"]),
    ("(;GM[1]SZ[9]HA[2]AB[cg][gc]W[ee];B[ef])", {"C3": 0, "G7": 0}, ["E5", "E4"]),
])
def test_stones_in_the_node_of_the_first_move_come_before_it(
    text: str, start: dict[str, int], moves: list[str]
) -> None:
    record = read_one(text)
    empty = Game("go", {"size": 9}).start()
    stones = {empty.to_move(cell): stone
              for cell, stone in enumerate(stones_of(record.rules(), record.first_position())) if stone >= 0}
    assert stones == start
    assert [move.text for move in record.moves] == moves
    assert read_one(write_records([record], "x.sgf")) == record
    assert "illegal move 'cc'" in reason("(;GM[1]SZ[9];AB[cc]W[ee];B[cc])")


def test_compressed_points_passes_and_sizes() -> None:
    record = read_one("(;GM[1]SZ[5:5]AB[aa:ca]AW[ac][bc]AE[ca]PL[W];W[tt];B[])")
    assert [move.text for move in record.moves] == ["pass", "pass"]
    assert stones_of(record.rules(), record.first_position())[:5] == [0, 0, -1, -1, -1]
    assert (record.outcome, record.ended_by) == (1 if record.score and record.score > 0 else -1, "rules")


def test_only_the_main_line_is_read_and_variations_are_counted() -> None:
    record = read_one("(;SZ[9];B[aa](;W[bb];B[cc](;W[dd])(;W[ee]))(;W[ff](;B[gg])))")
    assert [move.text for move in record.moves] == ["A9", "B8", "C7", "D6"]
    assert record.variations == 3


def test_moves_of_othello_and_hex_in_both_forms() -> None:
    assert read_one("(;GM[2];B[d3];W[ce])").actions == read_one("(;GM[2]SZ[8];B[dc];W[C5])").actions
    assert read_one("(;GM[11]SZ[5];B[c2];W[da])").actions == (7, 3)


def test_a_forced_pass_of_othello_may_be_left_out() -> None:
    records = [record for record in random_records("othello", {"size": 6}, 30) if 36 in record.actions]
    assert records
    for record in records:
        text = write_records([record], "x.sgf")
        assert read_one(text.replace(";B[]", "").replace(";W[]", "")).actions == record.actions


@pytest.mark.parametrize(("text", "outcome", "score", "ended_by"), [
    ("B+3.5", 1, 3.5, "rules"), ("W+R", -1, None, "resignation"), ("W+Time", -1, None, "time"),
    ("0", 0, None, "agreement"),
    ("Void", None, None, "interrupted"), ("?", None, None, ""), ("b + 12", 1, 12, "rules"), ("B+F", 1, None, "forfeit"),
    ("B+", 1, None, ""), ("B+3,5", 1, 3.5, "rules"), ("B+1/2", 1, 0.5, "rules"), ("W+3 1/2", -1, -3.5, "rules"),
    ("W+21/2", -1, -2.5, "rules"), ("B+10/3", 1, None, ""), ("W+Resignation", -1, None, "resignation"),
])
def test_results(text: str, outcome: int | None, score: float | None, ended_by: str) -> None:
    record = read_one(f"(;SZ[9]RE[{text}];B[aa])")
    assert (record.outcome, record.score, record.ended_by) == (outcome, score, ended_by)
    assert read_one(write_records([record], "x.sgf")) == record


@pytest.mark.parametrize("result", ["Void", "?", "Suspended"])
def test_a_result_that_the_file_does_not_know_is_not_that_of_the_rules(result: str) -> None:
    record = read_one(f"(;SZ[9]RE[{result}];B[ee];W[];B[])")
    assert (record.outcome, record.score, record.ended_by) == (None, None, "interrupted")
    assert read_one(write_records([record], "x.sgf")) == record
    missing_result = read_one("(;SZ[9];B[ee];W[];B[])")
    assert (missing_result.outcome, missing_result.ended_by) == (1, "rules")


@pytest.mark.parametrize(("result", "ended_by"), [("B+R", "resignation"), ("B+T", "time"), ("B+F", "forfeit")])
def test_a_game_that_was_given_up_behind_two_passes_has_no_score(result: str, ended_by: str) -> None:
    record = read_one(f"(;SZ[9]RE[{result}];B[ee];W[];B[])")
    assert (record.outcome, record.score, record.ended_by) == (1, None, ended_by)
    assert read_one(write_records([record], "x.sgf")) == record


@pytest.mark.parametrize(("rules", "params"), [
    ("GOE", ("tromp_taylor", "simple")), ("Ing", ("tromp_taylor", "simple")), ("ing goe", ("tromp_taylor", "simple")),
    ("NZ", ("tromp_taylor", "situational")), ("New Zealand", ("tromp_taylor", "situational")),
    ("Tromp-Taylor", ("tromp_taylor", "positional")), ("Chinese", ("chinese", "positional")),
    ("Japanese", ("chinese", "simple")), ("AGA", ("chinese", "simple")),
])
def test_rules_by_their_names(rules: str, params: tuple[str, str]) -> None:
    record = read_one(f"(;SZ[9]RU[{rules}];B[aa])")
    assert (record.params["rules"], record.params["superko"]) == params
    assert read_one(write_records([record], "x.sgf")) == record


def test_suicide_of_several_stones_is_legal_by_ings_rules() -> None:
    text = "(;SZ[5]RU[GOE]AB[ba][bb][ac]AW[aa]PL[W];W[ab])"
    assert len(read_one(text)) == 1
    assert "illegal move 'ab'" in reason(text.replace("GOE", "Japanese"))


@pytest.mark.parametrize(("komi", "read"), [
    ("6.5", 6.5), ("375", 7.5), ("3.75", 7.5), ("650", 6.5), ("0", 0), ("-5,5", -5.5),
])
def test_komi_as_servers_write_it(komi: str, read: float) -> None:
    assert read_one(f"(;SZ[9]KM[{komi}];B[aa])").params["komi"] == read


def test_the_charset_that_a_file_names() -> None:
    text = "(;SZ[9]CA[{}]PB[本因坊秀策];B[aa])"
    for charset in ("UTF-8", "Shift_JIS", "gb18030", "EUC-JP"):
        data = text.format(charset).encode(charset)
        assert read_records(data, "x.sgf").records[0].players[0] == "本因坊秀策"
    assert read_records("(;SZ[9]PB[Müller];B[aa])".encode("latin-1"), "x.sgf").records[0].players[0] == "Müller"


@pytest.mark.parametrize(("told", "charset", "name"), [  # with ] as second byte, or of the larger charset alone
    ("Shift_JIS", "cp932", "ゾ①"), ("gb2312", "gb18030", "乚朱镕基"), ("GBK", "gb18030", "乚㐂"),
    ("Big5", "cp950", "也裏"), ("EUC-KR", "cp949", "믜"),
])
def test_a_bad_byte_costs_one_character_in_the_charset_that_the_file_names(told: str, charset: str, name: str) -> None:
    text = f"(;SZ[9]CA[{told}]PB[{name}];B[aa])\n".encode(charset)
    games = read_records(text + text.replace(b"B[aa]", b"B[bb]C[\x83.]"), "x.sgf")
    assert games.rejects == []
    assert [record.players[0] for record in games.records] == [name, name]
    assert games.records[1].moves[0].comment.endswith(".")


@pytest.mark.parametrize(("text", "part"), [
    ("(;GM[1]SZ[9];B[aa];W[aa])", "game 1, move 2: illegal move 'aa'"),
    ("(;GM[1]SZ[9];B[aa];B[bb])", "move 2: black moves, but it is the turn of white"),
    ("(;GM[1]SZ[9];B[zz])", "'zz' is no point of a board of 9"),
    ("(;GM[1]SZ[9];B[aa];W[bb]AW[cc])", "set up behind moves"),
    ("(;GM[1]SZ[9];B[aa];AW[cc]W[bb])", "set up behind moves"),
    ("(;GM[7];B[aa])", "GM[7] is not a game"),
    ("(;GM[1]SZ[40])", "size"),
    ("(;GM[1]SZ[9:13])", "must be square"),
    ("(;GM[1]SZ[9]KM[much])", "KM[much] is no number"),
    ("(;GM[11]SZ[5];B[a1];W[swap-pieces])", "without a swap"),
    ("(;GM[1]SZ[9];B[aa]", "the text ends within the game"),
    ("(;GM[1]SZ[9];B[aa]])", "is no SGF"),
    ("(;SHUSAKU[nothing=1]SZ[9];B[aa])", "no parameter nothing"),
    ("(" + ";(" * (MAX_NESTING + 2), "nested more than"),
])
def test_rejects(text: str, part: str) -> None:
    assert part in reason(text)


def test_a_damaged_game_does_not_stop_a_file() -> None:
    good = "(;GM[1]SZ[9];B[aa];W[bb])\n"
    for bad in ("(;GM[1]SZ[9];B[aa];B[bb])\n", "(;GM[1]SZ[9];B[aa\n", "(;GM[1]SZ[9](;B[cc]\n", "(;GM[1]SZ[9];*)\n",
                "junk (;GM[2]x[1])\n"):
        games = read_records(good + bad + good + bad + good, "x.sgf")
        assert len(games.records) == 3, bad
        assert [reject.game for reject in games.rejects] == [2, 4], bad


@pytest.mark.parametrize("part", ["(;GM[1]\n", ";C[a]", "(;C[", "(;GM[1]C[\\", "(", ";B[aa]", "[", "(;(",
                                  "(;AB[aa:ss]\n"])
def test_time_is_linear_in_the_text(part: str) -> None:
    times = []
    for repeats in (2_000, 20_000):
        begin = time.process_time()
        read_records(part * repeats, "x.sgf")
        times.append(time.process_time() - begin)
    assert times[1] < 40 * times[0] + 0.5


def test_comments_of_all_nodes_before_the_first_move_are_kept() -> None:
    record = read_one("(;GM[1]SZ[9]C[of the game];AB[cc][gg]C[the stones];C[];W[ee]C[a move];C[behind it];B[dd])")
    assert record.comment == "of the game\nthe stones"
    assert [move.comment for move in record.moves] == ["a move\nbehind it", ""]
    assert read_one("(;GM[1]SZ[9]B[ee]C[of the move])").comment == ""


def test_an_engine_that_did_not_answer_lost_on_time() -> None:
    replay = Replay("go", {"size": 9})
    replay.play("e5")
    text = write_records([replay.finish(outcome=1, ended_by="timeout")], "x.sgf")
    assert "RE[B+T]" in text
    assert read_one(text).ended_by == "time"
