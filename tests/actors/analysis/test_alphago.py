"""AlphaGo's search: the visits of a slow reference, values of two networks, nothing left behind by any stop."""

import random
import time

import numpy as np
import pytest
from external_fixtures import Takeaway, python_game
from reference_alphago import AlphaGo
from scripted_evaluator import ScriptedEvaluator
from search_fixtures import late_positions, random_positions, scripted

from shusaku.actors.analysis.analysis import Analysis, Limits
from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.actors.evaluators.two_networks import TwoNetworks
from shusaku.common._core import Game, Rollouts, RolloutTraining
from shusaku.common.config.search import AlphaGoConfig

SHARES = [0.0, 0.5, 1.0]


def reference_of(game, search, leaves, *, has_policy=True):
    def answer(position):
        return scripted(position.observation(), game.num_actions)

    return AlphaGo((lambda position: answer(position)[0]) if has_policy else None, lambda position: answer(position)[1],
                   search.rollout_share, search.c_alphago, search.expand_after, search.value_after,
                   search.prior_power, search.virtual_loss, leaves=leaves)


def evaluator_of(game, *, has_policy=True):
    network = ScriptedEvaluator(game, lambda planes: scripted(planes, game.num_actions))
    return network if has_policy else TwoNetworks(None, network)


def assert_same(report, root, share):
    moves = {move.action: move for move in report.moves}
    assert sorted(moves) == sorted(root.actions)
    for edge, action in enumerate(root.actions):
        child, move = root.children.get(edge), moves[action]
        assert move.visits == (child.n if child else 0)
        assert move.prior == pytest.approx(float(root.prior[edge]), abs=1e-6)
        if move.visits:
            mean = child.w / child.n
            sign = 1 if child.position.to_play == root.position.to_play else -1
            if 0 < share < 1 and child.n_v:
                mean = (1 - share) * child.w_v / child.n_v + share * mean
            expected = sign * mean
            assert move.value == pytest.approx(expected, abs=1e-6)
    assert report.simulations == root.n - root.own


@pytest.mark.parametrize("leaves", [1, 4])
@pytest.mark.parametrize("has_policy", [True, False])
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("value_after", [0, 2, 3])
@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four"])
def test_the_visits_are_those_of_the_reference(name, value_after, share, has_policy, leaves):
    game = Game(name)
    search = AlphaGoConfig(rollout_share=share, expand_after=3, value_after=value_after)
    for position in [game.start(), *random_positions(game, 2, seed=5), *late_positions(game, 2, seed=6)]:
        analysis = Analysis(game, [evaluator_of(game, has_policy=has_policy)], search, leaves=leaves)
        reference = reference_of(game, search, leaves, has_policy=has_policy)
        analysis.set_position(position)
        for simulations in (150, 300):  # the second search goes on in the tree of the first
            analysis.start(Limits(simulations=simulations, to_the_end=True))
            analysis.wait()
            assert_same(analysis.report(), reference.search(position, simulations), share)
            assert not analysis.has_virtual_loss


@pytest.mark.parametrize("share", SHARES)
def test_constants_and_players_who_move_twice(share):
    game = python_game(Takeaway)
    search = AlphaGoConfig(rollout_share=share, expand_after=1, c_alphago=0.7, prior_power=1.5, virtual_loss=1)
    for position in late_positions(game, 4, seed=2):
        analysis, reference = Analysis(game, [evaluator_of(game)], search, leaves=4), reference_of(game, search, 4)
        analysis.set_position(position)
        analysis.start(Limits(simulations=200, to_the_end=True))
        analysis.wait()
        assert_same(analysis.report(), reference.search(position, 200), share)


@pytest.fixture(scope="module")
def rollout_file(tmp_path_factory):
    """A rollout policy of Go 5x5 learned from random games."""
    game, draw = Game("go", {"size": 5}), np.random.default_rng(1)
    training = RolloutTraining(game)
    for _ in range(10):
        position, actions = game.start(), []
        while not position.is_terminal and len(actions) < 40:
            actions.append(int(draw.choice(position.legal_actions)))
            position.play(actions[-1])
        training.add(np.array(actions, np.uint16), np.ones(len(actions), np.float32))
    training.begin(1)
    training.learn(0.5, 1)
    file = tmp_path_factory.mktemp("rollout") / "go.rollout"
    file.write_bytes(training.file("random games"))
    return str(file)


@pytest.mark.parametrize("has_policy", [True, False])
@pytest.mark.parametrize("share", SHARES)
def test_a_rollout_policy_plays_the_rollouts_and_is_the_first_prior(share, has_policy, rollout_file):
    game = Game("go", {"size": 5})
    visits = {}
    for file in ("", rollout_file):
        search = AlphaGoConfig(rollout_share=share, expand_after=3, rollout=file)
        analysis = Analysis(game, [evaluator_of(game, has_policy=has_policy)], search, leaves=4)
        reference = reference_of(game, search, 4, has_policy=has_policy)
        reference.rollout_policy = Rollouts(game, file)
        analysis.start(Limits(simulations=250, to_the_end=True))
        analysis.wait()
        report = analysis.report()
        assert_same(report, reference.search(game.start(), 250), share)
        visits[file] = [move.visits for move in sorted(report.moves, key=lambda move: move.action)]
    assert visits[""] != visits[rollout_file]


@pytest.mark.parametrize("share", SHARES)
def test_a_move_keeps_the_counts_below_it(share):
    game = Game("connect_four")
    search = AlphaGoConfig(rollout_share=share, expand_after=5)
    analysis, reference = Analysis(game, [evaluator_of(game)], search, leaves=4), reference_of(game, search, 4)
    position = game.start()
    for ply in range(6):
        analysis.start(Limits(simulations=400, to_the_end=True))
        analysis.wait()
        report = analysis.report()
        assert_same(report, reference.search(position, 400), share)
        best = report.moves[ply % 3]
        if ply < 5:
            analysis.advance(best.action)
            reference.advance(best.action)
            position.play(best.action)
            after = analysis.report()
            kept = reference.root.n - reference.root.own if reference.root else 0
            assert after.simulations == kept
            assert ply % 3 or kept > 0


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("share", SHARES)
def test_no_stop_leaves_virtual_losses_behind(share, threads):
    game = Game("go", {"size": 7})
    evaluators = [PseudoRandomEvaluator(game, 8) for _ in range(threads)]
    analysis = Analysis(game, evaluators, AlphaGoConfig(rollout_share=share, expand_after=2), leaves=8)
    moments = random.Random(1)
    for stop in range(40):
        analysis.start(Limits())
        time.sleep(moments.uniform(0, 0.01))
        report = analysis.stop()
        assert not analysis.has_virtual_loss
        assert sum(move.visits for move in report.moves) == report.simulations
        if stop % 5 == 4:
            analysis.advance(report.moves[0].action)


class Fails(PseudoRandomEvaluator):
    """Fails at its n-th batch."""

    def __init__(self, game, largest, at):
        super().__init__(game, largest)
        self.left = at

    def _fill(self, leaves, logits, values):
        self.left -= 1
        if self.left == 0:
            raise RuntimeError("the network is gone")
        super()._fill(leaves, logits, values)


@pytest.mark.parametrize("share", SHARES)
def test_a_network_that_fails_leaves_nothing_behind_and_is_asked_again(share):
    game = Game("go", {"size": 7})
    for at in range(1, 12):
        analysis = Analysis(game, [Fails(game, 4, at), PseudoRandomEvaluator(game, 4)],
                            AlphaGoConfig(rollout_share=share, expand_after=2), leaves=4)
        analysis.start(Limits())
        with pytest.raises(RuntimeError, match="the network is gone"):
            analysis.wait()
        assert not analysis.has_virtual_loss
        analysis.start(Limits(simulations=400, to_the_end=True))
        analysis.wait()
        assert analysis.report().simulations >= 400
        assert not analysis.has_virtual_loss


class Counts(PseudoRandomEvaluator):
    """How many leaves it was asked about."""

    asked = 0

    def _fill(self, leaves, logits, values):
        self.asked += len(leaves)
        super()._fill(leaves, logits, values)


def test_only_the_networks_that_a_share_needs_are_asked():
    game = Game("connect_four")

    for share, has_policy, asked in ((0.0, True, (1, 1)), (0.5, True, (1, 1)), (1.0, True, (1, 0)),
                                     (0.5, False, (0, 1)), (1.0, False, (0, 0))):
        policy, value = Counts(game, 8), Counts(game, 8)
        networks = TwoNetworks(policy if has_policy else None, value)
        analysis = Analysis(game, [networks], AlphaGoConfig(rollout_share=share, expand_after=4), leaves=8)
        analysis.start(Limits(simulations=500, to_the_end=True))
        analysis.wait()
        assert (policy.asked > 0, value.asked > 0) == tuple(map(bool, asked))
        assert analysis.report().simulations == 500


def test_processor_time_ends_a_search():
    game = Game("go", {"size": 9})
    analysis = Analysis(game, [PseudoRandomEvaluator(game, 8)], AlphaGoConfig())
    begin = time.process_time()
    analysis.start(Limits(processor_seconds=0.2, to_the_end=True))
    analysis.wait()
    assert analysis.report().ended == "time"
    assert 0.15 < time.process_time() - begin < 0.35


def test_auto_expands_later_if_the_network_is_slow():
    game = Game("go", {"size": 9})

    class Slow(PseudoRandomEvaluator):
        def _fill(self, leaves, logits, values):
            time.sleep(0.003)
            super()._fill(leaves, logits, values)

    asked = {}
    for expand_after in (2, -1):
        search = AlphaGoConfig(rollout_share=1.0, expand_after=expand_after)
        analysis = Analysis(game, [Slow(game, 4)], search, leaves=4)
        analysis.start(Limits(seconds=1.0, to_the_end=True))
        analysis.wait()
        asked[expand_after] = analysis.report().simulations
    assert asked[-1] > 1.2 * asked[2]


def test_auto_asks_for_values_however_late_they_are_wanted():
    """A leaf is asked nothing more once it has children."""
    game = Game("go", {"size": 9})
    values = {}
    for expand_after in (40, -1):
        policy, value = Counts(game, 4), Counts(game, 4)
        search = AlphaGoConfig(rollout_share=0.5, expand_after=expand_after, value_after=40)
        analysis = Analysis(game, [TwoNetworks(policy, value)], search, leaves=4)
        analysis.start(Limits(simulations=6000, to_the_end=True))
        analysis.wait()
        values[expand_after] = value.asked
    assert values[-1] > 0.5 * values[40] > 10


def test_auto_begins_anew_with_the_tree():
    """Otherwise a game depends on the one before it: its positions would be expanded at once."""
    game = Game("go", {"size": 9})
    policy = Counts(game, 4)
    analysis = Analysis(game, [policy], AlphaGoConfig(rollout_share=1.0, expand_after=-1), leaves=4)
    asked = []
    for simulations in (200, 20_000, 200):
        before = policy.asked
        analysis.start(Limits(simulations=simulations, to_the_end=True))
        analysis.wait()
        asked.append(policy.asked - before)
        analysis.clear()
    assert asked[1] > 500  # the network is fast: in the end each leaf is expanded at once
    assert asked[2] <= asked[0] + 5


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_rollouts_go_on_while_a_network_works(share):
    game = Game("go", {"size": 7})

    class Asleep(PseudoRandomEvaluator):
        during = 0  # simulations that were made during its calls

        def _fill(self, leaves, logits, values):
            before = analysis.report().simulations
            time.sleep(0.2)
            self.during += analysis.report().simulations - before
            super()._fill(leaves, logits, values)

    evaluators = [Asleep(game, 4), Asleep(game, 4)]
    analysis = Analysis(game, evaluators, AlphaGoConfig(rollout_share=share), leaves=4)
    analysis.start(Limits(seconds=1.5, to_the_end=True))
    analysis.wait()
    assert sum(evaluator.during for evaluator in evaluators) > 50
    assert not analysis.has_virtual_loss


def test_a_player_resigns_if_every_move_is_worth_less():
    game = Game("connect_four")
    position = game.start()
    for action in (3, 0, 2, 0, 4):  # three in a row, open on both sides
        position.play(action)
    best = None
    for below in (-1.0, 1.0):
        analysis = Analysis(game, [TwoNetworks(None, None)], AlphaGoConfig(rollout_share=1.0, resign_below=below))
        analysis.set_position(position)
        analysis.start(Limits(simulations=2000, to_the_end=True))
        analysis.wait()
        best = max(move.value for move in analysis.report().moves if move.visits)
        assert analysis.report().resigns == (best < below)
    for below, resigns in ((best - 0.01, False), (best + 0.01, True)):
        analysis = Analysis(game, [TwoNetworks(None, None)], AlphaGoConfig(rollout_share=1.0, resign_below=below))
        analysis.set_position(position)
        assert not analysis.report().resigns  # nothing is known
        analysis.start(Limits(simulations=2000, to_the_end=True))
        analysis.wait()
        assert analysis.report().resigns == resigns
