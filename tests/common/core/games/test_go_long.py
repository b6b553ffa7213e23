"""Go against the reference for millions of plies, and against GNU Go and OpenSpiel for longer than a quick test may."""

import multiprocessing
import os
import random
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

import pytest
import reference_go as reference
from go_against import against_gnu_go, against_openspiel
from go_pair import RULES, SUPERKOS, compare
from reference_go import ReferenceGo

from shusaku.common._core import Game, perft

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

PLIES = 2_000_000
GAMES = 200  # of one task: some 12,000 plies
SMALL, ALL = (2, 3, 4, 5), (2, 3, 4, 5, 6, 7, 8, 9)
LARGE = (10, 11, 12, 13, 14, 15, 16, 17, 18, 19)


def seed_of_this_run():
    """Other games every time; SHUSAKU_SEED plays those of an earlier run again."""
    seed = int(os.environ.get("SHUSAKU_SEED") or time.time())
    print(f"SHUSAKU_SEED={seed}")
    return seed


def in_processes(tasks):
    """compare() of these (seeds, sizes, thorough), summed, on all the cores."""
    total = Counter()
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        for counts in pool.map(compare, *zip(*tasks, strict=True)):
            total += counts
    return total


def test_two_million_plies_in_lockstep_with_the_reference():
    """Most of them on boards of 2 to 5 lines, where repetitions are common."""
    base, total = seed_of_this_run() * 100_000, Counter()
    for part in range(1000):
        if total["plies"] >= PLIES:
            break
        begin = base + part * 16 * GAMES
        starts = range(begin, begin + 16 * GAMES, GAMES)
        total += in_processes([(range(s, s + GAMES), ALL if i % 4 == 0 else SMALL, 0.2) for i, s in enumerate(starts)])
    print(dict(sorted(total.items())))
    assert total["plies"] >= PLIES
    for what, often in {
        "positional forbade": 100_000, "positional forbade more than simple ko": 5_000,
        "positional forbade a suicide": 80_000, "situational forbade": 20_000,
        "situational forbade more than simple ko": 5_000, "situational forbade a suicide": 5_000,
        "situational allowed a board that had stood": 50_000, "simple forbade": 10_000,
        "simple allowed a board that had stood": 50_000, "suicides played": 50_000,
    }.items():
        assert total[what] >= often, what


def test_large_boards_in_lockstep_with_the_reference():
    """From random boards, up to 3 * 19 * 19 plies."""
    base = seed_of_this_run() * 100_000
    total = in_processes([(range(s, s + 4), LARGE, 0.1) for s in range(base, base + 96, 4)])
    print(dict(sorted(total.items())))
    assert total["plies"] >= 15_000


@pytest.mark.parametrize("superko", SUPERKOS)
@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize(("size", "games", "plies"), [(3, 60, 240), (5, 30, 240), (9, 20, 240), (19, 2, 480)])
def test_gnu_go_finds_the_same_actions_legal(size, games, plies, rules, superko):
    base = random.Random(seed_of_this_run()).randrange(10**9)
    counts = against_gnu_go(size, rules, superko, range(base, base + games), plies)
    print(dict(counts))
    assert counts["plies"] >= games * 60
    assert counts["forbidden"] >= 1


@pytest.mark.parametrize(("size", "games", "plies"), [(3, 400, 240), (5, 400, 240), (9, 100, 240), (19, 12, 1000)])
def test_openspiel_finds_the_same_actions_legal(size, games, plies):
    base = random.Random(seed_of_this_run()).randrange(10**9)
    counts = against_openspiel(size, range(base, base + games), plies)
    print(dict(counts))
    assert counts["plies"] >= games * 15


@pytest.mark.parametrize("superko", SUPERKOS)
@pytest.mark.parametrize("rules", RULES)
def test_3x3_counted_deeper(rules, superko):
    theirs = ReferenceGo(3, rules=rules, superko=superko)
    ours = Game("go", {"size": 3, "komi": 0.5, "rules": rules, "superko": superko}).start()
    assert perft(ours, 6) == reference.perft(theirs, 6)


@pytest.mark.parametrize("superko", SUPERKOS)
@pytest.mark.parametrize("rules", RULES)
def test_2x2_counted_deeper(rules, superko):
    """Past its default limit of eight plies, where repetitions decide."""
    theirs = ReferenceGo(2, rules=rules, superko=superko, max_plies=13)
    ours = Game("go", {"size": 2, "komi": 0.5, "rules": rules, "superko": superko, "max_plies": 13}).start()
    assert perft(ours, 13) == reference.perft(theirs, 13)
