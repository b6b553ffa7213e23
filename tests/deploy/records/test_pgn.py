import io
import time

import pytest
from oracles import RECORDS, find, missing, package
from recorded_games import random_records

from shusaku.deploy.records.files import read_records, write_records
from shusaku.deploy.records.game_record import GameRecord, Replay
from shusaku.deploy.records.pgn import COLUMNS, MAX_NESTING

CHESS = {"max_plies": 4096}
KIWIPETE = "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1"


def read_one(text: str) -> GameRecord:
    games = read_records(text, "x.pgn")
    assert games.rejects == []
    [record] = games.records
    return record


def test_a_game_comes_back_as_it_was() -> None:
    records = random_records("chess", CHESS, 8, annotated=True, event='the "great" \\ one', comment="before it",
                             headers={"Site": "here", "Round": "3.1", "WhiteElo": "1500"})
    text = write_records(records, "x.pgn", comments=True)
    assert read_records(text, "x.pgn").records == records
    assert max(map(len, text.splitlines())) <= COLUMNS


def test_other_parameters_and_a_position_that_was_set_up() -> None:
    replay = Replay("chess", {"max_plies": 100, "planes": "small"}, KIWIPETE)
    for move in ("e1g1", "e8c8", "e5f7"):
        replay.play(move)
    record = replay.finish(outcome=0, ended_by="agreement", players=("a", "b"))
    text = write_records([record], "x.pgn")
    assert "1. O-O O-O-O 2. Nxf7 1/2-1/2" in text
    assert read_one(text) == record


def test_python_chess_reads_what_is_written() -> None:
    chess_pgn = package("chess.pgn")
    records = random_records("chess", CHESS, 8, annotated=True)
    file = io.StringIO(write_records(records, "x.pgn", comments=True))
    for record in records:
        game = chess_pgn.read_game(file)
        assert game.errors == []
        assert [move.uci() for move in game.mainline_moves()] == [move.text for move in record.moves]
        assert game.headers["White"] == record.players[0]
        for node, move in zip(game.mainline(), record.moves, strict=True):
            assert " ".join(move.comment.split()) in " ".join(node.comment.split())
    assert chess_pgn.read_game(file) is None


def test_what_python_chess_writes_is_read() -> None:
    chess, chess_pgn = package("chess"), package("chess.pgn")
    for record in random_records("chess", CHESS, 5):
        game = chess_pgn.Game()
        game.headers["Result"], game.headers["White"] = "1-0", 'a "b" \\'
        node = game
        for ply, move in enumerate(record.moves):
            side = node.add_variation(chess.Move.from_uci(move.text), comment="x; y" if ply % 9 == 0 else "", nags=[2])
            if ply % 7 == 3:
                node.add_variation(next(iter(node.board().legal_moves)), comment="no (more")
            node = side
        read = read_one(str(game))
        assert read.actions == record.actions
        assert read.players[0] == 'a "b" \\'
        assert read.moves[0].comment == "x; y"
        assert read.moves[1].nags == (2,)


def test_games_that_people_played() -> None:
    folder = find("pgn-extract-games")
    if folder is None:
        missing(f"{next(iter(RECORDS))}: `make oracles` fetches it")
    chess_pgn = package("chess.pgn")
    for name in ("fischer.pgn", "petrosian.pgn", "najdorf.pgn"):
        [path] = folder.rglob(f"infiles/{name}")
        games = read_records(path)
        assert games.rejects == []
        with path.open(encoding="latin-1") as file:
            for record in games.records:
                game = chess_pgn.read_game(file)
                moves = [move.uci() for move in game.mainline_moves()]
                assert moves[:len(moves) - record.cut] == [move.text for move in record.moves]
                assert {"1-0": 1, "0-1": -1, "1/2-1/2": 0, "*": None}[game.headers["Result"]] == record.outcome


def test_all_that_movetext_may_hold() -> None:
    record = read_one("""% an escape [Event "no"]
[Event "E"] [White "A \\"B\\" \\\\"]
; a comment
[Result "1-0"]

1.e4! {[%emt 0:01:02.5] best ; (by test)} ({or} 1. d4 d5 (1... Nf6 {deep (}) 2. c4) e5 $13 ; to the end { of it
2. Ng1-f3 ?! 2... Nb8c6 3.Bf1-b5 a7-a6 4 Bxc6 dxc6 5. 0-0 $1$14 f6
% skipped
e.p. 1-0""")
    assert [move.text for move in record.moves] == ["e2e4", "e7e5", "g1f3", "b8c6", "f1b5", "a7a6", "b5c6", "d7c6",
                                                    "e1g1", "f7f6"]
    assert record.variations == 2
    assert record.players[0] == 'A "B" \\'
    assert record.moves[0].seconds == 62.5
    assert record.moves[0].comment == "best ; (by test)"
    assert [record.moves[ply].nags for ply in (0, 1, 2, 8)] == [(1,), (13,), (6,), (1, 14)]
    assert (record.outcome, record.ended_by) == (1, "resignation")


def test_moves_behind_the_end_by_our_rules_are_cut_and_the_result_stays() -> None:
    text = "1. Nf3 Nf6 2. Ng1 Ng8 3. Nf3 Nf6 4. Ng1 Ng8 5. e4 e5 1-0"
    record = read_one(text)
    assert (len(record), record.cut, record.outcome) == (8, 2, 1)


def test_a_game_that_went_on_or_broke_off_has_no_result_by_the_rules() -> None:
    drawn = "1. Nf3 Nf6 2. Ng1 Ng8 3. Nf3 Nf6 4. Ng1 Ng8"
    for text in (f"{drawn} 5. e4 e5 *", f'[Result "*"]\n\n{drawn} 5. e4 *',
                 f'[Termination "unterminated"]\n\n{drawn} *'):
        record = read_one(text)
        assert (len(record), record.outcome, record.ended_by) == (8, None, "interrupted")
        again = read_one(write_records([record], "x.pgn"))
        assert (again.actions, again.outcome, again.ended_by) == (record.actions, None, "interrupted")
    assert read_one(f"{drawn} *").outcome == 0


def test_a_termination_that_is_not_ours_is_kept() -> None:
    record = read_one('[Event "x"]\n[Termination "Ann won on time"]\n\n1. e4 1-0')
    assert record.headers == {"Termination": "Ann won on time"}
    assert read_one(write_records([record], "x.pgn")) == record
    assert read_one('[Event "x"]\n[Termination "Time forfeit"]\n\n1. e4 1-0').headers == {}


@pytest.mark.parametrize(("text", "part"), [
    ('[Event "x"]\n\n1. e4 e5 2. Ke3 1-0', "game 1, move 3: 'Ke3' is no move"),
    ('[Event "x"]\n\n1. Nf3 Nf6 2. d4 d5 3. Nd2 *', "move 5: illegal move 'Nd2', which could be Nbd2 or Nfd2"),
    ('[Event "x"]\n[FEN "8/8"]\n\n*', "FEN"),
    ('[Event "x"]\n[Variant "Chess960"]\n\n1. e4 *', "'Chess960' is not played here"),
    ('[Event "x"]\n\n1. e4 {never closed', "no closing brace"),
    ('[Event "x"]\n[Result "1-0"]\n\n1. e4 (1. d4 e5 2. Nf3 d6 3. c4 1-0', "move 2: a variation has no closing"),
    ('[Event "x"]\n\n1. -- e5 *', "is no part of a game"),
    ('[Event "x"]\n\n1. e4 ' + "(" * (MAX_NESTING + 1) + " *", "nested"),
])
def test_rejects(text: str, part: str) -> None:
    games = read_records(text, "x.pgn")
    assert games.records == []
    assert part in str(games.rejects[0])
    good = '\n\n[Event "y"]\n\n1. d4 d5 *\n'
    games = read_records(good + text + good, "x.pgn")
    assert len(games.records) == 2, games.rejects
    assert [reject.game for reject in games.rejects] == [2]


def test_results_and_how_games_ended() -> None:
    for outcome, ended_by in ((1, "time"), (-1, "resignation"), (0, "agreement"), (None, "interrupted"),
                              (1, "forfeit")):
        replay = Replay("chess", CHESS)
        replay.play("e2e4")
        record = replay.finish(outcome=outcome, ended_by=ended_by)
        assert read_one(write_records([record], "x.pgn")) == record
    assert read_one("[Event \"x\"]\n\n1. f3 e5 2. g4 Qh4# *").outcome == -1


@pytest.mark.parametrize("part", ['[Event "x"]\n', "{", "{a} ", "(", "1. e4 {", '[Event "x"]\n\n1. e4 {\n', ";", "[",
                                  '[a "\\\\', "1. ", "* ", "$1 ", "e4 ", "-", "\n\n"])
def test_time_is_linear_in_the_text(part: str) -> None:
    times = []
    for repeats in (2_000, 20_000):
        begin = time.process_time()
        read_records(part * repeats, "x.pgn")
        times.append(time.process_time() - begin)
    assert times[1] < 40 * times[0] + 0.5
