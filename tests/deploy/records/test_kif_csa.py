import time
from pathlib import Path
from typing import Any

import pytest
from oracles import find, missing, package
from recorded_games import random_records

from shusaku.deploy.records.files import RecordWriter, read_records, write_records
from shusaku.deploy.records.game_record import GameRecord, Replay

RULES: list[tuple[str, dict[str, Any]]] = [
    ("shogi", {}), ("shogi", {"max_plies": 80, "declaration": False, "planes": "small"}), ("minishogi", {}),
]
NOTATIONS = ["kif", "kifu", "csa"]
BOD = """# a comment of programs
手合割：その他
後手の持駒：飛　角二　金二　銀四　桂四　香四　歩十七
  ９ ８ ７ ６ ５ ４ ３ ２ １
+---------------------------+
| ・ ・ ・ ・ ・ ・ ・v玉 ・|一
| ・ ・ ・ ・ ・ ・ ・ ・ ・|二
| ・ ・ ・ ・ ・ ・ ・ 歩 ・|三
| ・ ・ ・ ・ ・ ・ ・ ・ ・|四
| ・ ・ ・ ・ ・ ・ ・ ・ ・|五
| ・ ・ ・ ・ ・ ・ ・ ・ ・|六
| ・ ・ ・ ・ ・ ・ ・ ・ ・|七
| ・ ・ ・ ・ ・ ・ ・ ・ ・|八
| 玉 ・ ・ ・ ・ ・ ・ ・ 龍|九
+---------------------------+
先手の持駒：金二
先手：甲
後手：乙
手数----指手---------消費時間--
   1 ２二金打        ( 0:05/00:00:05)
*頭金
   2 投了            ( 1:02/00:01:02)
まで1手で先手の勝ち
"""


def read_one(text: str, name: str) -> GameRecord:
    games = read_records(text, name)
    assert games.rejects == []
    [record] = games.records
    return record


@pytest.mark.parametrize("notation", NOTATIONS)
@pytest.mark.parametrize(("game", "params"), RULES)
def test_a_game_comes_back_as_it_was(game: str, params: dict[str, Any], notation: str, tmp_path: Path) -> None:
    records = random_records(game, params, 8, annotated=True, event="王座戦", comment="before\nit")
    path = tmp_path / f"x.{notation}"
    with RecordWriter(path, game, comments=True) as writer:
        for record in records:
            writer.write(record)
    read = read_records(path)
    assert read.rejects == []
    if notation == "kif":  # Shift-JIS has no é
        records = [record for record in records if all("é" not in move.comment for move in record.moves)]
        read.records = [record for record in read.records if all("?" not in move.comment for move in record.moves)]
    assert read.records == records


def test_every_shogi_notation_tells_how_a_game_ended() -> None:
    for notation in NOTATIONS:
        for outcome, ended_by in ((-1, "resignation"), (-1, "time"), (-1, "illegal_move"), (0, "agreement"),
                                  (None, "interrupted"), (1, "illegal_move")):
            replay = Replay("shogi", {})
            replay.play("7g7f")
            replay.play("3c3d")
            replay.annotate(seconds=75.0)
            record = replay.finish(outcome=outcome, ended_by=ended_by)
            assert read_one(write_records([record], f"x.{notation}"), f"x.{notation}") == record


@pytest.mark.parametrize("notation", NOTATIONS)
def test_repetitions(notation: str) -> None:
    replay = Replay("shogi", {})
    for move in ["5i5h", "5a5b", "5h5i", "5b5a"] * 3:
        replay.play(move)
    record = replay.finish()
    assert (record.outcome, record.ended_by) == (0, "rules")
    text = write_records([record], f"x.{notation}")
    assert "千日手" in text or "%SENNICHITE" in text
    assert read_one(text, f"x.{notation}") == record


@pytest.mark.parametrize("notation", NOTATIONS)
@pytest.mark.parametrize("start", [
    "4k4/9/4P4/9/9/9/9/9/4K4 b G2r2b3g4s4n4l17p 1", "lnsgkgsn1/7b1/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL w - 1",
    "lnsgk1snl/1r4gb1/p1pppp2p/6pR1/9/2P6/P2PPPP1P/1B7/LNSGKGSNL w P3p 14",
])
def test_a_position_that_was_set_up_comes_back(notation: str, start: str) -> None:
    if notation == "csa":
        start = f"{start.rpartition(' ')[0]} 1"  # CSA says no number of the move
    replay = Replay("shogi", {}, start)
    for _ in range(3):
        replay.play_action(replay.position.legal_actions[-1], "")
    record = replay.finish(outcome=1, ended_by="resignation" if replay.position.to_play == 1 else "illegal_move")
    text = write_records([record], f"x.{notation}")
    assert read_one(text, f"x.{notation}") == record


def test_handicaps_have_their_names() -> None:
    cshogi_kif = package("cshogi.KIF")
    for name, sfen in cshogi_kif.Parser.HANDYCAP_SFENS.items():
        if sfen:
            record = read_one(f"手合割：{name}　\n下手：a\n上手：b\n", "x.kif")
            assert record.first_position().text == sfen
            assert record.players == ("a", "b")
            assert f"手合割：{name}" in write_records([record], "x.kif")


def test_a_diagram_and_its_game() -> None:
    record = read_one(BOD, "x.kifu")
    assert record.first_position().text == "7k1/9/7P1/9/9/9/9/9/K7+R b 2Gr2b2g4s4n4l17p 1"
    assert (record.outcome, record.ended_by, record.players) == (1, "rules", ("甲", "乙"))
    assert (record.moves[0].seconds, record.moves[0].comment) == (5, "頭金")


def test_both_charsets_are_read_by_what_is_there() -> None:
    for charset in ("utf-8", "utf-8-sig", "cp932"):
        for name in ("x.kif", "x.kifu"):
            assert read_records(BOD.encode(charset), name).records[0].players == ("甲", "乙")


@pytest.mark.parametrize("charset", ["cp932", "utf-8"])
@pytest.mark.parametrize("name", ["x.kif", "x.csa"])
def test_one_bad_byte_costs_one_character(name: str, charset: str) -> None:
    """A comment that was cut in the middle of a character."""
    text = BOD if name == "x.kif" else "N+甲\nN-乙\nPI\n+\n+7776FU\n'*頭金\n"
    whole, first = "頭金".encode(charset), "頭".encode(charset)
    damaged = text.encode(charset).replace(whole, whole[:len(first) + 1])
    games = read_records(damaged, name)
    assert games.rejects == []
    assert games.records[0].players == ("甲", "乙")
    assert games.records[0].moves[0].comment == "頭\ufffd"


def test_variations_of_kif_are_counted() -> None:
    text = """手合割：平手
   1 ７六歩(77)+
   2 ３四歩(33)
   3 ２二角成(88)
   4 同　銀(31)
   5 中断

変化：2手
   2 ８四歩(83)
   3 ６八銀(79)

変化：1手
   1 ２六歩(27)
"""
    record = read_one(text, "x.kif")
    assert [move.text for move in record.moves] == ["7g7f", "3c3d", "8h2b+", "3a2b"]
    assert (record.variations, record.outcome, record.ended_by) == (2, None, "interrupted")
    assert [len(one) for one in read_records(f"{text}\n{text}", "x.kif").records] == [4, 4]


@pytest.mark.parametrize(("end", "outcome", "ended_by"), [
    ("   3 不戦勝", 1, "forfeit"), ("   3 不戦敗", -1, "forfeit"), ("   3 時間切れ", -1, "time"),
    ("   3 引き分け   ( 0:01/00:00:01)", 0, "agreement"), ("   3 最大手数", 0, "ply_limit"),
    ("   3 対局放棄", None, ""), ("   3 対局放棄\nまで2手で後手の勝ち", -1, ""), ("まで2手で終了", None, ""),
    ("まで2手で時間切れにより後手の勝ち", -1, "time"), ("まで2手で先手の勝ち", 1, ""),
    ("まで2手で後手の反則負け", 1, "illegal_move"), ("まで2手で中断", None, "interrupted"),
    ("まで2手で持将棋", 0, "agreement"),
])
def test_ends_of_kif(end: str, outcome: int | None, ended_by: str) -> None:
    text = f"手合割：平手\n   1 ７六歩(77)\n   2 ３四歩(33)\n{end}\n"
    for record in read_records(f"{text}\n{text}", "x.kif").records:
        assert (len(record), record.outcome, record.ended_by) == (2, outcome, ended_by)
    assert len(read_records(f"{text}\n{text}", "x.kif").records) == 2
    again = read_one(write_records([record], "x.kif"), "x.kif")
    assert again.outcome == outcome


def test_headers_of_kif_with_a_narrow_colon() -> None:
    text = ("開始日時:2003/05/03 10:30:00\n手合割:香落ち\n下手:甲:乙\n上手:丙\n場所：東京\n"
            "1 ３四歩(33) ( 0:05/00:00:05)\n")
    games = read_records(text + text, "x.kif")
    assert games.rejects == []
    for record in games.records:
        assert (record.players, record.date, record.headers) == (("甲:乙", "丙"), "2003-05-03", {"場所": "東京"})
        assert [(move.text, move.seconds) for move in record.moves] == [("3c3d", 5)]
        assert record.first_position().to_play == 1


def test_comments_behind_the_end_belong_to_the_last_move() -> None:
    record = read_one("   1 ７六歩(77)\n*first\n   2 投了\n*second\nまで1手で先手の勝ち\n*third\n", "x.kif")
    assert record.moves[0].comment == "first\nsecond\nthird"
    assert read_one("   1 投了\n*alone\n", "x.kif").comment == "alone"


@pytest.mark.parametrize(("name", "text", "outcome"), [
    ("x.kif", "   1 ７六歩(77)\n*good\n   2 ３五歩(33)\n*two squares\n   3 反則勝ち\n", 1),
    ("x.kif", "   1 ７六歩(77)\n*good\n   2 ３五歩(33)\n*two squares\nまで2手で後手の反則負け\n", 1),
    ("x.csa", "PI\n+\n+7776FU\nT3\n'*good\n-3335FU\nT9\n'*two squares\n%-ILLEGAL_ACTION\n", 1),
])
def test_an_illegal_last_move_that_lost_is_left_out(name: str, text: str, outcome: int) -> None:
    record = read_one(text, name)
    assert [move.text for move in record.moves] == ["7g7f"]
    assert (record.outcome, record.ended_by) == (outcome, "illegal_move")
    assert record.moves[0].comment == "good\ntwo squares"
    assert record.moves[0].seconds == (3 if name == "x.csa" else None)
    again = read_one(write_records([record], name), name)
    assert (again.actions, again.outcome, again.ended_by) == (record.actions, outcome, "illegal_move")


@pytest.mark.parametrize("notation", NOTATIONS)
def test_a_game_that_went_on_or_was_interrupted_has_no_result_by_the_rules(notation: str) -> None:
    replay = Replay("shogi", {"max_plies": 1024, "declaration": False})
    for move in ["5i5h", "5a5b", "5h5i", "5b5a"] * 3:
        replay.play(move)
    text = write_records([replay.finish(outcome=None, ended_by="interrupted")], f"x.{notation}")
    last = "" if notation == "csa" else "  13 "
    more = "+7776FU\n-3334FU\n" if notation == "csa" else "  13 ７六歩(77)\n  14 ３四歩(33)\n"
    word = "%CHUDAN" if notation == "csa" else "中断"
    assert text.count(word) == 1
    cut = text.replace(f"{last}{word}\n", more)
    for one in (text, cut, cut + f"{last}{word}\n"):
        record = read_one(one, f"x.{notation}")
        assert (len(record), record.outcome, record.ended_by) == (12, None, "interrupted")
    draw = "%SENNICHITE" if notation == "csa" else "  15 千日手"
    assert read_one(f"{cut}{draw}\n", f"x.{notation}").outcome == 0


@pytest.mark.parametrize("ended_by", ["", "agreement", "forfeit", "resignation"])
def test_csa_does_not_call_an_unknown_loss_an_illegal_move(ended_by: str) -> None:
    replay = Replay("shogi", {})
    replay.play("7g7f")
    record = replay.finish(outcome=1, ended_by=ended_by)
    text = write_records([record], "x.csa")
    assert text.endswith("%TORYO\n")
    assert read_one(text, "x.csa").outcome == 1
    assert write_records([replay.finish(outcome=1, ended_by="illegal_move")], "x.csa").endswith("%ILLEGAL_MOVE\n")


def test_csa_in_all_its_forms() -> None:
    text = """V2.2
N+first
N-second
$EVENT:an event
$START_TIME:2003/05/03 10:30:00
PI82HI22KA
-
-5142OU,T12
'a comment for people
'*a comment for programs
+7776FU
T3
%TORYO,T4
/
P1-OU *  *  *  *  *  *  *  *
P2 *  *  *  *  *  *  *  *  *
P3 * +TO *  *  *  *  *  *  *
P4 *  *  *  *  *  *  *  *  *
P5 *  *  *  *  *  *  *  *  *
P6 *  *  *  *  *  *  *  *  *
P7 *  *  *  *  *  *  *  *  *
P8 *  *  *  *  *  *  *  *  *
P9 *  *  *  *  *  *  *  * +OU
P+00KI
P-00AL
+
+0082KI
/
P+59OU28HI00FU
P-51OU00AL
+
"""
    first, second, third = read_records(text, "x.csa").records
    assert first.first_position().text == "lnsgkgsnl/9/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL w - 1"
    assert [move.text for move in first.moves] == ["5a4b", "7g7f"]
    assert (first.outcome, first.ended_by, first.date, first.event) == (1, "resignation", "2003-05-03", "an event")
    assert [move.seconds for move in first.moves] == [12, 3]
    assert first.moves[0].comment == "a comment for programs"
    assert (second.outcome, second.ended_by) == (1, "rules")
    assert third.first_position().text == "4k4/9/9/9/9/9/9/7R1/4K4 b Pr2b4g4s4n4l17p 1"


def test_cshogi_reads_what_is_written(tmp_path: Path) -> None:
    cshogi, cshogi_csa, cshogi_kif = package("cshogi"), package("cshogi.CSA"), package("cshogi.KIF")
    records = random_records("shogi", {}, 8, annotated=True)
    for notation in NOTATIONS:
        for record in records:
            path = tmp_path / f"x.{notation}"
            with RecordWriter(path, "shogi", comments=True) as writer:
                writer.write(record)
            if notation == "csa":
                [game] = cshogi_csa.Parser.parse_file(str(path), encoding="utf-8")
            else:
                game = cshogi_kif.Parser.parse_file(str(path))
            assert [cshogi.move_to_usi(move) for move in game.moves] == [move.text for move in record.moves]
            assert tuple(game.names) == record.players
            winner = {1: cshogi.BLACK_WIN, -1: cshogi.WHITE_WIN, 0: cshogi.DRAW}[record.outcome or 0]
            if notation != "csa":  # cshogi does not know %TSUMI
                assert game.win == winner


def test_what_cshogi_writes_is_read(tmp_path: Path) -> None:
    cshogi, cshogi_csa, cshogi_kif = package("cshogi"), package("cshogi.CSA"), package("cshogi.KIF")
    for record in random_records("shogi", {}, 4):
        for name, exporter in (("x.kif", cshogi_kif.Exporter), ("x.csa", cshogi_csa.Exporter)):
            file = exporter(str(tmp_path / name))
            if name == "x.kif":
                file.header(["a", "b"])
            else:
                file.info(cshogi.STARTING_SFEN, ["a", "b"])
            board = cshogi.Board()
            for move in record.moves:
                number = board.move_from_usi(move.text)
                file.move(number)
                board.push(number)
            file.end("resign") if name == "x.kif" else file.endgame("%TORYO")
            file.close()
            read = read_records(tmp_path / name)
            assert read.rejects == []
            assert read.records[0].actions == record.actions
            assert read.records[0].players == ("a", "b")


def test_games_that_programs_played() -> None:
    folder = find("gpsshogi-games")
    if folder is None:
        missing("gpsshogi-games: `make oracles` fetches it")
    cshogi, cshogi_csa = package("cshogi"), package("cshogi.CSA")
    compared = 0
    for path in sorted(folder.rglob("*.csa")):
        games = read_records(path)
        for reject in games.rejects:
            assert "no statement of CSA" in str(reject) or "is missing" in str(reject), reject
        text = "\n".join(line for line in path.read_text("cp932", errors="replace").splitlines() if line[:1] != "'")
        try:
            [game] = cshogi_csa.Parser.parse_str(text)
        except Exception:  # what cshogi refuses is no comparison
            continue
        moves = [cshogi.move_to_usi(move) for move in game.moves]
        if games.records and moves:
            assert [move.text for move in games.records[0].moves] == moves[:len(games.records[0])], path
            compared += 1
    assert compared >= 100


@pytest.mark.parametrize(("name", "text", "part"), [
    ("x.kif", "   1 ７六歩(78)\n", "move 1: illegal move '７六歩'"),
    ("x.kif", "   1 ７六銀(77)\n", "on 77 stands 歩"),
    ("x.kif", "   1 ７六歩\n", "does not say where the piece comes from"),
    ("x.kif", "   1 同　歩(77)\n", "without a move before"),
    ("x.kif", "手合割：百枚落ち\n   1 ７六歩(77)\n", "the position is not given"),
    ("x.kif", "手合割：その他\n|v玉|\n", "the diagram has 1 rows"),
    ("x.kif", "   1 ７六歩(77)\nnonsense\n", "is no line of KIF"),
    ("x.kif", "   1 ７六歩(77)\n   2 パス\n   3 ２六歩(27)\n", "move 2: 'パス' is no move of KIF, and moves follow it"),
    ("x.kif", "   1 ７五歩(77)\n   2 投了\n", "move 1: illegal move '７五歩'"),
    ("x.kif", "   1 ７五歩(77)\n   2 反則負け\n", "move 1: illegal move '７五歩'"),
    ("x.kif", "   1 ７五歩(77)\n   2 ３四歩(33)\n   3 反則勝ち\n", "move 1: illegal move '７五歩'"),
    ("x.csa", "PI\n+\n+7775FU\n%-ILLEGAL_ACTION\n", "move 1: illegal move '+7775FU'"),
    ("x.csa", "PI\n+\n+7775FU\n-3334FU\n%+ILLEGAL_ACTION\n", "move 1: illegal move '+7775FU'"),
    ("x.csa", "PI\n+\n+7775FU\n", "illegal move '+7775FU'"),
    ("x.csa", "PI\n+\n+7776GI\n", "FU stands there"),
    ("x.csa", "PI\n+\n-3334FU\n", "not a move of the player to move"),
    ("x.csa", "PI\n+\n+77FU\n", "is no move of CSA"),
    ("x.csa", "PI\nnonsense\n", "is no statement of CSA"),
    ("x.csa", "N+a\n", "the player to move"),
    ("x.csa", "P1+XX\n+\n", "is no square of CSA"),
    ("x.csa", "P+00AL\nP+51OU\nP-59OU00FU00FU" + "00FU" * 20 + "\n+\n", "pawns"),
])
def test_rejects(name: str, text: str, part: str) -> None:
    games = read_records(text, name)
    assert games.records == []
    assert part in str(games.rejects[0])


@pytest.mark.parametrize("name", ["x.kif", "x.csa"])
def test_a_damaged_game_does_not_stop_a_file(name: str) -> None:
    good, bad = (("手合割：平手\n   1 ７六歩(77)\n   2 投了\n", "手合割：平手\n   1 ７五歩(77)\n") if name == "x.kif"
                 else ("PI\n+\n+7776FU\n%TORYO\n/\n", "PI\n+\n+7775FU\n/\n"))
    games = read_records(good + bad + good + bad + good, name)
    assert len(games.records) == 3
    assert [reject.game for reject in games.rejects] == [2, 4]


@pytest.mark.parametrize(("name", "part"), [
    ("x.kif", "   1 ７六歩(77)\n"), ("x.kif", "手合割：平手\n   1 投了\n"), ("x.kif", "*a\n"), ("x.kif", "："),
    ("x.kif", "|"), ("x.kif", "変化：1手\n"), ("x.kif", "　"), ("x.kif", "まで  "),
    ("x.csa", "PI\n+\n"), ("x.csa", "/\n"), ("x.csa", "+7776FU\n"), ("x.csa", ","),
    ("x.csa", "'*a\n"), ("x.csa", "P+00AL\n"), ("x.csa", " * "),
])
def test_time_is_linear_in_the_text(name: str, part: str) -> None:
    times = []
    for repeats in (1_000, 10_000):
        begin = time.process_time()
        read_records(part * repeats, name)
        times.append(time.process_time() - begin)
    assert times[1] < 40 * times[0] + 0.5
