"""What self-play spends on a search, how it opens and when it gives up, recomputed from the games themselves."""

import numpy as np
import pytest
from scripted_evaluator import ScriptedEvaluator
from search_fixtures import plain_game_batch, played_games

from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.common._core import Game, GameBatch
from shusaku.common.config.schema import SelfPlayConfig
from shusaku.common.config.search import GumbelConfig, PuctConfig, make_search
from shusaku.common.messages import Evaluation, Leaves, RowKind
from shusaku.common.search import search_options, self_play_options

SLOTS = 8


def rows(games, name):
    return np.concatenate([g[name] for g in games])


@pytest.mark.parametrize("policy", ["puct", "gumbel"])
def test_cheap_searches_are_as_many_as_asked_for_and_leave_no_rows(policy):
    game = Game("connect_four")
    search = make_search(policy, simulations=30, noise=policy == "puct", cache=0)
    games, totals = played_games(game, search, SelfPlayConfig(cheap_share=0.75, cheap_simulations=5),
                         PseudoRandomEvaluator(game, SLOTS), 150)
    kind, weight = rows(games, "kind"), rows(games, "row_weight")
    assert set(kind) == {RowKind.FULL, RowKind.CHEAP}
    share = np.mean(kind == RowKind.CHEAP)
    assert abs(share - 0.75) < 4 * np.sqrt(0.75 * 0.25 / len(kind)), f"{share:.3f} of {len(kind)}"
    np.testing.assert_array_equal(weight > 0, kind == RowKind.FULL)
    has_policy = np.concatenate([np.diff(g["policy_offsets"]) > 0 for g in games])
    np.testing.assert_array_equal(has_policy, kind == RowKind.FULL)
    # Every search is its simulations and its root; searches still under way are at most one a slot.
    expected = np.where(kind == RowKind.FULL, 31, 6).sum()
    open_rows = totals["plies"] - len(kind)
    assert expected <= totals["simulations"] <= expected + 31 * (open_rows + SLOTS)
    assert totals["simulations"] < 0.5 * 31 * totals["plies"]


def test_a_cheap_search_does_not_explore():
    """With noise only full searches differ from what they are without it."""
    game = Game("connect_four")
    found = []
    for noise in (False, True):
        search = PuctConfig(simulations=12, noise=noise, temperature_plies=0, cache=0)
        self_play = SelfPlayConfig(cheap_share=0.999999, cheap_simulations=8)
        games, _ = played_games(game, search, self_play, PseudoRandomEvaluator(game, SLOTS), 20)
        found.append([tuple(g["actions"]) for g in games])
    assert found[0] == found[1]


def decided(values, plies):
    """KataGo's measure: the smallest certainty of the last `plies` values, if they agree on the winner."""
    recent = values[-plies:]
    if len(recent) < plies or any(np.isnan(recent)):
        return 0.0
    return min(1.0, max(min(recent), -max(recent)))


@pytest.mark.parametrize("name", ["connect_four", "othello"])
def test_searches_of_decided_games_shrink_with_their_weight(name):
    game = Game(name)

    def says(planes):
        random = np.random.default_rng(np.frombuffer(np.packbits(planes > 0).tobytes(), np.uint8))
        to_play = (planes[0].sum() + planes[1].sum()) % 2  # nearly sure of the first player
        value = np.float32(random.uniform(0.85, 1))
        return random.normal(size=game.num_actions).astype(np.float32), float(-value if to_play else value)

    self_play = SelfPlayConfig(decided_value=0.8, decided_plies=3, decided_weight=0.2, cheap_simulations=4,
                               random_plies=2)
    search = PuctConfig(simulations=40, noise=False, cache=0)
    games, totals = played_games(game, search, self_play, ScriptedEvaluator(game, says), 12)
    shrunk = simulations = 0
    for g in games:
        values, position = [], game.start()
        for t, action in enumerate(g["actions"]):
            sign = 1 if position.to_play == 0 else -1
            if g["kind"][t] == RowKind.OPENING:
                assert g["row_weight"][t] == 0
                values.append(np.nan)
            else:
                beyond = max(0.0, decided(values, 3) - 0.8) / 0.2
                assert g["row_weight"][t] == pytest.approx(1 - 0.8 * beyond**2, abs=1e-5)
                shrunk += beyond > 0.3
                simulations += round(40 - 36 * beyond**2) + 1
                values.append(sign * float(g["root_values"][t]))
            position.play(int(action))
    assert shrunk > 20
    done = sum(int(np.sum(g["kind"] != RowKind.OPENING)) for g in games)
    assert simulations - done <= totals["simulations"] <= simulations + done + 41 * (totals["searches"] - done + SLOTS)


def test_policy_openings_are_drawn_from_the_networks_policy():
    game = Game("connect_four")
    search = PuctConfig(simulations=1, noise=False, cache=0)
    evaluate = PseudoRandomEvaluator(game, 64)
    games, _ = played_games(game, search, SelfPlayConfig(policy_plies=4, policy_temperature=0.5), evaluate, 4000,
                            symmetries=False, size=64)
    lengths = np.array([int(np.sum(g["kind"] == RowKind.OPENING)) for g in games])
    for g, length in zip(games, lengths, strict=True):
        assert (g["kind"][:length] == RowKind.OPENING).all()
        assert (g["row_weight"][:length] == 0).all()
    # floor of an exponential of mean 4, cut off where a game ends: geometric
    for k in range(5):
        assert np.mean(lengths > k) == pytest.approx(np.exp(-(k + 1) / 4), abs=0.035)
    leaves = Leaves(*plain_game_batch(game, search_options(search, symmetries=False), 1, 1).select(0))
    weights = np.exp(evaluate(leaves).logits.astype(float) / 0.5)
    first = [int(g["actions"][0]) for g, length in zip(games, lengths, strict=True) if length]
    np.testing.assert_allclose(np.bincount(first, minlength=7) / len(first), weights / weights.sum(), atol=0.035)


class Material:
    """Counts discs, with some noise: mostly right late in a game, mostly wrong early."""

    version = 0

    def __init__(self, game):
        self.noise = PseudoRandomEvaluator(game, SLOTS)
        self.cells = np.prod(game.observation_shape[1:])

    def __call__(self, leaves):
        bits = np.unpackbits(leaves.packed, axis=1, bitorder="little")
        lead = bits[:, : self.cells].sum(axis=1) - bits[:, self.cells : 2 * self.cells].sum(axis=1, dtype=float)
        values = np.clip(lead / 8 + self.noise(leaves).values / 4, -1, 1).astype(np.float32)
        return Evaluation(np.zeros(len(leaves.actions), np.float32), values, 0)


def lowest_of_who_did_not_lose(game, columns):
    """The value, for the player to move, that such a player saw at worst, and the last position."""
    position, worst = game.start(), [1.0, 1.0]
    for t, action in enumerate(columns["actions"]):
        if columns["kind"][t] != RowKind.OPENING:
            worst[position.to_play] = min(worst[position.to_play], float(columns["root_values"][t]))
        position.play(int(action))
    outcome = columns["outcome"]
    return worst[0] if outcome > 0 else worst[1] if outcome < 0 else min(worst), position


OTHELLO = PuctConfig(simulations=20, noise=False, cache=0)


def test_the_threshold_is_the_quantile_of_games_played_to_the_end():
    game = Game("othello", {"size": 6})
    self_play = SelfPlayConfig(resign_errors=0.1, never_resign_share=1.0, random_plies=4)
    batch = GameBatch(game, search_options(OTHELLO, symmetries=True), SLOTS, 3, self_play_options(self_play))
    evaluate, lowest, threshold, played_on, wrongly = Material(game), [], -1.0, 0, 0
    while len(lowest) < 160:
        leaves = Leaves(*batch.select(0))
        answer = evaluate(leaves)
        batch.expand_and_backup(answer.logits, answer.values, 0)
        for g in batch.take_finished():
            lowest.append(lowest_of_who_did_not_lose(game, g)[0])
            # A game is measured by the threshold that it did not help to find.
            played_on += threshold > -1
            wrongly += lowest[-1] < threshold
            threshold = min(-0.7, sorted(lowest)[int(0.1 * len(lowest))]) if len(lowest) >= 100 else -1.0
        assert batch.resign_value == pytest.approx(threshold, abs=1e-6)
        counters = batch.counters()
        assert (counters["played_on"], counters["wrongly_resigned"], counters["resigned"]) == (played_on, wrongly, 0)
    assert batch.resign_value > -1
    assert played_on == 60
    assert 0 < wrongly < 20


def test_a_draw_by_the_limit_of_plies_says_nothing_of_resigning():
    """AlphaGo Zero's false positive is a game that could have been won."""
    game = Game("minishogi", {"max_plies": 30})
    self_play = SelfPlayConfig(resign_errors=0.1, never_resign_share=1.0, random_plies=4)
    search = PuctConfig(simulations=8, noise=False, cache=0)
    batch = GameBatch(game, search_options(search, symmetries=False), SLOTS, 3, self_play_options(self_play))
    batch.begin_with_resign_value(-0.8)  # so that each game which is measured counts
    evaluate, ends = PseudoRandomEvaluator(game, SLOTS), []
    while len(ends) < 90:
        answer = evaluate(Leaves(*batch.select(0)))
        batch.expand_and_backup(answer.logits, answer.values, 0)
        ends += [g["ended_by"] for g in batch.take_finished()]
    assert min(ends.count("ply_limit"), ends.count("rules")) > 10
    assert batch.counters()["played_on"] == ends.count("rules")


def test_a_game_without_a_search_says_nothing_of_resigning():
    """Its players seem to have seen nothing but wins."""
    game = Game("tic_tac_toe")
    self_play = SelfPlayConfig(resign_errors=0.1, never_resign_share=1.0, policy_plies=3)
    search = PuctConfig(simulations=4, noise=False, cache=0)
    batch = GameBatch(game, search_options(search, symmetries=False), SLOTS, 3, self_play_options(self_play))
    batch.begin_with_resign_value(-0.8)
    evaluate, searched = PseudoRandomEvaluator(game, SLOTS), []
    while len(searched) < 90:
        answer = evaluate(Leaves(*batch.select(0)))
        batch.expand_and_backup(answer.logits, answer.values, 0)
        searched += [bool(np.any(g["kind"] != RowKind.OPENING)) for g in batch.take_finished()]
    assert 0 < searched.count(False) < 60
    assert batch.counters()["played_on"] == searched.count(True)


def test_a_threshold_of_before_is_in_use_until_enough_games_were_played_to_the_end():
    game = Game("othello", {"size": 6})
    options = search_options(OTHELLO, symmetries=True)
    self_play = SelfPlayConfig(resign_errors=0.1, never_resign_share=0.5, random_plies=4)
    batch = GameBatch(game, options, SLOTS, 3, self_play_options(self_play))
    batch.begin_with_resign_value(-0.8125)
    evaluate, lowest, resigned, seen = Material(game), [], 0, set()
    while len(lowest) < 110:
        leaves = Leaves(*batch.select(0))
        answer = evaluate(leaves)
        batch.expand_and_backup(answer.logits, answer.values, 0)
        for g in batch.take_finished():
            resigned += g["ended_by"] == "resignation"
            if g["ended_by"] == "resignation":
                assert len(lowest) >= 100 or g["root_values"][-1] < -0.8125
        measured = batch.counters()["played_on"]
        lowest += [None] * (measured - len(lowest))
        seen.add((batch.resign_value, measured >= 100))
    assert {value for value, is_enough in seen if not is_enough} == {-0.8125}
    assert {value for value, is_enough in seen if is_enough} != {-0.8125}
    assert resigned > 10
    assert batch.counters()["resigned"] == resigned
    batch.begin_with_resign_value(-0.75)  # too late: it has a threshold of its own
    assert batch.resign_value not in (-0.75, -0.8125)


@pytest.mark.parametrize(("errors", "given", "used"), [(0.05, -0.2, -0.7), (0.05, -3.0, -1.0), (0.0, -0.8, -1.0)])
def test_a_threshold_of_before_keeps_the_bounds(errors, given, used):
    options = search_options(OTHELLO, symmetries=True)
    batch = GameBatch(Game("tic_tac_toe"), options, 1, 1, self_play_options(SelfPlayConfig(resign_errors=errors)))
    batch.begin_with_resign_value(given)
    assert batch.resign_value == pytest.approx(used)


@pytest.mark.parametrize("interrupt", [0, 7])
def test_resigned_games_are_lost_by_who_moved_last(interrupt):
    game = Game("othello", {"size": 6})
    self_play = SelfPlayConfig(resign_errors=0.1, never_resign_share=0.5, random_plies=4)
    games, totals = played_games(game, OTHELLO, self_play, Material(game), 330, interrupt)
    resigned = [k for k, g in enumerate(games) if g["ended_by"] == "resignation"]
    assert len(resigned) > 20
    assert interrupt or totals["resigned"] == len(resigned)
    assert sum(g["ended_by"] != "resignation" for g in games[: resigned[0]]) >= 100
    for g in games:
        _, position = lowest_of_who_did_not_lose(game, g)
        assert position.is_terminal == (g["ended_by"] != "resignation")
        if not position.is_terminal:
            assert g["outcome"] == (1 if position.to_play == 0 else -1)  # the other one moved last
            assert np.isnan(g["score"])
            assert float(g["root_values"][-1]) < -0.7


def test_with_everything_off_games_are_those_of_before():
    game = Game("connect_four")
    search = GumbelConfig(simulations=16, cache=0)
    evaluate = PseudoRandomEvaluator(game, SLOTS)
    plain, _ = played_games(game, search, SelfPlayConfig(random_plies=3), evaluate, 20)
    unused = SelfPlayConfig(random_plies=3, cheap_simulations=3, decided_weight=0.5, never_resign_share=0.9,
                            fork_plies=3, policy_temperature=0.3)
    other, _ = played_games(game, search, unused, evaluate, 20)
    assert [tuple(g["actions"]) for g in plain] == [tuple(g["actions"]) for g in other]


@pytest.mark.parametrize("name", ["connect_four", "othello"])
def test_interruptions_change_no_game_with_everything_on(name):
    game = Game(name)
    search = PuctConfig(simulations=20, cache=0)
    self_play = SelfPlayConfig(random_plies=2, policy_plies=2, cheap_share=0.5, cheap_simulations=4, decided_value=0.1,
                               fork_share=0.3, fork_plies=10)
    evaluate = PseudoRandomEvaluator(game, SLOTS)
    whole, _ = played_games(game, search, self_play, evaluate, 40)
    cut, _ = played_games(game, search, self_play, evaluate, 40, interrupt=3)
    for one, other in zip(whole, cut, strict=True):
        assert one.keys() == other.keys()
        for key, value in one.items():
            np.testing.assert_array_equal(value, other[key], err_msg=key)
