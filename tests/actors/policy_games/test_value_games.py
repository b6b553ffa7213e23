"""Games for a value network: which policy moves when, where the random move falls, and what is learned from."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from shusaku.actors.evaluators.dummies import DummyEvaluator, PseudoRandomEvaluator
from shusaku.actors.evaluators.factory import make_evaluator
from shusaku.actors.open_games import OpenGames
from shusaku.actors.policy_games.value_games import ValueGames
from shusaku.actors.self_play import ActorIdentity
from shusaku.common._core import Game, RowRing
from shusaku.common.config.schema import InferenceConfig, NetworkConfig, ReplayConfig, ValueConfig
from shusaku.common.config.search import PolicyOnlyConfig, PuctConfig
from shusaku.common.messages import EndedBy, GameRecord, Leaves, RowKind
from shusaku.common.network.weights import random_weights
from shusaku.replay.memory_buffer import MemoryBuffer
from shusaku.replay.stream.open_games import TakenGames
from shusaku.replay.validation import Validation

GO = Game("go", {"size": 5})
PASS, SIDE = 25, 5
SEARCH = PolicyOnlyConfig(temperature_plies=0, temperature_final=1.0)
RING = np.array([max(abs(cell % SIDE - 2), abs(cell // SIDE - 2)) for cell in range(25)] + [-9])  # of a point; of pass


class Scripted(DummyEvaluator):
    """Moves to the points with the highest preference, evenly among equals; symmetries change no preference."""

    def __init__(self, preference: NDArray[Any], value: float) -> None:
        super().__init__(GO, 64)
        self.preference, self.value, self.batches = 30.0 * preference, value, Counter[int]()

    def _fill(self, leaves: Leaves, logits: NDArray[np.float32], values: NDArray[np.float32]) -> None:
        self.batches[len(leaves)] += 1
        logits[:] = self.preference[leaves.actions]
        values.fill(self.value)


def outwards() -> Scripted:
    return Scripted(RING, 0.25)


def inwards() -> Scripted:
    return Scripted(np.where(RING < 0, -9, -RING), -0.5)


def player(policies: Any = None, *, game: Game = GO, value: ValueConfig | None = None, batch: int = 16, seed: int = 1,
           **more: Any) -> ValueGames:
    policies = policies or (PseudoRandomEvaluator(game, batch), PseudoRandomEvaluator(game, batch))
    return ValueGames(game, more.pop("search", SEARCH), value or ValueConfig(last_switch=6), policies,
                      policy_game=more.pop("policy_game", game), batch=batch, seed=seed,
                      identity=ActorIdentity(3, incarnation=more.pop("incarnation", 0)), config_hash="c", **more)


def play(games: ValueGames, count: int) -> list[GameRecord]:
    records: list[GameRecord] = []
    while len(records) < count:
        records += games.step()
    return records


def switch_of(record: GameRecord) -> int:
    """U: plies before the position that is learned from."""
    (random,) = np.flatnonzero(record.kind == RowKind.OPENING)
    return int(random) + 1


@pytest.fixture(scope="module")
def scripted() -> tuple[ValueGames, list[GameRecord]]:
    games = player((outwards(), inwards()))
    return games, play(games, 3000)


def test_one_random_move_lies_between_the_moves_of_the_two_policies(
    scripted: tuple[ValueGames, list[GameRecord]]
) -> None:
    """The first policy plays as far out as it can, the second one as far in, and both never pass unless they must."""
    for record in scripted[1]:
        position, switch = GO.start(), switch_of(record)
        for ply, action in enumerate(record.actions.tolist()):
            rings = RING[position.legal_actions]
            assert action in position.legal_actions
            if ply < switch - 1:
                assert RING[action] == rings.max()
            elif ply >= switch:
                assert RING[action] == (rings[rings >= 0].min() if (rings >= 0).any() else -9)
            position.play(action)
        assert position.is_terminal
        sign = 1 if position.to_play == 0 else -1
        assert record.outcome == sign * position.outcome
        assert record.score == pytest.approx(sign * position.score)
        assert record.ended_by == (EndedBy.PLY_LIMIT if position.is_cut_off else EndedBy.RULES)


def test_the_ply_of_the_random_move_is_even_from_one_to_the_last(
    scripted: tuple[ValueGames, list[GameRecord]]
) -> None:
    counts = Counter(switch_of(record) for record in scripted[1])
    assert sorted(counts) == [1, 2, 3, 4, 5, 6]
    assert scripted[0].counters()["discarded"] == 0, "no game of these policies ends so early"
    assert stats.chisquare(list(counts.values())).pvalue > 1e-4


def test_the_random_move_is_each_legal_one_as_often(scripted: tuple[ValueGames, list[GameRecord]]) -> None:
    ranks = []
    first: Counter[int] = Counter()
    draw = np.random.default_rng(1)
    for record in scripted[1]:
        position, switch = GO.start(), switch_of(record)
        for action in record.actions[: switch - 1].tolist():
            position.play(action)
        legal = position.legal_actions
        ranks.append((legal.index(int(record.actions[switch - 1])) + draw.random()) / len(legal))
        if switch == 1:
            first[int(record.actions[0])] += 1
    assert stats.chisquare(np.histogram(ranks, 20, (0, 1))[0]).pvalue > 1e-4
    assert len(first) == 26, "pass is one of the legal moves"
    assert stats.chisquare(list(first.values())).pvalue > 1e-4


@pytest.mark.parametrize("temperature", [0.25, 0.5, 1.0])
def test_the_moves_after_the_random_one_have_a_temperature_of_their_own(temperature: float) -> None:
    """Both policies prefer outer points a little, by their logits: a move's place in the sum of shares is even."""
    logits = RING.astype(float)
    policy = Scripted(logits / 30, 0.0)
    before, after = [], []
    draw = np.random.default_rng(1)
    for record in play(player((policy, policy), value=ValueConfig(last_switch=6, temperature=temperature)), 600):
        position, switch = GO.start(), switch_of(record)
        for ply, action in enumerate(record.actions.tolist()):
            legal = np.array(position.legal_actions)
            own = temperature if ply >= switch else 1.0
            shares = np.exp(logits[legal] / own)
            edges = np.cumsum(shares) / shares.sum()
            place = int(np.flatnonzero(legal == action)[0])
            low = edges[place - 1] if place else 0.0
            if ply < switch - 1:
                before.append(low + (edges[place] - low) * draw.random())
            elif ply >= switch:
                after.append(low + (edges[place] - low) * draw.random())
            position.play(action)
    for quantiles in (before, after):  # even, if the moves have these shares
        assert stats.chisquare(np.histogram(quantiles, 20, (0, 1))[0]).pvalue > 1e-4


def test_only_the_position_after_the_random_move_is_learned_from(
    scripted: tuple[ValueGames, list[GameRecord]]
) -> None:
    for record in scripted[1]:
        switch = switch_of(record)
        expected = np.zeros(len(record))
        expected[switch] = 1
        assert record.row_weight.tolist() == expected.tolist()
        assert record.num_rows == 1
        assert record.policy_actions.tolist() == [record.actions[switch]], "its policy is the move that was made"
        assert not record.versions.any(), "no version of the run has played"
        evaluated = np.where(np.arange(len(record)) < switch - 1, 0.25, -0.5)
        evaluated[switch - 1] = 0
        assert record.root_values.tolist() == record.raw_values.tolist() == evaluated.tolist()
    counters = scripted[0].counters()
    assert counters["rows"] == counters["games"] == len(scripted[1])


def test_the_control_learns_from_every_position_in_which_a_policy_moved() -> None:
    for record in play(player(value=ValueConfig(last_switch=6, rows="all")), 50):
        assert (record.row_weight == (record.kind == RowKind.FULL)).all()
        assert record.num_rows == len(record) - 1


def test_the_label_is_the_outcome_for_the_player_to_move() -> None:
    players: Counter[int] = Counter()
    for record in play(player(), 200):
        ring = RowRing(GO, 4)
        assert ring.append(record) == 1
        batch = ring.sample(1, 0, 1, 1, False, 1)
        position = GO.start()
        for action in record.actions[: switch_of(record)].tolist():
            position.play(action)
        assert (batch["observations"][0] == position.observation()).all()
        assert batch["outcome"][0] == (record.outcome if position.to_play == 0 else -record.outcome)
        players[position.to_play] += 1
    assert min(players.values()) > 60, "both colours"


def test_a_move_is_drawn_from_the_softmax_of_the_policy() -> None:
    """First moves of the first policy, whose logits differ by the ring of the point."""
    logits = np.log(np.where(RING < 0, 2.0, 1.0 + RING))
    policy = Scripted(logits / 30, 0.0)
    records = play(player((policy, policy), value=ValueConfig(last_switch=30)), 3000)
    moves = Counter(int(record.actions[0]) for record in records if switch_of(record) > 1)
    weights = np.exp(logits)
    expected = weights / weights.sum() * sum(moves.values())
    assert stats.chisquare([moves[action] for action in range(26)], expected).pvalue > 1e-4


def test_at_temperature_0_the_most_likely_move_is_made() -> None:
    policy = Scripted(np.where(np.arange(26) == 12, 0.01, 0.0), 0.0)  # the centre, a little
    games = player((policy, policy), value=ValueConfig(last_switch=30), search=PolicyOnlyConfig(temperature_plies=0))
    assert all(record.actions[0] == 12 for record in play(games, 50) if switch_of(record) > 1)


def test_games_that_end_too_early_are_discarded_and_counted() -> None:
    game = Game("tic_tac_toe")
    games = player(game=game, value=ValueConfig(last_switch=20))
    records = play(games, 300)
    assert all(len(record) > switch_of(record) for record in records)
    counters = games.counters()
    assert counters["games"] == len(records)
    assert counters["discarded"] > counters["games"], "most of the plies up to 20 lie behind the end of the game"
    begun = counters["games"] + counters["discarded"] + games.size
    assert sum(games._batch.open_game(index)["number"] for index in range(games.size)) == begun


def test_every_batch_is_full() -> None:
    policies = outwards(), inwards()
    play(player(policies, batch=16, value=ValueConfig(last_switch=30)), 300)
    assert set(policies[0].batches) == set(policies[1].batches) == {16}
    assert min(sum(policy.batches.values()) for policy in policies) > 50


def test_a_game_depends_on_seed_index_and_number_alone() -> None:
    small, large, other = (
        {record.open_id: record for record in play(player(batch=batch, seed=seed), 400)}
        for batch, seed in ((4, 1), (16, 1), (16, 2)))
    shared = small.keys() & large.keys()
    assert len(shared) > 100
    assert all(_same(small[name], large[name]) for name in shared)
    assert not any(_same(large[name], other[name]) for name in large.keys() & other.keys())


def test_a_saved_player_goes_on_with_the_same_games() -> None:
    through, stopped = player(), player()
    for games in (through, stopped):
        play(games, 60)
    saved, again = stopped.snapshot(), player(seed=9)
    again.restore(saved)
    assert [_content(record) for record in play(again, 100)] == [_content(record) for record in play(through, 100)]
    with pytest.raises(ValueError, match="another game, search or number of games"):
        player(value=ValueConfig(last_switch=7)).restore(saved)
    with pytest.raises(ValueError, match="damaged or cut short"):
        again.restore(saved[:-1] + bytes([saved[-1] ^ 1]))


@pytest.mark.parametrize("batch", [16, 40])
def test_open_games_go_on_in_another_player(batch: int) -> None:
    """As encoded by the one that was stopped; each still has exactly one random move and one row."""
    before = player((outwards(), inwards()), value=ValueConfig(last_switch=9))
    play(before, 40)
    opened = {game.open_id: game for game in before.open_games()}
    assert any(game.policy_plies for game in opened.values()), "some before their random move"
    assert any(not game.policy_plies for game in opened.values())
    after = player((outwards(), inwards()), value=ValueConfig(last_switch=9), batch=batch, seed=8,
                   incarnation=1)
    put: dict[str, bytes] = {}
    saver = OpenGames(before, Validation(GO, "c"), seconds=1, take=lambda: TakenGames({}, 0),
                      put=lambda sequence, games: put.update(games))
    saver.restore()
    saver.save()
    restorer = OpenGames(after, Validation(GO, "c"), seconds=1, take=lambda: TakenGames(put, 1),
                         put=lambda sequence, games: None)
    assert restorer.restore()
    assert (restorer.restored, restorer.dropped.total()) == (len(opened), 0)
    finished = {record.open_id: record for record in play(after, 300)}
    assert opened.keys() <= finished.keys()
    for name, game in opened.items():
        plies = len(game.record)
        assert (finished[name].actions[:plies] == game.record.actions).all()
        assert switch_of(finished[name]) == (plies + game.policy_plies + 1 if game.policy_plies else
                                             switch_of(game.record))
        assert finished[name].num_rows == 1


def test_an_open_game_without_its_random_move_is_refused() -> None:
    games = player()
    play(games, 10)
    early = next(game for game in games.open_games() if game.policy_plies)
    with pytest.raises(ValueError, match="no random move"):
        games.resume(0, replace(early, policy_plies=0))


def test_networks_of_this_process_are_asked_without_arrays_between() -> None:
    """The attached way and the way through arrays give the same games."""
    def evaluators() -> list[Any]:
        made = []
        for seed in (1, 2):
            evaluator = make_evaluator(GO, InferenceConfig(runtime="torch", precision="fp32"),
                                       NetworkConfig(filters=8, blocks=1), 16)
            evaluator.load(random_weights(GO, NetworkConfig(filters=8, blocks=1), seed, version=7))
            made.append(evaluator)
        return made

    attached, plain = player(evaluators()), player([_Wrapped(evaluator) for evaluator in evaluators()])
    assert [runtime is None for runtime in attached._runtimes] == [False, False]
    assert [runtime is None for runtime in plain._runtimes] == [True, True]
    assert [_content(record) for record in play(attached, 40)] == [_content(record) for record in play(plain, 40)]


def test_policies_may_see_other_planes_than_the_network_that_learns() -> None:
    other = Game("go", {"size": 5, "planes": "tutorial"})
    games = player((PseudoRandomEvaluator(other, 16), PseudoRandomEvaluator(other, 16)), policy_game=other)
    buffer = MemoryBuffer(GO, ReplayConfig(minimum=20, capacity=500, window="fixed"), batch_size=8)
    for record in play(games, 40):
        buffer.append(record)
    assert (buffer.stats().quarantined, buffer.stats().rows) == ({}, 40)
    batch = buffer.sample(8, 1)
    assert batch is not None
    assert batch.observations.shape == (8, *GO.observation_shape)


def test_a_broken_evaluation_drops_its_game() -> None:
    class Broken(PseudoRandomEvaluator):
        def _fill(self, leaves: Leaves, logits: NDArray[np.float32], values: NDArray[np.float32]) -> None:
            super()._fill(leaves, logits, values)
            values[0] = np.nan

    games = player((PseudoRandomEvaluator(GO, 16), Broken(GO, 16)))
    assert len(play(games, 30)) >= 30
    assert games.counters()["non_finite"] > 0


def test_the_core_refuses_what_cannot_be_played() -> None:
    with pytest.raises(ValueError, match=r"without a search; use search\.policy=policy_only"):
        player(search=PuctConfig())
    with pytest.raises(ValueError, match="last_switch 0: must be at least 1"):
        player(value=ValueConfig(last_switch=0))


class _Wrapped:
    """An evaluator that is asked by arrays."""

    def __init__(self, evaluator: Any) -> None:
        self._evaluator = evaluator
        self.version, self.description = evaluator.version, "wrapped"

    def load(self, weights: Any) -> None:
        self._evaluator.load(weights)

    def __call__(self, leaves: Leaves) -> Any:
        return self._evaluator(leaves)


def _content(record: GameRecord) -> tuple[Any, ...]:
    return record.open_id, record.actions.tolist(), record.outcome, record.row_weight.tolist()


def _same(one: GameRecord, other: GameRecord) -> bool:
    return _content(one) == _content(other)
