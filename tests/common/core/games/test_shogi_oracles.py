"""Shogi against cshogi, minishogi against Fairy-Stockfish: random games and positions, counts; seeds are printed."""

import subprocess
from collections import Counter

import cshogi
import numpy as np
import pytest
from oracles import engine
from shogi_pair import CShogi, Fairy, Watched, compare, fairy_fen, random_set_up, turned

from shusaku.common._core import Game, perft

GAMES = {"shogi": Game("shogi"), "minishogi": Game("minishogi")}
OTHERS = {"shogi": CShogi, "minishogi": Fairy}


CHECKS = "4k4/9/9/9/9/9/9/9/R3K4 b - 1"  # a rook that can go on giving check


def next_action(random, position, watched, wishes_repetition):
    """Mostly checks, and back to boards that were there, so that they repeat."""
    legal = watched.legal
    if wishes_repetition and random.random() < 0.85:
        boards = {text.rsplit(" ", 1)[0] for text in watched.texts}
        checks = [action for action in legal if gives_check(position, action)]
        for some in (checks, legal):
            for action in random.permutation(some).tolist()[:40]:
                after = position.copy()
                after.play(action)
                if after.text.rsplit(" ", 1)[0] in boards:
                    return int(action)
        if checks:
            return int(random.choice(checks))
    return int(random.choice(legal))


def gives_check(position, action):
    """Whether our parser refuses the position after it with the other player to move."""
    after = position.copy()
    after.play(action)
    board, turn, rest = after.text.split(" ", 2)
    try:
        GAMES["shogi" if board.count("/") == 8 else "minishogi"].position(f"{board} {'bw'[turn == 'b']} {rest}")
    except ValueError:
        return True
    return False


def play(name, seed, sfen=None, wishes_repetition=False, plies=10_000):
    """One random game in both; what it ended with, and its plies."""
    random, game = np.random.default_rng(seed), GAMES[name]
    position = game.position(sfen) if sfen else game.start()
    watched, begin = Watched(OTHERS[name](sfen)), position.ply
    where = f"{name}, seed {seed}, from {sfen or 'the start'}"
    while not compare(position, watched, where) and position.ply - begin < plies:
        action = next_action(random, position, watched, wishes_repetition)
        move = position.to_move(action)
        position.play(action)
        watched.play(move)
    ending = "none"
    if position.is_terminal:
        repeats = watched.repeats[-1] >= 3
        ending = ("limit" if position.is_cut_off else "perpetual check" if watched.is_perpetual
                  else "repetition" if repeats else "declared" if position.outcome == 1 else "mate")
        if repeats:
            assert watched.other.repetition == (True, position.outcome), where
    return ending, position.ply - begin


def play_many(name, seeds, plies, **options):
    print(f"{name}: seeds from {seeds.start}")
    endings, total = Counter(), 0
    for seed in seeds:
        ending, length = play(name, seed, **options)
        endings[ending] += 1
        total += length
        if total >= plies:
            break
    assert total >= plies, f"{total} plies of {seeds}"
    print(f"{name}: {total} plies, {dict(endings)}")
    return endings


@pytest.mark.parametrize("name", GAMES)
def test_random_games(name):
    assert play_many(name, range(10_000), 20_000)["mate"] > 10


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", GAMES)
def test_very_many_random_games(name):
    endings = play_many(name, range(100_000, 200_000), 2_000_000)
    assert endings["mate"] > 1000
    assert name != "shogi" or endings["limit"] > 100


def set_ups(name, seed, count):
    """Positions of random pieces that the game accepts, and how many it refused."""
    random, size, kept, refused = np.random.default_rng(seed), GAMES[name].observation_shape[1], [], 0
    while len(kept) < count:
        sfen = random_set_up(size, random)
        try:
            GAMES[name].position(sfen)
            kept.append(sfen)
        except ValueError:
            refused += 1
    return kept


@pytest.mark.parametrize(("name", "count"), [("shogi", 600), ("minishogi", 600),
                         pytest.param("shogi", 60_000, marks=[pytest.mark.long, pytest.mark.timeout(3600)]),
                         pytest.param("minishogi", 60_000, marks=[pytest.mark.long, pytest.mark.timeout(3600)])])
def test_random_set_ups(name, count):
    """Drops, promotions, pins and checks of all kinds; a few plies on from each."""
    endings = Counter()
    for number, sfen in enumerate(set_ups(name, 7, count)):
        endings[play(name, number, sfen=sfen, plies=6)[0]] += 1
        endings[play(name, number, sfen=turned(sfen), plies=1)[0]] += 1
    print(endings)
    assert endings["mate"] > 0


@pytest.mark.parametrize("name", GAMES)
def test_repetitions(name):
    """Few pieces that like to go back: draws, and perpetual checks of either player."""
    few = {"shogi": [CHECKS, CHECKS, turned(CHECKS), "k8/9/2+R6/9/9/6+b2/9/8K/9 b - 1"],
           "minishogi": ["3k1/5/5/R4/1K3 b - 1", "k4/5/2+R2/1+b3/4K w - 1"]}[name]
    endings = Counter()
    for seed in range(120):
        endings[play(name, seed, sfen=few[seed % len(few)], wishes_repetition=True)[0]] += 1
    print(endings)
    assert endings["perpetual check"] > 5
    assert endings["repetition"] > 5


def entered(random):
    """SFEN of a board where the first player's king and many pieces stand in the zone or about it."""
    pieces = [*"RRBBGGGGSSSSNNNNLLLL", *"P" * 18]
    random.shuffle(pieces)
    cells = [int(c) for c in random.permutation(36 if random.random() < 0.3 else 27)]
    board = [""] * 81
    board[cells.pop()] = "K"
    board[int(random.integers(54, 81))] = "k"
    for piece in [p for p in pieces if p in "GS"][:int(random.integers(0, 4))]:  # the opponent's count for nobody
        pieces.remove(piece)
        board[cells.pop()] = piece.lower()
    for _ in range(int(random.integers(9, 13))):
        piece, cell = pieces.pop(), cells.pop()
        must = (piece in "PL" and cell < 9) or (piece == "N" and cell < 18) or piece == "P"
        board[cell] = "+" * (piece != "G" and (must or random.random() < 0.3)) + piece
    hand = Counter(pieces[:int(random.integers(4, 18))])
    rows = ["".join(x or "1" for x in board[9 * r:9 * r + 9]) for r in range(9)]
    text = "/".join("".join(str(len(run)) if run[0] == "1" else run for run in runs(row)) for row in rows)
    held = "".join((str(hand[p]) if hand[p] > 1 else "") + p for p in "RBGSNLP" if hand[p]) or "-"
    return f"{text} b {held} 1"


def runs(row):
    out = []
    for c in row:
        if c == "1" and out and out[-1][0] == "1":
            out[-1] += c
        else:
            out.append(c)
    return out


@pytest.mark.parametrize("count", [1500, pytest.param(50_000, marks=[pytest.mark.long, pytest.mark.timeout(3600)])])
def test_declarations(count):
    random, game, found = np.random.default_rng(11), GAMES["shogi"], Counter()
    while sum(found.values()) < count:
        sfen = entered(random)
        try:
            game.position(sfen)
        except ValueError:
            continue
        for text in (sfen, turned(sfen)):
            position, board = game.position(text), cshogi.Board(text)
            declares = board.is_nyugyoku()
            assert position.is_terminal == (declares or not len(board.legal_moves)), text
            assert not declares or position.outcome == 1, text
            found[declares, text.split()[1]] += 1
    print(found)
    assert min(found[key] for key in ((True, "b"), (True, "w"), (False, "b"), (False, "w"))) > count / 20


def count(board, depth):
    if depth == 1:
        return len(board.legal_moves)
    nodes = 0
    for move in list(board.legal_moves):
        board.push(move)
        nodes += count(board, depth - 1)
        board.pop()
    return nodes


@pytest.mark.parametrize("seeds", [range(30), pytest.param(range(30, 1000), marks=pytest.mark.long)])
def test_counts_of_cshogi(seeds):
    for number, sfen in enumerate(set_ups("shogi", 23, len(seeds)), start=seeds.start):
        assert perft(GAMES["shogi"].position(sfen), 2) == count(cshogi.Board(sfen), 2), f"{number}: {sfen}"


MATSURI = "l6nl/5+P1gk/2np1S3/p1p4Pp/3P2Sp1/1PPb2P1P/P5GS1/R8/LN4bKL w RGgsn5p 1"  # full of drops and promotions


@pytest.mark.parametrize(("name", "sfen", "depth"), [
    ("shogi", None, 4), ("shogi", MATSURI, 3), ("shogi", turned(MATSURI), 3), ("minishogi", None, 5)])
def test_counts_of_fairy_stockfish(name, sfen, depth):
    """Its program; the library has no counts.  Pawn drops that mate, which it counts, come later."""
    where = f"fen {fairy_fen(sfen)}" if sfen else "startpos"
    commands = f"uci\nsetoption name UCI_Variant value {name}\nposition {where}\ngo perft {depth}\nquit\n"
    said = subprocess.run([engine("fairy-stockfish")], input=commands, capture_output=True, text=True, timeout=120,
                          check=True).stdout
    nodes = int(said.split("Nodes searched: ")[1].split()[0])
    position = GAMES[name].position(sfen) if sfen else GAMES[name].start()
    assert perft(position, depth) == nodes
