"""Exact results as labels, against a slow solver and the plain definitions; and against other people's results."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from external_fixtures import TicTacToe, python_game
from labelled_games import for_first, labelled_rows, policy_of, random_game

from shusaku.actors.arena.solvers import ExactSolver
from shusaku.actors.arena.strength_sets import strength_set
from shusaku.common._core import Game, Position, RowRing
from shusaku.common.messages import EndedBy, GameId, GameRecord, RowKind

# Games whose boards fill up, and how many empty cells the slow solver here can see to the end of.
GAMES = [("tic_tac_toe", {}, 6), ("connect_four", {}, 7), ("othello", {"size": 6}, 5), ("hex", {"size": 4}, 7)]
LENGTHS = (1.0, 4.0)


def positions_of(game: Game, r: GameRecord) -> Iterator[Position]:
    position = game.start()
    for action in r.actions:
        yield position.copy()
        position.play(int(action))


def num_empty(position: Position) -> int:
    return position.text.split()[0].count(".")


def all_rows(ring: RowRing) -> dict[str, np.ndarray]:
    """Each row of the ring once, in order."""
    batch = ring.sample(40 * ring.end, 0, ring.end, 5, False, 1)
    numbers, first = np.unique(batch["rows"], return_index=True)
    assert numbers.tolist() == list(range(ring.end))
    return {name: column[first] for name, column in batch.items()}


@pytest.mark.parametrize("keeps_moves", [False, True])
@pytest.mark.parametrize("policies", [False, True])
@pytest.mark.parametrize("gap", [0.0, 0.3])
@pytest.mark.parametrize(("name", "params", "empties"), GAMES)
def test_they_are_those_of_the_definition(
    name: str, params: dict[str, Any], empties: int, gap: float, policies: bool, keeps_moves: bool
) -> None:
    """Solved plies have their result, and the plies before see a game that ends with the first of them."""
    game, solver = Game(name, params), ExactSolver()
    made = (random_game(game, seed, stop_early=seed % 4 == 3) for seed in itertools.count())
    solved_at = num_empty(game.start()) - empties  # plies, if nobody passes
    records = [next(r for r in made if len(r) > solved_at + 2 or index % 5 == 0) for index in range(30)]
    ring = RowRing(game, 2000, horizons=LENGTHS, blunder_gap=gap, blunder_width=0.4, value_lambda=0.75,
                   solved_empties=empties, solved_policies=policies, keeps_moves=keeps_moves)
    for record in records:
        ring.append(record)
    batch = all_rows(ring)
    number, corrected, sharpened = 0, 0, 0
    for r in records:
        positions = list(positions_of(game, r))
        results = [solver.value(p) if num_empty(p) <= empties else None for p in positions]
        known = [t for t, result in enumerate(results) if result is not None]
        unsolved = until(r, positions, results, known)
        before = {row.ply: row for row in labelled_rows(game, unsolved, LENGTHS, gap or 9, 0.4)}
        for t in np.flatnonzero(r.row_weight > 0):
            result, policy = results[t], policy_of(game, r, t)
            if result is None:
                outcome, short_term = before[t].deblundered, before[t].short_term
            else:
                outcome, short_term = result, [result, result]
                corrected += result != for_first(r.outcome, positions[t].to_play)
                if policies:
                    policy, plain = best_of(solver, positions[t], policy), policy
                    sharpened += not np.array_equal(policy, plain)
            assert batch["outcome"][number] == pytest.approx(outcome, abs=2e-6)
            np.testing.assert_allclose(batch["short_term"][number], short_term, atol=5e-6)
            assert batch["root_values"][number] == pytest.approx(short_term[1], abs=5e-6)
            np.testing.assert_allclose(batch["policy"][number], policy, atol=2e-4)
            assert round(float(batch["policy"][number].sum() * 65_535)) == 65_535
            number += 1
    assert number == ring.end
    assert corrected > 5
    assert (sharpened > 5) == policies


def until(r: GameRecord, positions: list[Position], results: list[int | None], known: list[int]) -> GameRecord:
    """The game as if it ended with the result of its first solved ply."""
    if not known:
        return r
    first = known[0]
    columns = {name: getattr(r, name)[:first] for name in
               ("actions", "root_values", "raw_values", "versions", "kind", "row_weight", "surprise")}
    entries = r.policy_offsets[first]
    return replace(r, outcome=for_first(results[first], positions[first].to_play), ended_by=EndedBy.RULES,
                   policy_offsets=r.policy_offsets[:first + 1], policy_actions=r.policy_actions[:entries],
                   policy_shares=r.policy_shares[:entries], **columns)


def best_of(solver: ExactSolver, position: Position, policy: np.ndarray) -> np.ndarray:
    """Of a policy [A] what goes to actions that hold the result; all of it if none had any."""
    results = solver.results(position)
    best = np.zeros_like(policy)
    for action, result in results.items():
        if result == max(results.values()):
            best[action] = policy[action]
    return best / best.sum() if best.sum() else policy


def test_without_a_lambda_the_root_value_is_exact_too() -> None:
    game, solver = Game("connect_four"), ExactSolver()
    record = next(r for r in (random_game(game, seed) for seed in range(200)) if len(r) > 36)
    ring = RowRing(game, 100, solved_empties=8)
    ring.append(record)
    batch, row = all_rows(ring), 0
    for t, position in enumerate(positions_of(game, record)):
        if record.row_weight[t] > 0:
            expected = solver.value(position) if num_empty(position) <= 8 else record.root_values[t]
            assert batch["root_values"][row] == expected
            row += 1


def test_committed_results_are_found_again() -> None:
    """Half of a game of connect four: games that are resigned in positions whose results another solver computed."""
    game = Game("connect_four")
    known = strength_set(game)
    assert known is not None
    ring, expected = RowRing(game, 50_000, solved_empties=22, solved_policies=True), []
    for position, truth in zip(known.positions, known.results, strict=True):
        if 16 <= num_empty(position) <= 22 and (record := game_through(game, position)) is not None:
            ring.append(record)
            expected.append((ring.end - 1, truth))
    assert len(expected) > 100
    batch = all_rows(ring)
    for row, truth in expected:
        assert batch["outcome"][row] == batch["root_values"][row] == truth.max()
        assert set(np.flatnonzero(batch["policy"][row])) == set(np.flatnonzero(truth == truth.max()))


def game_through(game: Game, position: Position) -> GameRecord | None:
    """A game that is resigned one move later, with any policy in its last row; None if every move ends it."""
    actions = moves_to(position.text)
    legal, after = position.legal_actions, None
    for action in legal:
        after = position.copy()
        after.play(action)
        if not after.is_terminal:
            actions.append(action)
            break
    else:
        return None
    shares = np.full(len(legal), 65_535 // len(legal), np.uint16)
    shares[0] += 65_535 - int(shares.sum(dtype=int))
    plies = len(actions)
    weight = np.zeros(plies, np.float32)
    weight[-1] = 1
    return GameRecord(
        game=game.name, params=game.params, game_id=GameId(0, 0, 0, 0), config_hash="", outcome=1, score=math.nan,
        ended_by=EndedBy.RESIGNATION, actions=np.array(actions, np.uint16),
        policy_offsets=np.array([0] * plies + [len(legal)], np.uint32), policy_actions=np.array(legal, np.uint16),
        policy_shares=shares, root_values=np.full(plies, 0.5, np.float32), raw_values=np.zeros(plies, np.float32),
        versions=np.ones(plies, np.uint32), kind=np.full(plies, RowKind.FULL, np.uint8), row_weight=weight,
        surprise=np.zeros(plies, np.float32),
    )


def moves_to(text: str) -> list[int]:
    """Drops that lead to a board without a four, so that none of them ends the game."""
    board = text.split()[0].split("/")
    columns = ["".join(row[c] for row in reversed(board)).rstrip(".") for c in range(len(board[0]))]  # lowest first
    impossible: set[tuple[int, ...]] = set()

    def lift(heights: tuple[int, ...], ply: int) -> list[int] | None:
        """The moves to these columns, so high, of which the last was that of `ply`."""
        if ply < 0:
            return []
        if heights in impossible:
            return None
        for c, height in enumerate(heights):
            if height and columns[c][height - 1] == "XO"[ply % 2]:
                earlier = lift((*heights[:c], height - 1, *heights[c + 1 :]), ply - 1)
                if earlier is not None:
                    return [*earlier, c]
        impossible.add(heights)
        return None

    moves = lift(tuple(map(len, columns)), sum(map(len, columns)) - 1)
    assert moves is not None
    return moves


def test_a_game_that_cannot_be_solved_is_refused() -> None:
    game = python_game(TicTacToe)
    with pytest.raises(ValueError, match=r"learner\.solved_empties=4: the board of .* does not fill up"):
        RowRing(game, 100, solved_empties=4)
    with pytest.raises(ValueError, match=r"learner\.solved_empties=21: must be at least 0 and, in othello, at most 20"):
        RowRing(Game("othello"), 100, solved_empties=21)
