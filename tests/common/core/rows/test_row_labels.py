"""Labels of the ring against a slow reference that replays the games in Python."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from external_fixtures import Takeaway, TicTacToe, python_game
from labelled_games import for_first, labelled_rows, random_game, sampling_weights

from shusaku.common._core import Game, RowRing
from shusaku.common.config.schema import LearnerConfig
from shusaku.common.errors import UsageError
from shusaku.common.messages import EndedBy, GameRecord, RowKind
from shusaku.common.network.row_labels import RowLabels, horizons, row_labels

GAP, WIDTH = 0.3, 0.4  # wide, so that random values lie on both sides and between


def games() -> dict[str, Game]:
    return {
        "tic_tac_toe": Game("tic_tac_toe"),
        "connect_four": Game("connect_four"),
        "go 5x5": Game("go", {"size": 5}),
        "go 9x9": Game("go", {"size": 9, "komi": 7.0}),
        "othello": Game("othello"),
        "python": python_game(TicTacToe),
        "moves twice": python_game(Takeaway, pile=20),
    }


def permuted(game: Game, symmetry: int, policy: np.ndarray) -> np.ndarray:
    turned = np.zeros_like(policy)
    turned[[game.permute_action(symmetry, a) for a in range(game.num_actions)]] = policy
    return turned


@pytest.mark.parametrize("name", games())
def test_every_label_is_that_of_the_definition(name: str) -> None:
    """Also when rows have left the ring, for games that stopped early, and under every symmetry."""
    game = games()[name]
    has_ownership = name.startswith("go") or name == "othello"
    lengths = (1.0, *horizons(game), 30.0)
    records = [random_game(game, seed, stop_early=seed % 4 == 3) for seed in range(4 if "9x9" in name else 12)]
    rows = list(itertools.chain(*(labelled_rows(game, r, lengths, GAP, WIDTH) for r in records)))
    capacity = len(rows) * 2 // 3
    ring = RowRing(game, capacity, horizons=lengths, blunder_gap=GAP, blunder_width=WIDTH, ownership=has_ownership,
                   score=True, reply=True)
    assert sum(ring.append(r) for r in records) == len(rows)
    batch = ring.sample(600, len(rows) - capacity, len(rows), 3, True, 1)
    seen = {"symmetries": set(), "replies": 0, "known": 0, "deblundered": 0}
    for b, number in enumerate(batch["rows"]):
        row = rows[number]
        np.testing.assert_allclose(batch["short_term"][b], row.short_term, atol=5e-6)
        assert batch["outcome"][b] == pytest.approx(row.deblundered, abs=2e-6)
        np.testing.assert_array_equal(batch["score"][b], row.score)
        assert batch["versions"][b] == row.version
        symmetry = next((s for s in range(game.num_symmetries) if fits(game, batch, b, row, s)), None)
        assert symmetry is not None, f"row {number}, ply {row.ply}: no symmetry explains policy, reply and ownership"
        seen["symmetries"].add(symmetry)
        seen["replies"] += batch["reply"][b].sum() > 0
        seen["known"] += not np.isnan(batch["score"][b])
        seen["deblundered"] += batch["outcome"][b] != row.outcome
    assert len(seen["symmetries"]) == game.num_symmetries
    assert 0 < seen["replies"] < 600
    assert 0 < seen["deblundered"] < 600
    assert (0 < seen["known"] < 600) == has_ownership
    assert "ownership" in batch or not has_ownership


def fits(game: Game, batch: dict[str, Any], b: int, row: Any, symmetry: int) -> bool:
    """Whether planes, policy, reply and ownership are the row's, all under this one symmetry."""
    same = np.array_equal(batch["observations"][b], row.planes[symmetry])
    same = same and np.allclose(batch["policy"][b], permuted(game, symmetry, row.policy), atol=1e-6)
    same = same and np.allclose(batch["reply"][b], permuted(game, symmetry, row.reply), atol=1e-6)
    if not same or "ownership" not in batch:
        return same
    if row.ownership is None:
        return bool(np.isnan(batch["ownership"][b]).all())
    cells = row.ownership.size  # an action of these games is the cell that a stone is put on; what is left is the pass
    padded = np.concatenate([row.ownership.reshape(-1), np.zeros(game.num_actions - cells)])
    turned = permuted(game, symmetry, padded)[:cells]
    return np.array_equal(batch["ownership"][b].reshape(-1), turned)


@pytest.mark.parametrize("gap", [0.0, GAP])
def test_a_game_at_the_ply_limit_may_end_with_what_its_last_search_said(gap: float) -> None:
    """In all labels; a game that ends by the rules, or whose last move had no search, ends as it did."""
    game, lengths = Game("chess", {"max_plies": 9}), (1.0, 4.0)
    records = [random_game(game, seed, stop_early=seed % 5 == 4) for seed in range(30)]
    for column in (records[0].kind, records[0].row_weight):
        column[-1] = RowKind.OPENING  # without a search and a row
    ends = [replace(r, outcome=for_first(float(r.root_values[-1]), (len(r) - 1) % 2)) if cut_by_search(r) else r
            for r in records]
    assert 0 < sum(map(cut_by_search, records)) < len(records)
    rows = list(itertools.chain(*(labelled_rows(game, r, lengths, gap or 9, WIDTH) for r in ends)))
    ring = RowRing(game, 2000, horizons=lengths, blunder_gap=gap, blunder_width=WIDTH, value_lambda=0.75,
                   is_cut_searched=True)
    assert sum(map(ring.append, records)) == len(rows)
    batch = ring.sample(400, 0, ring.end, 3, False, 1)
    for b, number in enumerate(batch["rows"]):
        assert batch["outcome"][b] == pytest.approx(rows[number].deblundered, abs=2e-6)
        np.testing.assert_allclose(batch["short_term"][b], rows[number].short_term, atol=5e-6)
    # With a root value, the lambda-return of 0.75 is the short-term value of horizon 4.
    np.testing.assert_allclose(batch["root_values"], batch["short_term"][:, 1], atol=1e-6)


def cut_by_search(r: GameRecord) -> bool:
    return r.ended_by == EndedBy.PLY_LIMIT and r.kind[-1] != RowKind.OPENING


def test_without_options_the_rows_are_as_ever() -> None:
    game = Game("connect_four")
    plain, labelled = RowRing(game, 500), RowRing(game, 500, horizons=(3.0,), score=True, reply=True)
    for seed in range(20):
        record = random_game(game, seed)
        plain.append(record)
        labelled.append(record)
    one, other = (ring.sample(256, 0, plain.end, 9, True, 1) for ring in (plain, labelled))
    assert set(other) - set(one) == {"short_term", "score", "reply"}
    assert all(np.array_equal(one[key], other[key]) for key in one)
    assert plain.nbytes < labelled.nbytes


@pytest.mark.parametrize("lie", ["outcome", "score", "action"])
def test_a_record_that_lies_leaves_the_ring_as_it_was(lie: str) -> None:
    """The labels of the games around it stay theirs."""
    game = Game("go", {"size": 5})
    records = [random_game(game, seed) for seed in range(6)]
    rows = list(itertools.chain(*(labelled_rows(game, r, (4.0,), GAP, WIDTH) for r in records)))
    ring = RowRing(game, 2000, horizons=(4.0,), ownership=True, score=True)
    for r in records:
        fields = {"outcome": -r.outcome or 1, "score": r.score + 1,
                  "action": np.append(r.actions[:-1], [99]).astype(np.uint16)}
        false = replace(r, **{lie.replace("action", "actions"): fields[lie]})
        end = ring.end
        with pytest.raises(ValueError, match=lie.replace("score", "outcome: a score")):
            ring.append(false)
        assert ring.end == end
        ring.append(r)
    batch = ring.sample(300, 0, ring.end, 1, False, 1)
    for b, number in enumerate(batch["rows"]):
        np.testing.assert_array_equal(batch["ownership"][b], rows[number].ownership)
        assert batch["score"][b] == rows[number].score


@pytest.mark.parametrize("options", [
    {"horizons": (0.5,)}, {"blunder_gap": -1.0}, {"blunder_width": float("nan")}, {"policy_surprise": 1.5},
    {"policy_surprise": 0.6, "value_surprise": 0.6}, {"ownership": True}, {"value_lambda": 1.0}, {"value_lambda": -0.1},
])
def test_a_ring_refuses_options_that_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must be|no ownership"):
        RowRing(Game("tic_tac_toe"), 10, **options)


@pytest.mark.parametrize("name", ["connect_four", "moves twice"])
@pytest.mark.parametrize("value_lambda", [0.0, 0.4, 0.875])
def test_root_values_become_lambda_returns(name: str, value_lambda: float) -> None:
    """By the recursion G = (1 - l) v + l G', signs by who is to move, in Python; without a search only G' is left."""
    game = games()[name]
    ring, wanted = RowRing(game, 2000, value_lambda=value_lambda), []
    for seed in range(8):
        record = random_game(game, seed)
        ring.append(record)
        position, players = game.start(), []
        for action in record.actions:
            players.append(position.to_play)
            position.play(int(action))
        value, of_game = float(record.outcome), []
        for ply in reversed(range(len(record.actions))):
            sign = 1 if players[ply] == 0 else -1
            if record.kind[ply] != RowKind.OPENING:
                value = (1 - value_lambda) * sign * float(record.root_values[ply]) + value_lambda * value
            of_game.append(sign * value if value_lambda else float(record.root_values[ply]))
        weights = record.row_weight > 0
        wanted += [one for one, has_row in zip(reversed(of_game), weights, strict=True) if has_row]
    batch = ring.sample(400, 0, ring.end, 1, False, 1)
    np.testing.assert_allclose(batch["root_values"], np.array(wanted)[batch["rows"]], atol=1e-5)


# --- how often rows are drawn ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("policy", "value"), [(0.5, 0.1), (0.8, 0.0), (0.0, 1.0)])
def test_surprising_rows_are_drawn_as_often_as_the_formula_says(policy: float, value: float) -> None:
    """And every game weighs what its rows weigh; if they are equal, it is drawn as often as it has rows."""
    game = Game("tic_tac_toe")
    records = [random_game(game, seed) for seed in range(8)]
    records[5].surprise[:] = 0  # a game without any
    records[6].row_weight[-3:] *= np.float32(0.1)  # a decided end
    expected: list[float] = []
    for r in records:
        share = 0.0 if r is records[5] else policy
        record = r if share else replace(r, surprise=np.ones(len(r), np.float32))
        weights = sampling_weights(game, record, share, value)
        shares = r.row_weight[list(weights)]
        assert np.average(list(weights.values()), weights=shares) == pytest.approx(1)
        expected += weights.values()
    ring = RowRing(game, 1000, policy_surprise=policy, value_surprise=value)
    for r in records:
        ring.append(r)
    begin = records[0].num_rows  # a window that does not begin with the ring
    assert_drawn_as_often(ring, expected, begin)


def assert_drawn_as_often(ring: RowRing, expected: list[float], begin: int) -> None:
    """Rows from `begin` on, in proportion to these weights of all rows."""
    draws = 400_000
    batch = ring.sample(draws, begin, ring.end, 5, False, 2)
    counts = np.bincount(batch["rows"], minlength=ring.end)
    assert counts[:begin].sum() == 0
    share = np.array(expected[begin:]) / sum(expected[begin:])
    deviation = np.sqrt(draws * share * (1 - share)) + 1
    assert (np.abs(counts[begin:] - draws * share) < 5 * deviation).all()


@pytest.mark.parametrize("error", [0.0, 0.05, 0.3, 1.4])
def test_a_decided_game_is_not_ruled_by_what_little_surprised_in_it(error: float) -> None:
    """KataGo: if the mean surprise of the values is below 0.01, its share of the samples shrinks in proportion."""
    game, share = Game("connect_four"), 0.6
    record = random_game(game, 0)
    rows = np.flatnonzero(record.row_weight > 0)
    values = np.where(np.arange(len(record)) % 2 == 0, record.outcome, -record.outcome) * 0.99
    raw = values.copy()  # the network has known it all, but for one row
    raw[rows[3]] -= np.sign(raw[rows[3]]) * error
    record = replace(record, raw_values=raw.astype(np.float32),
                     root_values=np.where(record.kind == 0, 0, values).astype(np.float32))
    expected = sampling_weights(game, record, 0.0, share)
    usual = sampling_weights(game, record, 0.0, share, damped=False)
    assert (expected == usual) == (error > 1)
    ring = RowRing(game, 100, value_surprise=share)
    assert ring.append(record) == len(rows) > 8
    assert_drawn_as_often(ring, list(expected.values()), 0)
    if error < 1:
        with pytest.raises(AssertionError):
            assert_drawn_as_often(ring, list(usual.values()), 0)


def test_weighted_draws_depend_on_the_seed_alone_and_survive_the_ring_going_round() -> None:
    game = Game("connect_four")
    records = [random_game(game, seed) for seed in range(40)]
    rings = [RowRing(game, capacity, policy_surprise=0.5) for capacity in (150, 5000)]
    for r in records:
        for ring in rings:
            ring.append(r)
    end = rings[0].end
    small, large, other = (
        ring.sample(512, end - 150, end, seed, True, threads)
        for ring, seed, threads in ((rings[0], 1, 1), (rings[1], 1, 2), (rings[1], 2, 1))
    )
    assert end > 400
    assert all(np.array_equal(small[key], large[key]) for key in small)
    assert not np.array_equal(small["rows"], other["rows"])


# --- what targets need -----------------------------------------------------------------------------------------------


def test_targets_ask_for_their_labels() -> None:
    game = Game("go", {"size": 9})
    assert row_labels(game, LearnerConfig()) == RowLabels()
    config = LearnerConfig(targets=["policy", "value", "short_term", "ownership", "score", "reply"], blunder_gap=0.1)
    labels = row_labels(game, config)
    assert row_labels(game, LearnerConfig(cut_off_value="search")) == RowLabels(is_cut_searched=True)
    solved = LearnerConfig(solved_empties=9)
    assert row_labels(game, solved) == RowLabels(solved_empties=9, solved_policies=True)
    assert row_labels(game, replace(solved, solved_policies=False)) == RowLabels(solved_empties=9)
    assert labels == RowLabels(labels.horizons, 0.1, 0.06, True, True, True)
    assert labels.horizons == pytest.approx((15.256, 5.536, 2.296))  # 1 + 0.176, 0.056 and 0.016 of 81


@pytest.mark.parametrize(("game", "target", "reason"), [
    ("connect_four", "ownership", "names ownership: connect_four has no ownership of cells"),
    ("hex", "score", "names score: hex counts no points"),
])
def test_a_target_that_the_game_cannot_give_is_refused(game: str, target: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        row_labels(Game(game), LearnerConfig(targets=["policy", "value", target]))
