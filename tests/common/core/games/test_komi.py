"""Go with a komi of each game's own: the search plays by it, the record says it, the network may see it."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from search_fixtures import played_games, self_play_games

from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator, UniformEvaluator
from shusaku.actors.self_play import ActorIdentity, SelfPlay
from shusaku.common._core import Game, GameBatch
from shusaku.common.codec import decode_record, encode_record
from shusaku.common.config.schema import ReplayConfig, SelfPlayConfig
from shusaku.common.config.search import PuctConfig
from shusaku.common.search import search_options, self_play_options
from shusaku.replay.memory_buffer import MemoryBuffer

SEARCH = PuctConfig(simulations=6, noise=False, cache=0)
KOMI = SelfPlayConfig(komi_stdev=1.0, random_plies=4)


def go(size=3, komi=2.0, **params):
    return Game("go", {"size": size, "komi": komi, "max_plies": 20, **params})


def records_of(game, rows, self_play=KOMI):
    return SelfPlay(game, SEARCH, self_play, PseudoRandomEvaluator(game, 8), games=8, seed=1,
                    identity=ActorIdentity(0)).play(rows)


def test_komi_is_normal_in_half_points_and_cut_off():
    def below(x):  # of a normal one cut off at three standard deviations
        phi = 0.5 * (1 + math.erf(np.clip(x, -3, 3) / math.sqrt(2)))
        return (phi - 0.00135) / 0.9973

    counts = Counter(r.params["komi"] for r in records_of(go(size=2, max_plies=2), 3000, replace(KOMI, random_plies=0)))
    games = counts.total()
    assert games >= 1500
    assert {2 * komi % 1 for komi in counts} == {0}
    for komi in np.arange(-1.5, 6, 0.5):
        expected = below(komi + 0.25 - 2) - below(komi - 0.25 - 2)
        assert abs(counts[komi] / games - expected) < 4.5 * math.sqrt(expected * (1 - expected) / games) + 1e-4, komi


def test_the_record_says_by_which_komi_it_was_won():
    game, won = go(), Counter()
    for r in records_of(game, 3000):
        assert {**r.params, "komi": 2.0} == game.params
        position = Game("go", r.params).start()
        for action in r.actions:
            position.play(int(action))
        sign = 1 if position.to_play == 0 else -1
        assert (r.score, r.outcome) == (sign * position.score, sign * position.outcome)
        black = r.score + r.params["komi"]
        won[r.outcome != (black > 2) - (black < 2)] += 1
    assert won[True] > 20  # won by its own komi, not by that of the rules


def test_the_search_ends_games_by_their_own_komi():
    game = go(size=2, komi=4.0, max_plies=1)  # black fills a point and owns all four, or passes
    search = replace(SEARCH, simulations=20)
    games, _ = played_games(game, search, SelfPlayConfig(komi_stdev=1.0), UniformEvaluator(game, 8), 80)
    assert {g["komi"] < 4 for g in games} == {True, False}
    for g in games:
        assert (g["root_values"][0] > 0.4) == (g["komi"] < 4), g["komi"]


@pytest.mark.parametrize("sees", [True, False])
def test_rows_are_those_of_their_games_and_show_the_komi_where_the_planes_do(sees):
    game = go(planes="komi" if sees else "zero")
    buffer = MemoryBuffer(game, ReplayConfig(capacity=20_000, minimum=1), batch_size=512)
    expected = []
    for r in records_of(game, 1500):
        buffer.append(decode_record(encode_record(r)))
        own, position = r.params["komi"], game.start()
        for t, action in enumerate(r.actions):
            if r.row_weight[t] > 0:
                expected.append((own if position.to_play else -own) / 20)
            position.play(int(action))
    assert buffer.stats().quarantined == {}
    batch = buffer.sample(512, seed=1)
    planes = batch.observations[:, 17:]
    assert planes.shape[1] == sees
    for plane, row in zip(planes[:, 0] if sees else [], batch.rows, strict=False):
        assert (plane == np.float32(expected[row])).all()
    assert len({expected[row] for row in batch.rows}) > 6


@pytest.mark.parametrize(("edit", "reason"), [
    ({"komi": 7.25}, "game: a komi of 7.25"),
    ({"komi": 1e6}, "game: a komi of 1000000"),
    ({"komi": "7"}, "game: parameters"),
    ({"komi": True}, "game: parameters"),
    ({"superko": "simple"}, "game: parameters"),
    ({"komi": 99.0}, "outcome: "),
])
def test_records_of_another_komi_than_they_were_won_by_are_refused(edit, reason):
    game = go()
    buffer = MemoryBuffer(game, ReplayConfig(capacity=1000, minimum=1), batch_size=8)
    record = next(r for r in records_of(game, 100) if r.outcome > 0)
    buffer.append(replace(record, params={**record.params, **edit}))
    (entry,) = buffer.quarantine.entries
    assert entry.reason.startswith(reason)


def test_games_without_a_komi_refuse_one():
    game = Game("tic_tac_toe")
    with pytest.raises(ValueError, match="tic_tac_toe has no komi"):
        GameBatch(game, search_options(SEARCH, symmetries=False), 1, 1, self_play_options(KOMI))


@pytest.mark.parametrize("planes", ["zero", "komi"])
def test_neither_interruptions_nor_the_cache_change_a_game(planes):
    game = go(planes=planes)
    evaluate = PseudoRandomEvaluator(game, 8)
    self_play = replace(KOMI, fork_share=0.3, fork_plies=4)
    whole, _ = played_games(game, SEARCH, self_play, evaluate, 120)
    cut, _ = played_games(game, SEARCH, self_play, evaluate, 120, interrupt=2)
    assert [(g["komi"], tuple(g["actions"]), g["score"]) for g in whole] == [
        (g["komi"], tuple(g["actions"]), g["score"]) for g in cut]
    plain, cached = (search_options(replace(SEARCH, cache=cache), symmetries=True) for cache in (0, 8192))
    one, other = (self_play_games(game, evaluate, options, 6, 150, random_plies=2, komi_stdev=3.0)
                  for options in (plain, cached))
    assert set(one[:100]) <= set(other)
    assert set(other[:100]) <= set(one)


def test_the_komi_is_a_part_of_the_future_and_of_what_is_seen():
    for planes, differs in (("zero", False), ("komi", True)):
        one, other = (go(komi=komi, planes=planes).start() for komi in (2.0, 2.5))
        assert one.transposition_key != other.transposition_key
        assert (one.evaluation_key != other.evaluation_key) == differs
        assert np.array_equal(one.observation(), other.observation()) != differs
