"""Real games, without one illegal move: pgn-extract's PGN beside python-chess, gpsshogi's CSA beside cshogi.

The games come with Debian's source packages, which `make oracles` fetches.
"""

import io
import re
from collections import Counter, defaultdict
from fnmatch import fnmatch

import chess
import chess.pgn
import cshogi
import cshogi.CSA
from chess_pair import Pair
from oracles import records
from shogi_pair import CShogi, Watched, compare

from shusaku.common._core import Game

# Files of pgn-extract's own tests that are not games in PGN.
NOT_PGN = {
    "nested-comment.pgn": "comments within comments, which PGN does not have",
    "test-nestedcomments-out.pgn": "the same as pgn-extract writes it",
    "test-fuzzydepth.pgn": "games without tags and empty lines between them, one of them with an illegal move",
    "test-nobadresults.pgn": "moves on the lines of tags",
    "test-allownullmoves*.pgn": "players who pass",
    "test-*deutsch-out.pgn": "German letters",
    "test-*epd-out.pgn": "positions, not moves",
}
WRONG_RESULTS = ["test-fixresulttags-in.pgn"]  # which pgn-extract is to put right


def games_in(file):
    """The games of a PGN file, every word of whose moves was understood: the reader skips what it does not know."""
    text = file.read_text("latin-1")
    stream, games, words = io.StringIO(text), [], 0
    while (game := chess.pgn.read_game(stream)) is not None:
        assert not game.errors, f"{file}: {game.errors}"
        games.append(game)
        todo = [game]
        while todo:
            following = todo.pop().variations
            words += len(following)
            todo += following
    for noise in (r"^\[.*\]\s*$", r"\{[^}]*\}", r"\d+\.+|\$\d+|[()*]|1-0|0-1|1/2-1/2"):
        text = re.sub(noise, " ", text, flags=re.MULTILINE)
    assert words == len(text.split()), f"{file}: not all of it is PGN"
    return games


def lines_of(game):
    """The moves of the game, then those of each variation from the beginning."""
    todo = [(game, [])]
    while todo:
        node, moves = todo.pop()
        while node.variations:
            todo += [(side, [*moves, side.move]) for side in node.variations[1:]]
            node = node.variations[0]
            moves.append(node.move)
        yield tuple(moves)


def read_pgn(pattern):
    """{(FEN, moves): results} of all games and variations, each once: many files hold the same games."""
    found, folder = defaultdict(set), records("pgn-extract-games")
    for file in sorted(folder.glob(pattern)):
        if any(fnmatch(file.name, excluded) for excluded in NOT_PGN):
            continue
        for game in games_in(file):
            main, *variations = ((game.board().fen(), moves) for moves in lines_of(game))
            found[main].add("*" if file.name in WRONG_RESULTS else game.headers["Result"])
            for line in variations:
                found[line].add("*")
    return found


def replay(fen, moves):
    """The line in both, and what was seen.  Ours ends a game without a claim, and players who claimed nothing went on:
    then the rest begins where a draw by repetition came.  After fifty moves there is no such place."""
    pair, seen = Pair(fen), Counter()
    pair.compare()
    for number, move in enumerate(moves):
        if pair.ours.is_terminal:
            assert pair.board.is_repetition(3) or pair.board.halfmove_clock >= 100
            pair = Pair(pair.board.fen())
            if pair.ours.is_terminal:
                seen["plies after fifty moves"] = len(moves) - number
                return pair, seen
            seen["repetition"] += 1
        san, action = pair.board.san(move), pair.ours.from_move(move.uci())
        assert pair.ours.to_san(action) == san
        assert pair.ours.from_move(san) == action
        seen["castling"] += pair.board.is_castling(move)
        seen["en passant"] += pair.board.is_en_passant(move)
        seen["promotion"] += move.promotion is not None
        pair.play(action)
        pair.compare()
        seen["plies"] += 1
    return pair, seen


def test_games_of_chess():
    seen = Counter()
    for (fen, moves), results in read_pgn("test/**/*.pgn").items():
        pair, some = replay(fen, moves)
        seen += some
        seen["games"] += len(moves) >= 40
        seen["set up"] += fen != chess.STARTING_FEN
        if pair.board.is_checkmate() or pair.board.is_stalemate():
            seen["mate or stalemate"] += 1
            assert results <= {pair.board.result(), "*"}
    print(seen)
    assert seen["games"] >= 100, seen
    assert seen["plies"] >= 10_000, seen
    assert seen["plies after fifty moves"] <= 15, seen
    assert min(seen[kind] for kind in ("castling", "en passant", "promotion", "set up", "repetition",
                                       "mate or stalemate")) > 0, seen


def test_openings_of_chess():
    seen, lines = Counter(), read_pgn("eco.pgn")
    for fen, moves in lines:
        seen += replay(fen, moves)[1]
    print(len(lines), seen)
    assert len(lines) >= 2000
    assert seen["plies"] >= 20_000, seen


def read_csa(file):
    """(SFEN, moves in USI, how it ended).  Times, comments and what the server says ("#RESIGN") are left out: cshogi's
    reader takes comments in some places only, and the server's words in none."""
    lines = re.findall(r"^(?:P[1-9+-]|[+-]|%).*", file.read_text("latin-1"), re.MULTILINE)
    game, = cshogi.CSA.Parser.parse_str("\n".join(lines))
    assert len(game.moves) == sum(len(line) > 1 and line[0] in "+-" for line in lines), file
    return game.sfen, tuple(map(cshogi.move_to_usi, game.moves)), game.endgame


def test_games_of_shogi():
    """All of them: games of tournaments, one opening, and a few plies from positions that were set up."""
    endings, seen = defaultdict(set), Counter()
    for file in sorted(records("gpsshogi-games").rglob("*.csa")):
        sfen, moves, ending = read_csa(file)
        endings[sfen, moves].add(ending)
    for (sfen, moves), said in endings.items():
        position, watched = Game("shogi").position(sfen), Watched(CShogi(sfen))
        for number, move in enumerate(moves):
            where = f"{sfen} moves {' '.join(moves[:number])}"
            assert not compare(position, watched, where), "they played on where ours is over"
            position.play(position.from_move(move))
            watched.play(move)
        is_over = compare(position, watched, f"{sfen} moves {' '.join(moves)}")
        assert said <= {"%TORYO", "%TSUMI", ""}, "resigned, mated, or not said"
        assert is_over or "%TSUMI" not in said
        assert not is_over or position.outcome == -1, "nobody declared, and none of them repeated"
        seen["games"] += len(moves) >= 40
        seen["plies"] += len(moves)
        seen["set up"] += sfen != cshogi.STARTING_SFEN
        seen["mate"] += is_over
        seen["repeated"] += max(watched.repeats) > 0
    print(seen)
    assert seen["games"] >= 130, seen
    assert seen["plies"] >= 17_000, seen
    assert min(seen[kind] for kind in ("set up", "mate", "repeated")) > 0, seen
