"""What the ring hands out, against the records that went in; what it refuses is in tests/replay."""

from dataclasses import replace

import numpy as np
import pytest

from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.actors.self_play import ActorIdentity, SelfPlay
from shusaku.common._core import Game, RowRing
from shusaku.common.config.schema import SelfPlayConfig
from shusaku.common.config.search import PuctConfig


def games_of(game, count, seed=1):
    player = SelfPlay(game, PuctConfig(simulations=12, cache=0), SelfPlayConfig(random_plies=3),
                      PseudoRandomEvaluator(game, 8), games=8, seed=seed, identity=ActorIdentity(0))
    records = []
    while len(records) < count:
        records += player.step()
    return records[:count]


def expected_rows(game, records):
    """Of each row: observations and policies of all symmetries; outcome, root value, plies left, version."""
    rows = []
    for r in records:
        position = game.start()
        for t, action in enumerate(r.actions):
            if r.row_weight[t] > 0:
                entries = slice(r.policy_offsets[t], r.policy_offsets[t + 1])
                planes, policies = [], []
                for symmetry in range(game.num_symmetries):
                    policy = np.zeros(game.num_actions, np.float32)
                    for a, share in zip(r.policy_actions[entries], r.policy_shares[entries], strict=True):
                        policy[game.permute_action(symmetry, int(a))] = share / 65535
                    planes.append(position.observation(symmetry))
                    policies.append(policy)
                outcome = r.outcome if position.to_play == 0 else -r.outcome
                rows.append((planes, policies, outcome, r.root_values[t], len(r) - t, r.versions[t]))
            position.play(int(action))
    return rows


@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four"])
@pytest.mark.parametrize("threads", [1, 2])
def test_sampled_rows_are_the_rows_of_the_records_under_one_symmetry(name, threads):
    game = Game(name)
    records = [replace(r, versions=np.arange(len(r), dtype=np.uint32) + 50 * k)
               for k, r in enumerate(games_of(game, 30))]
    rows = expected_rows(game, records)
    ring = RowRing(game, len(rows))
    assert sum(ring.append(r) for r in records) == len(rows) == ring.end
    batch = ring.sample(2000, 0, len(rows), 5, True, threads)
    symmetries = set()
    for b in range(2000):
        planes, policies, outcome, root_value, plies_left, version = rows[batch["rows"][b]]
        match = [s for s in range(game.num_symmetries) if np.array_equal(planes[s], batch["observations"][b])
                 and np.allclose(policies[s], batch["policy"][b], atol=1e-7)]
        assert match, f"row {batch['rows'][b]} under no symmetry"
        symmetries.update(match)
        assert (batch["outcome"][b], batch["plies_left"][b]) == (outcome, plies_left)
        assert (batch["root_values"][b], batch["versions"][b]) == (root_value, version)
        assert batch["weight"][b] == 1
    assert symmetries == set(range(game.num_symmetries))
    assert len(set(batch["rows"])) > 0.8 * len(rows)  # uniform: 2000 draws of some 300 rows meet nearly all


def test_the_draw_depends_on_the_seed_alone():
    game = Game("connect_four")
    ring = RowRing(game, 5000)
    for record in games_of(game, 40):
        ring.append(record)
    one, two, other = (
        ring.sample(512, 10, ring.end, seed, True, threads) for seed, threads in ((1, 1), (1, 2), (2, 1))
    )
    assert all(np.array_equal(one[key], two[key]) for key in one)
    assert not np.array_equal(one["rows"], other["rows"])
    assert one["rows"].min() >= 10
    plain = ring.sample(512, 0, ring.end, 1, False, 1)
    assert plain["observations"].shape == (512, 3, 6, 7)


def test_old_rows_make_room_and_rows_not_held_are_refused():
    game = Game("connect_four")
    ring = RowRing(game, 100)
    for record in games_of(game, 40):
        ring.append(record)
    assert ring.end > 300
    batch = ring.sample(256, ring.end - 100, ring.end, 1, False, 1)
    assert batch["rows"].min() >= ring.end - 100
    for begin, end in ((ring.end - 101, ring.end), (ring.end - 5, ring.end + 1), (ring.end, ring.end)):
        with pytest.raises(ValueError, match="not held"):
            ring.sample(4, begin, end, 1, False, 1)


def test_openings_are_replayed_but_not_learned_from():
    game = Game("connect_four")
    records = games_of(game, 60)
    assert any(r.kind[0] == 0 for r in records)
    for r in records:
        opening = r.kind == 0
        assert (r.row_weight[opening] == 0).all()
        assert (r.row_weight[~opening] == 1).all()
        assert not (np.diff(opening.astype(int)) > 0).any()  # openings come first
        assert r.num_rows == int((~opening).sum())
        assert opening.sum() <= 3
