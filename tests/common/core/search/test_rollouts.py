"""Rollouts: uniform ones, and Go's rollout policy against a slow reference (tests/fixtures/reference_rollout.py)."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import reference_rollout as reference
from search_fixtures import search_all

from shusaku.common._core import Game, Rollouts, RolloutTraining, describe_rollout
from shusaku.common.config.search import MctsConfig

SIZES = (5, 9, 13)


def go(size: int, **params) -> Game:
    return Game("go", {"size": size, **params})


def random_games(size: int, games: int, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(games):
        moves = []
        for position, situation in reference.positions_of(go(size), size, rng, 60):
            if moves:
                moves[-1] = moves[-1][0], situation.last
            moves.append((position, None))
        positions = [position for position, _ in moves]
        actions = [next(a for a in before.legal_actions if played(before, a) == str(after))
                   for before, after in pairwise(positions[-8:])]
        found.append(np.array(actions, np.uint16))
    return found


def played(position, action) -> str:
    after = position.copy()
    after.play(action)
    return str(after)


def trained(size: int, path: Path, seed: int = 3) -> str:
    """A policy learned from random games: its weights are odd numbers, which is what a comparison needs."""
    training = RolloutTraining(go(size))
    rng = np.random.default_rng(seed)
    for _ in range(12):
        position, actions = go(size).start(), []
        while not position.is_terminal and len(actions) < 80:
            found = Rollouts(go(size)).candidates(position)[0]
            actions.append(int(rng.choice(found)) if len(found) else size * size)
            position.play(actions[-1])
        training.add(np.array(actions, np.uint16))
    training.begin(2)
    training.learn(0.7, seed)
    path.write_bytes(training.file("random games"))
    return str(path)


@pytest.mark.parametrize("size", SIZES)
def test_features_are_those_of_the_slow_reference(size: int) -> None:
    game, rng = go(size), np.random.default_rng(size)
    rollouts = Rollouts(game)
    seen: set[int] = set()
    kos = positions = 0
    for _ in range(6 if size > 9 else 12):
        for position, situation in reference.positions_of(game, size, rng, 8 * size):
            actions, offsets, keys = rollouts.candidates(position)
            found = {int(action): set(keys[begin:end].tolist())
                     for action, (begin, end) in zip(actions, pairwise(offsets.tolist()), strict=True)}
            assert found == situation.candidates(), str(position)
            seen |= {key >> 56 for features in found.values() for key in features}
            kos += situation.ko() is not None
            positions += 1
    assert {1, 2, 3, 4} <= seen
    assert kos > 0
    assert positions > 100


def test_the_middle_of_taken_stones_is_seen() -> None:
    game = go(5)
    position = game.position("XXXOO/OOOX./...X./...XO/.....".replace("XXXOO", ".XXXO").replace("/OOOX.", "/XOOOX") + " X")
    before = reference.Board.of(position, 5)
    move = next((action for action in position.legal_actions[:-1]
                 if len(before.play(divmod(action, 5), 0)[1] or ()) >= 3), None)
    assert move is not None, str(position)
    position.play(move)
    situation = reference.Situation(reference.Board.of(position, 5), 1, divmod(move, 5), before)
    actions, offsets, keys = Rollouts(game).candidates(position)
    nakade = [int(action) for action, (begin, end) in zip(actions, pairwise(offsets.tolist()), strict=True)
              if 5 << 56 in keys[begin:end].tolist()]
    assert nakade == [row * 5 + column for row, column in [situation.nakade()]]


@pytest.mark.parametrize("size", SIZES)
def test_probabilities_are_the_softmax_of_the_reference(size: int, tmp_path: Path) -> None:
    game, rng = go(size), np.random.default_rng(10 + size)
    file = trained(size, tmp_path / "go.rollout")
    weights = describe_rollout(Path(file).read_bytes())
    table = dict(zip(weights["keys"].tolist(), weights["weights"].tolist(), strict=True))
    rollouts = Rollouts(game, file)
    for position, situation in reference.positions_of(game, size, rng, 7 * size):
        expected = situation.probabilities(table)
        legal = position.legal_actions
        others = [action for action in legal if action not in expected]
        share = (reference.OTHERS if expected.keys() & set(legal) else 1) if others else 0
        # Superko may forbid what a rollout would play.
        total = sum(expected[action] for action in legal if action in expected)
        wanted = [expected[a] / total * (1 - share) if a in expected else share / len(others) for a in legal]
        np.testing.assert_allclose(rollouts.priors(position), wanted, rtol=2e-3, atol=1e-5)


def test_a_rollout_plays_by_these_probabilities(tmp_path: Path) -> None:
    """The first moves of many rollouts, seen by a limit of one ply on the game."""
    file = trained(5, tmp_path / "go.rollout")
    short, game = go(5, max_plies=9), go(5)
    rng = np.random.default_rng(2)
    position, situation = list(reference.positions_of(game, 5, rng, 9))[8]
    same = short.start()
    moves = moves_between(game, position)
    for action in moves:
        same.play(action)
    assert str(same) == str(position)
    rollouts, counts, games = Rollouts(short, file), {}, 4000
    for seed in range(games):
        outcome, plies = rollouts.play(same, seed)
        assert plies == 1
        counts[outcome] = counts.get(outcome, 0) + 1
    weights = describe_rollout(Path(file).read_bytes())
    table = dict(zip(weights["keys"].tolist(), weights["weights"].tolist(), strict=True))
    expected: dict[float, float] = {}
    for action, chance in situation.probabilities(table).items():
        after = same.copy()
        after.play(action)
        expected[-after.outcome] = expected.get(-after.outcome, 0) + chance
    for outcome, chance in expected.items():
        spread = 4.5 * np.sqrt(games * chance * (1 - chance)) + 1
        assert abs(counts.get(outcome, 0) - games * chance) < spread


