"""Games of two policies: who moves when, by whose evaluation, and what the record says of it."""

from collections import Counter

import msgpack
import numpy as np
import pytest
from numpy.typing import NDArray
from scripted_evaluator import ScriptedEvaluator

from shusaku.actors.policy_games.paired_games import WHOLE, Draw, PairedGames
from shusaku.actors.self_play import ActorIdentity
from shusaku.common._core import Game, RowRing
from shusaku.common.codec import decode_record, encode_record
from shusaku.common.config.schema import NetworkConfig
from shusaku.common.config.search import make_search
from shusaku.common.messages import EndedBy, GameRecord, Weights
from shusaku.common.network.weights import random_weights

GAME = Game("tic_tac_toe")
SEARCH = make_search("policy_only", temperature_plies=0, temperature_final=1.0)
SHARES = np.arange(1, 10) / 45  # of the cells, of the policy that learns; the opponent likes the others
WEIGHTS = random_weights(GAME, NetworkConfig(filters=4, blocks=1, value_hidden=4), 1, version=8)
OLD = random_weights(GAME, NetworkConfig(filters=4, blocks=1, value_hidden=4), 1, version=3)


class Counting(ScriptedEvaluator):
    """Remembers what was loaded, and how many positions it was asked for."""

    def __init__(self, game: Game, policy: NDArray[np.float64]) -> None:
        super().__init__(game, lambda observation: (np.log(policy).astype(np.float32), 0.25))
        self.loaded: list[int] = []
        self.asked: list[int] = []

    def load(self, weights: Weights) -> None:
        super().load(weights)
        self.loaded.append(weights.version)

    def __call__(self, leaves):  # type: ignore[no-untyped-def]
        self.asked.append(len(leaves))
        return super().__call__(leaves)


def pairs_of(
    games: int = 16, seed: int = 1, draw: Draw = lambda random: OLD, game: Game = GAME,
    policies: tuple[NDArray[np.float64], ...] = (SHARES, SHARES[::-1]),
) -> tuple[PairedGames, list[Counting]]:
    evaluators = [Counting(game, policy) for policy in policies]
    pairs = PairedGames(game, SEARCH, evaluators, draw, games=games, seed=seed, identity=ActorIdentity(2, 1, 3),
                        config_hash="c0ffee")
    pairs.load(WEIGHTS)
    return pairs, evaluators


def test_a_record_says_which_side_learned_and_who_opposed() -> None:
    pairs, evaluators = pairs_of()
    records = pairs.play(1)
    assert [record.game_id for record in records] == [(1, 2, 3, number) for number in range(16)]
    for number, record in enumerate(records):
        sides = np.arange(len(record)) % 2
        assert np.array_equal(record.row_weight > 0, sides == number % 2), "it moves first in every second game"
        assert np.array_equal(record.versions, np.where(record.row_weight > 0, 8, 3))
        assert record.policy_actions.tolist() == record.actions[record.row_weight > 0].tolist()
        assert set(record.policy_shares.tolist()) == {WHOLE}
        assert record.config_hash == "c0ffee"
        assert record.ended_by == EndedBy.RULES
        assert np.allclose(record.raw_values, 0.25)
        assert RowRing(GAME, 20).append(decode_record(encode_record(record))) == record.num_rows
    assert [evaluator.loaded for evaluator in evaluators] == [[8], [3]]
    assert pairs.counters()["games"] == 16
    assert pairs.counters()["plies"] == sum(map(len, records))
    assert pairs.counters()["rows"] == sum(record.num_rows for record in records)


def test_each_policy_draws_its_moves_from_its_own_softmax() -> None:
    """The first moves, by chi-square: 26.1 is the 99.9 % quantile of eight degrees of freedom."""
    pairs, _ = pairs_of(games=2000)
    records = pairs.play(1)
    for expected, some in ((SHARES, records[0::2]), (SHARES[::-1], records[1::2])):
        counts = np.bincount([record.actions[0] for record in some], minlength=9)
        assert float(((counts - 1000 * expected) ** 2 / (1000 * expected)).sum()) < 26.1, counts


def test_positions_of_a_ply_are_evaluated_in_two_batches() -> None:
    pairs, evaluators = pairs_of(games=16)
    pairs.step()
    pairs.step()
    assert [evaluator.asked[:1] for evaluator in evaluators] == [[8], [16]]
    assert sum(evaluators[0].asked) == 8 + 16
    records = pairs.play(1)
    assert len(evaluators[0].asked) <= max(map(len, records)), "no more batches than plies"


def test_new_weights_are_used_from_the_next_round_on() -> None:
    drawn = iter([OLD, WEIGHTS])
    pairs, evaluators = pairs_of(draw=lambda random: next(drawn))
    pairs.step()
    newer = random_weights(GAME, NetworkConfig(filters=4, blocks=1, value_hidden=4), 1, version=9)
    pairs.load(newer)
    first = pairs.play(1)
    assert {int(version) for record in first for version in record.versions} == {3, 8}
    second = pairs.play(1)
    assert {int(version) for record in second for version in record.versions} == {8, 9}
    assert [evaluator.loaded for evaluator in evaluators] == [[8, 9], [3, 8]]


def test_without_a_pool_the_policy_plays_against_itself() -> None:
    pairs, evaluators = pairs_of(draw=lambda random: None)
    records = pairs.play(1)
    assert {int(version) for record in records for version in record.versions} == {8}
    assert [evaluator.loaded for evaluator in evaluators] == [[8], [8]]


def content(records: list[GameRecord]) -> list[bytes]:
    return [encode_record(record) for record in records]


def test_a_round_that_was_stopped_is_played_again_with_the_same_games() -> None:
    """The games of a seed are the same, whatever other rounds there were and wherever it was stopped."""
    whole, _ = pairs_of()
    rounds = [content(whole.play(1)) for _ in range(3)]
    assert len({game[-200:] for game in rounds[0]}) > 8, "the games of a round differ"
    stopped, _ = pairs_of()
    assert content(stopped.play(1)) == rounds[0]
    asked = iter([False, False, True])
    assert stopped.play(1, lambda: next(asked)) == []
    again, _ = pairs_of()
    again.restore(stopped.snapshot())
    assert content(again.play(1)) == rounds[1]
    assert content(again.play(1)) == rounds[2]
    other, _ = pairs_of(games=8)
    with pytest.raises(ValueError, match="other rules"):
        other.restore(stopped.snapshot())
    with pytest.raises(ValueError, match="cannot be read"):
        other.restore(b"\x00")


def test_a_round_after_a_new_beginning_is_gone_on_with() -> None:
    """The beginning drew another seed, which no later process knows but by the snapshot."""
    anew, _ = pairs_of()
    anew.begin_anew(8)
    anew.play(1)
    snapshot = anew.snapshot()
    again, _ = pairs_of()
    again.restore(snapshot)
    assert content(again.play(1)) == content(anew.play(1))
    state = msgpack.unpackb(snapshot)
    seed = state.pop("seed")
    older, _ = pairs_of()
    older.restore(msgpack.packb({**state, "rules": [*state["rules"], seed]}))
    assert older.snapshot() == snapshot


def test_the_opponent_of_each_round_is_drawn_anew() -> None:
    """Each round draws by its own number, so a process that goes on draws the same opponents."""
    drawn: Counter[int] = Counter()

    def draw(random: np.random.Generator) -> Weights:
        drawn[int(random.integers(4))] += 1
        return OLD

    pairs, _ = pairs_of(games=2, draw=draw)
    for _ in range(100):
        pairs.play(1)
    assert sorted(drawn) == [0, 1, 2, 3]
    assert min(drawn.values()) >= 10


@pytest.mark.parametrize(("name", "size"), [("go", 5), ("hex", 3), ("othello", 6)])
def test_games_with_scores_and_passes_are_valid_records(name: str, size: int) -> None:
    game = Game(name, {"size": size})
    uniform = np.full(game.num_actions, 1 / game.num_actions)
    pairs, _ = pairs_of(games=4, game=game, policies=(uniform, uniform))
    for record in pairs.play(1):
        assert RowRing(game, 500).append(record) == record.num_rows > 0
