"""The strength sets against independent solvers, and the measurement against players whose strength is known."""

import json
import random
import runpy
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import bitbully
import numpy as np
import pytest
from numpy.typing import NDArray
from scripted_evaluator import ScriptedEvaluator

from shusaku.actors.arena.solvers import ExactSolver
from shusaku.actors.arena.strength import (
    StoppedError,
    measure,
    measure_baselines,
    never_loses,
    policy_actions,
    random_share,
    search_actions,
    share_of,
    strength_search,
)
from shusaku.actors.arena.strength_sets import ILLEGAL, StrengthSet, strength_set
from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator, UniformEvaluator
from shusaku.common._core import Game, Position
from shusaku.common.config.search import PuctConfig, make_search
from shusaku.common.errors import UsageError
from shusaku.deploy.run.strength_table import strength_table

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "benchmarks/strength/make_connect_four_positions.py"
LINES = [line.split("\t") for line in (ROOT / "actors/arena/data/connect_four.tsv").read_text().splitlines()[1:]]
BUCKETS = ("begin_easy", "begin_medium", "begin_hard", "middle_easy", "middle_medium", "end_easy")


@pytest.fixture(scope="module")
def connect_four() -> StrengthSet:
    return _set("connect_four")


@pytest.fixture(scope="module")
def tic_tac_toe() -> StrengthSet:
    return _set("tic_tac_toe")


def _set(name: str, params: dict[str, int] | None = None) -> StrengthSet:
    positions = strength_set(Game(name, params or {}))
    assert positions is not None
    return positions


# ---- an independent connect four: columns as strings of stones, plain alpha-beta ----

Columns = tuple[str, ...]  # seven strings of "0" and "1", the lowest stone first


def _columns(moves: str) -> Columns:
    columns = [""] * 7
    for ply, move in enumerate(moves):
        columns[int(move) - 1] += "01"[ply % 2]
    return tuple(columns)


def _dropped(columns: Columns, column: int, player: str) -> Columns:
    return (*columns[:column], columns[column] + player, *columns[column + 1 :])


def _makes_four(columns: Columns, column: int) -> bool:
    """Whether the top stone of `column` stands in a row of four."""
    row, player = len(columns[column]) - 1, columns[column][-1]

    def run(columns_step: int, rows_step: int) -> int:
        length, x, y = 0, column + columns_step, row + rows_step
        while 0 <= x < 7 and 0 <= y < len(columns[x]) and columns[x][y] == player:
            length, x, y = length + 1, x + columns_step, y + rows_step
        return length

    return any(1 + run(x, y) + run(-x, -y) >= 4 for x, y in ((1, 0), (0, 1), (1, 1), (1, -1)))


@cache
def _outcome(columns: Columns) -> int:
    """Result under best play for the player to move."""
    results = _move_results(columns, stop_at_win=True)
    return max(results.values(), default=0)


def _move_results(columns: Columns, stop_at_win: bool = False) -> dict[int, int]:
    player = "01"[sum(map(len, columns)) % 2]
    results = {}
    following = {column: _dropped(columns, column, player) for column in range(7) if len(columns[column]) < 6}
    for column, after in following.items():
        if _makes_four(after, column):
            results[column] = 1
    if results and stop_at_win:
        return results
    for column, after in following.items():
        if column not in results:
            results[column] = -_outcome(after)
            if stop_at_win and results[column] == 1:
                break
    return results


def _text(results: dict[int, int]) -> str:
    return "".join(".DWL"[0 if column not in results else results[column] % 3 + 1] for column in range(7))


def test_result_letters() -> None:
    assert _text({0: 1, 1: 0, 2: -1}) == "WDL...."


def test_the_exact_solver_of_the_tests_agrees_where_games_are_nearly_over() -> None:
    late = [(moves, results) for _, moves, results in LINES if len(moves) >= 29]
    assert len(late) == 500
    for moves, results in late:
        assert _text(_move_results(_columns(moves))) == results, moves


def test_the_exact_solver_of_the_tests_agrees_in_late_middle_positions() -> None:
    middle = [(moves, results) for _, moves, results in LINES if 26 <= len(moves) <= 28]
    assert len(middle) > 50
    for moves, results in middle[::5]:
        assert _text(_move_results(_columns(moves))) == results, moves


@pytest.mark.parametrize("bucket", BUCKETS)
def test_bitbully_agrees_with_results_and_bucket(bucket: str) -> None:
    solver = bitbully.BitBully()
    for _, moves, results in [line for line in LINES if line[0] == bucket][::25]:
        board = bitbully.Board([int(move) - 1 for move in moves])
        scores = solver.score_all_moves(board)
        assert _text({column: (score > 0) - (score < 0) for column, score in scores.items()}) == results
        left = solver.score_to_moves_left(max(scores.values()), board)
        assert _bucket(len(moves), left) == bucket, moves


def test_plies_left_are_those_of_best_play() -> None:
    plies_left = runpy.run_path(str(SCRIPT))["plies_left"]
    solver = bitbully.BitBully()
    for _, moves, _ in LINES[::100]:
        board = bitbully.Board([int(move) - 1 for move in moves])
        played = 0
        expected = plies_left(max(solver.score_all_moves(board).values()), len(moves))
        while not board.is_game_over():
            scores = solver.score_all_moves(board)
            board.play(max(scores, key=lambda column: scores[column]))
            played += 1
        assert expected == played, moves


def _bucket(plies: int, left: int) -> str:
    phase = "begin" if plies <= 14 else "middle" if plies <= 28 else "end"
    return phase + ("_easy" if left < 14 else "_medium" if left <= 28 else "_hard")


# ---- the sets ----


def test_six_buckets_of_500_where_some_move_loses_value(connect_four: StrengthSet) -> None:
    assert connect_four.bucket_names == BUCKETS
    assert np.bincount(connect_four.buckets).tolist() == [500] * 6
    assert not any(position.is_terminal for position in connect_four.positions)
    assert (connect_four.optimal.sum(axis=1) < connect_four.legal.sum(axis=1)).all()
    for bucket, position in zip(connect_four.buckets, connect_four.positions, strict=True):
        low, high = {"begin": (0, 14), "middle": (15, 28), "end": (29, 41)}[BUCKETS[bucket].split("_")[0]]
        assert low <= position.ply <= high


def test_the_set_is_legal_in_our_rules(connect_four: StrengthSet) -> None:
    for position, legal in zip(connect_four.positions, connect_four.legal, strict=True):
        assert position.legal_actions == np.flatnonzero(legal).tolist()


def test_no_position_occurs_twice_not_even_mirrored() -> None:
    seen = set()
    for _, moves, _ in LINES:
        columns = _columns(moves)
        seen.add(min(columns, columns[::-1]))
    assert len(seen) == len(LINES) == 3000


def test_tic_tac_toe_has_4520_positions_to_decide(tic_tac_toe: StrengthSet) -> None:
    assert len(tic_tac_toe) == 4520
    assert tic_tac_toe.is_complete
    assert len({position.transposition_key for position in tic_tac_toe.positions}) == 4520
    assert ExactSolver().value(tic_tac_toe.game.start()) == 0
    assert tic_tac_toe.results[0].tolist() == [0] * 9


def test_a_result_of_tic_tac_toe_is_read_off_the_board(tic_tac_toe: StrengthSet) -> None:
    position = tic_tac_toe.game.start()
    for action in (0, 3, 1, 4):  # X X . / O O . / . . .
        position.play(action)
    row = [other.transposition_key for other in tic_tac_toe.positions].index(position.transposition_key)
    results = tic_tac_toe.results[row].tolist()
    assert results == [ILLEGAL, ILLEGAL, 1, ILLEGAL, ILLEGAL, 0, -1, -1, -1]


# ---- Othello 6x6 ----


@pytest.fixture(scope="module")
def othello() -> StrengthSet:
    return _set("othello", {"size": 6})


def _board(position: Position) -> NDArray[np.int8]:  # [6, 6]
    own, other = position.observation()[:2]
    return (own.astype(np.int8) - other.astype(np.int8)).reshape(6, 6)


def test_three_buckets_of_500_endgames_where_some_move_loses_value(othello: StrengthSet) -> None:
    assert othello.bucket_names == ("empty_13_16", "empty_9_12", "empty_5_8")
    assert np.bincount(othello.buckets).tolist() == [500] * 3
    assert not any(position.is_terminal for position in othello.positions)
    assert (othello.optimal.sum(axis=1) < othello.legal.sum(axis=1)).all()
    for bucket, position in zip(othello.buckets, othello.positions, strict=True):
        _, fewest, most = othello.bucket_names[bucket].split("_")
        assert int(fewest) <= np.count_nonzero(_board(position) == 0) <= int(most)


def test_no_endgame_occurs_twice_not_even_turned_or_mirrored(othello: StrengthSet) -> None:
    seen = set()
    for position in othello.positions:
        turned = [np.rot90(_board(position), turns) for turns in range(4)]
        seen.add(min(image.tobytes() for board in turned for image in (board, board.T)))
    assert len(seen) == len(othello)


def test_brute_force_by_our_rules_agrees_with_the_solver_of_other_rules(othello: StrengthSet) -> None:
    """The latest ones: from 5 to 7 empty squares."""
    solver, late = ExactSolver(), 0
    for row, position in enumerate(othello.positions):
        if np.count_nonzero(_board(position) == 0) <= 7 and row % 4 == 0:
            late += 1
            results = solver.results(position)
            assert othello.results[row, list(results)].tolist() == list(results.values())
            assert np.count_nonzero(othello.legal[row]) == len(results)
    assert late > 60


def test_the_results_of_longer_endgames_follow_from_each_other(othello: StrengthSet) -> None:
    """After an optimal move the opponent has the opposite result: solved again from there, by other cuts."""
    if shutil.which("g++") is None:
        pytest.skip("the solver is compiled with g++")
    made = runpy.run_path(str(ROOT / "benchmarks/strength/make_othello_positions.py"))
    with tempfile.TemporaryDirectory() as folder:
        solver = made["compiled"](Path(folder))
        for row in range(0, 500, 50):  # of the longest
            position = othello.positions[row].copy()
            action = int(np.flatnonzero(othello.optimal[row])[0])
            position.play(action)
            if position.is_terminal:
                continue
            [results] = made["solve"](solver, [made["Candidate"](position, ())])
            best = max("LDW".index(letter) - 1 for letter in results)
            assert best == -othello.results[row, action]


def test_the_script_makes_the_committed_endgames() -> None:
    """Its first positions, which are made as the others are."""
    if shutil.which("g++") is None:
        pytest.skip("the solver is compiled with g++")
    made = runpy.run_path(str(ROOT / "benchmarks/strength/make_othello_positions.py"))
    committed = made["FILE"].read_text().splitlines(keepends=True)
    rng, game = random.Random(made["SEED"]), Game("othello", {"size": 6})
    drawn, seen = [], set()
    while len(drawn) < 12:
        candidate = made["draw_position"](rng, game, 13 + int(rng.random() * 4))
        if candidate is not None and (key := made["canonical"](candidate.position)) not in seen:
            seen.add(key)
            drawn.append(candidate)
    with tempfile.TemporaryDirectory() as folder:
        solved = made["solve"](made["compiled"](Path(folder)), drawn)
    lines = [f"empty_13_16\t{' '.join(one.moves)}\t{results}\n" for one, results in zip(drawn, solved, strict=True)
             if len(set(results)) > 1]
    assert len(lines) > 3
    assert committed[1 : 1 + len(lines)] == lines


def test_games_without_a_set() -> None:
    assert strength_set(Game("go")) is None
    assert strength_set(Game("othello")) is None, "only the small board has one"


@pytest.mark.parametrize("count", [1, 5, 6, 60, 300, 301])
def test_a_subset_is_always_the_same_and_balanced(connect_four: StrengthSet, count: int) -> None:
    some, again = connect_four.subset(count), connect_four.subset(count)
    assert len(some) == count
    assert [p.evaluation_key for p in some.positions] == [p.evaluation_key for p in again.positions]
    assert len({p.evaluation_key for p in some.positions}) == count
    sizes = np.bincount(some.buckets, minlength=6)
    assert sizes.max() - sizes.min() <= 1
    keys = {p.evaluation_key: row for row, p in enumerate(connect_four.positions)}
    rows = [keys[p.evaluation_key] for p in some.positions]
    assert (some.results == connect_four.results[rows]).all()


def test_a_subset_of_everything_is_the_set(tic_tac_toe: StrengthSet) -> None:
    assert tic_tac_toe.subset(4520) is tic_tac_toe
    assert not tic_tac_toe.subset(300).is_complete
    with pytest.raises(UsageError, match=r"strength\.positions=0"):
        tic_tac_toe.subset(0)


# ---- the measurement ----


def _scripted(positions: StrengthSet, plays_best: bool) -> ScriptedEvaluator:
    """Knows the result of every position of the set; prefers its best or its worst moves."""
    known = {}
    for position, results in zip(positions.positions, positions.results, strict=True):
        known[position.observation().tobytes()] = results

    def script(observation: NDArray[np.float32]) -> tuple[NDArray[np.float32], float]:
        results = known.get(observation.tobytes())
        if results is None:  # a position outside the set
            return np.zeros(positions.game.num_actions, np.float32), 0.0
        best = float(results.max())
        return results.astype(np.float32) * (8 if plays_best else -8), best if plays_best else -best

    return ScriptedEvaluator(positions.game, script)


def test_a_perfect_and_an_always_worst_network(connect_four: StrengthSet) -> None:
    perfect = share_of(connect_four, policy_actions(connect_four, [_scripted(connect_four, True)]))
    worst = share_of(connect_four, policy_actions(connect_four, [_scripted(connect_four, False)]))
    assert (perfect.optimal, perfect.mistakes) == (1.0, 0)
    assert (worst.optimal, worst.mistakes) == (0.0, 3000)
    assert set(perfect.by_bucket) == set(BUCKETS)


@pytest.mark.parametrize("policy", ["puct", "gumbel"])
def test_a_network_that_knows_tic_tac_toe_makes_no_mistake(tic_tac_toe: StrengthSet, policy: str) -> None:
    strength = measure(tic_tac_toe, [_scripted(tic_tac_toe, True)], make_search(policy), (64,))
    assert strength.policy.optimal == 1.0
    assert strength.searches[64].mistakes == 0
    assert strength.never_loses is True
    assert strength.to_json()["never_loses"] is True


def test_losing_play_is_seen_from_both_sides(tic_tac_toe: StrengthSet) -> None:
    worst = tic_tac_toe.results.astype(float)
    worst[~tic_tac_toe.legal] = np.inf
    assert not never_loses(tic_tac_toe, worst.argmin(axis=1))
    best = tic_tac_toe.results.argmax(axis=1)
    assert never_loses(tic_tac_toe, best)
    for side in (0, 1):  # perfect on one side, careless on the other
        careless = [p.to_play == side for p in tic_tac_toe.positions]
        assert not never_loses(tic_tac_toe, np.where(careless, worst.argmin(axis=1), best))


def test_never_loses_needs_the_whole_game(connect_four: StrengthSet) -> None:
    with pytest.raises(ValueError, match="connect_four is not the whole game"):
        never_loses(connect_four, connect_four.results.argmax(axis=1))


def test_an_illegal_action_is_named(tic_tac_toe: StrengthSet) -> None:
    actions = tic_tac_toe.results.argmax(axis=1)
    actions[1] = int(np.flatnonzero(~tic_tac_toe.legal[1])[0])
    with pytest.raises(ValueError, match="is illegal in position 1"):
        share_of(tic_tac_toe, actions)


@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four"])
def test_the_random_mover_is_the_brute_mean(name: str) -> None:
    positions = _set(name).subset(60)
    share = random_share(positions)
    means: dict[str, list[float]] = {}
    mistakes = 0.0
    for row, position in enumerate(positions.positions):
        legal = position.legal_actions
        best = max(positions.results[row, action] for action in legal)
        good = sum(positions.results[row, action] == best for action in legal)
        means.setdefault(positions.bucket_names[positions.buckets[row]], []).append(good / len(legal))
        mistakes += 1 - good / len(legal)
    assert share.by_bucket == pytest.approx({bucket: sum(m) / len(m) for bucket, m in means.items()})
    assert share.optimal == pytest.approx(sum(share.by_bucket.values()) / len(means))
    assert share.mistakes == pytest.approx(mistakes)


def test_the_baselines_of_connect_four_stand_where_they_should(connect_four: StrengthSet) -> None:
    shares = measure_baselines(connect_four)
    assert list(shares) == ["random", "puct_64_uniform", "uct_64", "uct_400"]
    assert shares["random"].optimal == pytest.approx(0.380, abs=0.001)
    assert shares["puct_64_uniform"].optimal == pytest.approx(0.668, abs=0.02)
    hard = shares["puct_64_uniform"].by_bucket["begin_hard"]
    assert hard > shares["random"].by_bucket["begin_hard"]  # ties are not all broken towards the first column
    assert shares["uct_64"].optimal == pytest.approx(0.755, abs=0.03)
    assert shares["uct_400"].optimal == pytest.approx(0.868, abs=0.02)


@pytest.mark.parametrize("policy", ["puct", "gumbel"])
def test_neither_batch_nor_threads_change_the_figures(
    connect_four: StrengthSet, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = connect_four.subset(60)
    evaluators = [PseudoRandomEvaluator(some.game, 512) for _ in range(3)]
    first = measure(some, evaluators[:1], make_search(policy), (16, 64))
    assert measure(some, evaluators, make_search(policy), (16, 64)) == first
    monkeypatch.setattr("shusaku.actors.arena.strength.BATCH", 7)
    assert measure(some, evaluators[:1], make_search(policy), (16, 64)) == first


def test_the_network_alone_is_averaged_if_the_search_is() -> None:
    """A network that sees columns differently then plays a position and its mirror image alike."""
    games = [[0, 1, 5], [2, 2, 6, 0], [4, 1, 1, 0, 3], [6, 5, 6]]
    game = Game("connect_four")
    pairs = []
    for moves in games:
        for mirrored in (False, True):
            position = game.start()
            for move in moves:
                position.play(6 - move if mirrored else move)
            pairs.append(position)
    some = StrengthSet(game, pairs, np.tile(np.array([1, 0, 0, 0, 0, 0, 0], np.int8), (len(pairs), 1)),
                       np.zeros(len(pairs), np.intp), ("all",))
    evaluate = PseudoRandomEvaluator(game, 8)
    alone = policy_actions(some, [evaluate])
    averaged = policy_actions(some, [evaluate], average_symmetries=True)
    assert averaged[1::2].tolist() == [6 - action for action in averaged[::2]]
    assert alone[1::2].tolist() != [6 - action for action in alone[::2]]
    share = measure(some, [evaluate], PuctConfig(average_symmetries=True), ()).policy
    assert share.optimal == np.mean(averaged == 0)


def test_noise_and_temperature_are_off() -> None:
    explores = PuctConfig(noise=True, temperature=1.0, temperature_half_life=9.0, temperature_final=0.15, reuse=True,
                          c_puct=2.5)
    search = strength_search(explores, 400)
    assert search == PuctConfig(simulations=400, noise=False, temperature=0.0, temperature_plies=0, c_puct=2.5)


def test_a_measurement_can_be_stopped(connect_four: StrengthSet) -> None:
    calls: Iterator[bool] = iter([False] * 5 + [True] * 100)
    with pytest.raises(StoppedError, match="of 60 positions"):
        measure(
            connect_four.subset(60), [UniformEvaluator(Game("connect_four"), 64)], PuctConfig(), (400,),
            should_stop=lambda: next(calls),
        )


def test_the_report_and_the_table(connect_four: StrengthSet) -> None:
    some = connect_four.subset(60)
    strength = measure(some, [UniformEvaluator(some.game, 64)], PuctConfig(), (16, 64), with_baselines=True)
    report = json.loads(json.dumps(strength.to_json()))
    assert set(report) == {"game", "positions", "policy", "search_16", "search_64", "baselines"}
    for entry in (report["policy"], report["search_16"], report["search_64"], *report["baselines"].values()):
        assert set(entry) == {"optimal", "by_bucket", "mistakes"}
        assert tuple(entry["by_bucket"]) == BUCKETS
        assert entry["optimal"] == pytest.approx(sum(entry["by_bucket"].values()) / 6)
    table = strength_table(strength)
    for text in ("network alone", "64 simulations", "random mover", "PUCT-64, uniform prior",
                 "plain UCT, 64 rollouts", "plain UCT, 400 rollouts", "medium", "60 positions"):
        assert text in table
    assert search_actions(some, [UniformEvaluator(some.game, 64)], PuctConfig(), 16).shape == (60,)


def test_the_table_of_tic_tac_toe(tic_tac_toe: StrengthSet) -> None:
    table = strength_table(measure(tic_tac_toe, [UniformEvaluator(tic_tac_toe.game, 512)], PuctConfig(), (16,)))
    assert "4,520 positions" in table
    assert "never loses" in table
    assert "mistakes" in table


@pytest.mark.long
def test_the_script_makes_the_committed_file() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
