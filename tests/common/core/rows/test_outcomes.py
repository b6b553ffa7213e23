"""z of every row is for the player to move there: games in which players move twice, or in which white moves first."""

from functools import cache

import numpy as np
import pyspiel
import pytest
from external_fixtures import Takeaway, python_game, solve
from scripted_evaluator import ScriptedEvaluator

from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.actors.self_play import ActorIdentity, SelfPlay
from shusaku.common._core import Game, RowRing
from shusaku.common.config.schema import SelfPlayConfig
from shusaku.common.config.search import PuctConfig
from shusaku.common.messages import EndedBy, RowKind


def self_play(game, evaluate, **settings):
    return SelfPlay(game, PuctConfig(simulations=8, cache=0), SelfPlayConfig(**settings), evaluate, games=4, seed=2,
                    identity=ActorIdentity(0))


def outcomes_of_rows(game, records):
    """z of every row, in the order in which the rows were appended, as the learner samples it."""
    ring = RowRing(game, 10_000)
    rows = sum(ring.append(record) for record in records)
    batch = ring.sample(30 * rows, 0, rows, 1, True, 1)
    outcomes = np.full(rows, np.nan)
    outcomes[batch["rows"]] = batch["outcome"]
    return outcomes


# Who moves first in OpenSpiel, and how many rows are for a player whom the parity of the ply does not tell.
@pytest.mark.parametrize(("name", "first", "moves_twice"), [
    ("dots_and_boxes", 0, True), ("mancala", 0, True), ("antichess", 1, False), ("ultimate_tic_tac_toe", 0, True),
])
def test_the_outcome_is_what_open_spiel_returns_to_the_player_to_move(name, first, moves_twice):
    game = Game("open_spiel", {"name": name})
    records = self_play(game, PseudoRandomEvaluator(game, 4), random_plies=2).play(200)
    expected, by_parity = [], []
    for record in records:
        state = pyspiel.load_game(name).new_initial_state()
        assert state.current_player() == first
        players = []
        for action in record.actions:
            players.append(state.current_player())
            state.apply_action(int(action))
        assert state.is_terminal()
        returns = np.sign(state.returns())
        assert record.outcome == returns[first]
        rows = np.flatnonzero(record.row_weight > 0)
        expected += [returns[players[t]] for t in rows]
        by_parity += [record.outcome * (-1) ** t for t in rows]
    found = outcomes_of_rows(game, records)
    assert found.tolist() == expected
    assert (expected != by_parity) == moves_twice, "the games of this test tell nothing"


def test_a_resigned_game_is_lost_by_the_player_who_resigned_also_after_a_double_move():
    game, rules = python_game(Takeaway, pile=20), Takeaway(20)

    @cache
    def truth(left, again):
        return solve(rules, rules.start()._replace(left=left, again=again))

    def says(planes):
        return np.zeros(3, np.float32), 0.9 * truth(int(np.argmax(planes[:21, 0, 0])), bool(planes[38, 0, 0]))

    player = self_play(game, ScriptedEvaluator(game, says), resign_errors=0.1, never_resign_share=0.5, random_plies=12)
    records = player.play(4000)
    resigned = [record for record in records if record.ended_by == EndedBy.RESIGNATION]
    parities = set()
    for record in resigned:
        state = rules.start()
        players = []
        for action in record.actions:
            players.append(rules.to_play(state))
            state = rules.play(state, int(action))
        loser = players[-1]
        assert record.kind[-1] == RowKind.FULL
        assert record.root_values[-1] < -0.7
        assert record.outcome == (1 if loser else -1)
        parities.add((loser, rules.to_play(state) == loser))
    assert len(parities) == 4, "each player resigns, before a second move and after the last of a turn"
    outcomes = iter(outcomes_of_rows(game, resigned))
    for record in resigned:
        state = rules.start()
        for t, action in enumerate(record.actions):
            if record.row_weight[t] > 0:
                assert next(outcomes) == (record.outcome if rules.to_play(state) == 0 else -record.outcome)
            state = rules.play(state, int(action))
