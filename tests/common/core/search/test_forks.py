"""Games that branch off from the one before them, checked against that game."""

from collections import Counter

import numpy as np
import pytest
from scripted_evaluator import ScriptedEvaluator
from search_fixtures import plain_game_batch, played_games

from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.actors.self_play import ActorIdentity, SelfPlay
from shusaku.common._core import Game, RowRing
from shusaku.common.config.schema import SelfPlayConfig
from shusaku.common.config.search import PuctConfig
from shusaku.common.messages import Leaves, RowKind
from shusaku.common.search import search_options

SEARCH = PuctConfig(simulations=2, noise=False, cache=0)


def games_of_one_slot(game, count, **self_play):
    """Actions and lengths of the openings, in the order in which the games were played."""
    games, _ = played_games(game, SEARCH, SelfPlayConfig(**self_play), PseudoRandomEvaluator(game, 1), count,
                            symmetries=False, size=1)
    return [g["actions"].tolist() for g in games], [int(np.sum(g["kind"] == RowKind.OPENING)) for g in games]


def test_a_fork_repeats_its_parent_up_to_an_early_ply_and_then_plays_another_move():
    game = Game("connect_four")
    games, openings = games_of_one_slot(game, 1500, fork_share=0.4, fork_plies=6)
    assert openings[0] == 0
    plies = Counter()
    for parent, child, opening in zip(games, games[1:], openings[1:], strict=False):
        if opening == 0:
            continue
        ply = opening - 1
        assert child[:ply] == parent[:ply]
        assert child[ply] != parent[ply]
        assert ply <= min(6, len(parent) - 1)
        plies[ply] += 1
    forks = plies.total()
    assert abs(forks / 1500 - 0.4) < 4 * np.sqrt(0.4 * 0.6 / 1500)
    assert min(map(len, games)) >= 7  # so that every ply up to 6 is as likely
    for ply in range(7):
        assert abs(plies[ply] / forks - 1 / 7) < 4 * np.sqrt(6 / 49 / forks), plies


def test_the_other_move_is_drawn_from_the_networks_policy():
    game = Game("connect_four")
    games, openings = games_of_one_slot(game, 3000, fork_share=0.8, fork_plies=0, policy_temperature=0.5)
    leaves = Leaves(*plain_game_batch(game, search_options(SEARCH, symmetries=False), 1, 1).select(0))
    weights = np.exp(PseudoRandomEvaluator(game, 1)(leaves).logits.astype(float) / 0.5)
    checked = 0
    for avoided in range(7):
        chosen = [child[0] for parent, child, n in zip(games, games[1:], openings[1:], strict=False)
                  if n and parent[0] == avoided]
        if len(chosen) < 200:
            continue
        expected = np.where(np.arange(7) == avoided, 0, weights)
        expected /= expected.sum()
        share = np.bincount(chosen, minlength=7) / len(chosen)
        assert (np.abs(share - expected) <= 4 * np.sqrt(expected * (1 - expected) / len(chosen))).all()
        checked += 1
    assert checked >= 3


def test_where_there_is_no_other_move_the_game_begins_anew():
    game = Game("tic_tac_toe")
    games, openings = games_of_one_slot(game, 2000, fork_share=0.9, fork_plies=8)
    assert max(map(len, games)) == 9
    assert max(openings) == 8  # at ply 7 two points are left, at ply 8 one
    for parent, child, n in zip(games, games[1:], openings[1:], strict=False):
        assert n == 0 or (child[: n - 1] == parent[: n - 1] and child[n - 1] != parent[n - 1])


def test_a_policy_that_knows_one_move_only_is_answered_by_any_other():
    game = Game("connect_four")
    logits = np.where(np.arange(7) == 3, 60, 0).astype(np.float32)  # exp(-60) is nothing as a half float
    games, _ = played_games(game, SEARCH, SelfPlayConfig(fork_share=0.5, fork_plies=0),
                            ScriptedEvaluator(game, lambda planes: (logits, 0.0)), 150)
    first = Counter(int(g["actions"][0]) for g in games if g["kind"][0] == RowKind.OPENING)
    assert first.keys() == {0, 1, 2, 3, 4, 5, 6} - ({3} - first.keys())
    assert all(first[a] > 0 for a in (0, 1, 2, 4, 5, 6))
    assert Counter(int(g["actions"][0]) for g in games if g["kind"][0] != RowKind.OPENING).most_common(1)[0][0] == 3


@pytest.mark.parametrize("name", ["connect_four", "othello"])
def test_the_rows_of_forks_are_replayed_from_the_start_and_their_openings_not_learned(name):
    game = Game(name)
    player = SelfPlay(game, PuctConfig(simulations=6), SelfPlayConfig(fork_share=0.6, fork_plies=9, random_plies=2),
                      PseudoRandomEvaluator(game, 8), games=8, seed=1, identity=ActorIdentity(0))
    ring, forks = RowRing(game, 100_000), 0
    for r in player.play(4000):
        opening = int(np.sum(r.kind == RowKind.OPENING))
        forks += opening > 2
        assert not (r.row_weight[:opening] > 0).any()
        assert (r.kind[opening:] == RowKind.FULL).all()
        rows = ring.append(r)
        assert rows == len(r) - opening == r.num_rows
    assert forks > 10


@pytest.mark.parametrize("interrupt", [1, 4])
def test_interruptions_change_no_fork(interrupt):
    game = Game("connect_four")
    self_play = SelfPlayConfig(fork_share=0.6, fork_plies=5, resign_errors=0.1)
    evaluate = PseudoRandomEvaluator(game, 8)
    whole, _ = played_games(game, SEARCH, self_play, evaluate, 250)
    cut, _ = played_games(game, SEARCH, self_play, evaluate, 250, interrupt=interrupt)
    assert sum(g["kind"][0] == RowKind.OPENING for g in whole) > 100
    assert [tuple(g["actions"]) for g in whole] == [tuple(g["actions"]) for g in cut]
