"""Games written in Python, through the adapter: the same games as in C++, players who move twice, threads, memory."""

import gc
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from external_fixtures import Board, Pile, Takeaway, TicTacToe, python_game, records, solve
from search_fixtures import plain_game_batch

from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator, UniformEvaluator
from shusaku.common._core import Game, RowRing, SearchBatch, perft, random_games
from shusaku.common.config.search import PuctConfig, make_search
from shusaku.common.external.loader import CACHED_STATES
from shusaku.common.messages import Leaves
from shusaku.common.search import search_options


def assert_equal_records(first, second):
    assert len(first) == len(second)
    for one, other in zip(first, second, strict=True):
        assert one.keys() == other.keys()
        for key in one:
            np.testing.assert_array_equal(one[key], other[key], err_msg=key)


# --- the same game as the core's -----------------------------------------------------------------------------------


def test_python_tic_tac_toe_is_the_cores_move_by_move():
    ours, theirs = Game("tic_tac_toe"), python_game(TicTacToe)
    assert theirs.num_symmetries == ours.num_symmetries == 8
    assert [perft(theirs.start(), depth) for depth in range(7)] == [perft(ours.start(), depth) for depth in range(7)]
    for seed in range(30):
        rng, a, b = np.random.default_rng(seed), ours.start(), theirs.start()
        while True:
            assert (a.ply, a.to_play, a.is_terminal, a.is_cut_off) == (b.ply, b.to_play, b.is_terminal, b.is_cut_off)
            assert a.legal_actions == b.legal_actions
            assert str(a) == str(b)
            for symmetry in range(8):
                np.testing.assert_array_equal(a.observation(symmetry), b.observation(symmetry))
            if a.is_terminal:
                break
            action = int(rng.choice(a.legal_actions))
            assert a.to_move(action) == b.to_move(action)
            a.play(action)
            b.play(b.from_move(b.to_move(action)))
        assert a.outcome == b.outcome
        assert np.isnan(b.score)


@pytest.mark.parametrize("policy", ["puct", "gumbel", "mcts"])
def test_self_play_through_the_adapter_gives_the_very_same_records(policy):
    assert_equal_records(records(Game("tic_tac_toe"), policy, 20), records(python_game(TicTacToe), policy, 20))


def test_a_cache_too_small_for_a_game_changes_nothing_but_the_time():
    class Forgetful(TicTacToe):
        cached_states = 16

    for policy in ("puct", "mcts"):
        assert_equal_records(records(python_game(Forgetful), policy, 12), records(python_game(TicTacToe), policy, 12))


def test_records_of_a_python_game_are_replayed_and_sampled():
    game = python_game(TicTacToe)
    ring, expected = RowRing(game, 500), RowRing(Game("tic_tac_toe"), 500)
    for columns in records(game, "puct", 20):
        assert ring.append(SimpleNamespace(**columns)) == expected.append(SimpleNamespace(**columns)) > 0
    rows, other = ring.sample(128, 0, ring.end, 1, True, 2), expected.sample(128, 0, ring.end, 1, True, 2)
    for key in rows:
        np.testing.assert_array_equal(rows[key], other[key], err_msg=key)
    columns = records(game, "puct", 1)[0]
    with pytest.raises(ValueError, match="outcome"):
        ring.append(SimpleNamespace(**columns | {"outcome": 1 if columns["outcome"] < 1 else -1}))


def test_open_games_are_saved_and_go_on_in_another_process_world():
    """Positions are their own history: a snapshot needs none of the states of the game that made it."""
    options = search_options(PuctConfig(simulations=10, cache=0), symmetries=True)
    finished = []
    for stop_after in (None, 15):
        game = python_game(TicTacToe)
        batch, evaluate, found = plain_game_batch(game, options, 3, 5), PseudoRandomEvaluator(game, 3), []
        for step in range(400):
            if step == stop_after:
                bytes_ = batch.snapshot()
                game = python_game(TicTacToe)
                batch, evaluate = plain_game_batch(game, options, 3, 5), PseudoRandomEvaluator(game, 3)
                batch.restore(bytes_)
            leaves = Leaves(*batch.select(0))
            if len(leaves):
                answer = evaluate(leaves)
                batch.expand_and_backup(answer.logits, answer.values, 0)
            found += batch.take_finished()
        finished.append(found)
    assert len(finished[0]) > 5
    assert_equal_records(*finished)


# --- who moves twice -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["puct", "mcts"])
@pytest.mark.parametrize("pile", range(4, 13))
def test_searches_find_what_wins_where_players_move_twice(policy, pile):
    rules, game = Takeaway(pile), python_game(Takeaway, pile=pile)
    state, position = rules.start(), game.start()
    if pile % 2:  # also from within a turn
        state = rules.play(state, 1)
        position.play(1)
    config = make_search(policy, simulations=1500, noise=False, temperature_plies=0)
    batch = SearchBatch(game, search_options(config, symmetries=False), 1, 1)
    batch.begin(0, position, 3)
    evaluate = UniformEvaluator(game, 1)
    while not batch.is_done():
        leaves = Leaves(*batch.select(0))
        if len(leaves):
            answer = evaluate(leaves)
            batch.expand_and_backup(answer.logits, answer.values, 0)
    result, value = batch.result(0), solve(rules, state)
    after = rules.play(state, result.action)
    reached = solve(rules, after) * (1 if rules.to_play(after) == rules.to_play(state) else -1)
    assert reached == value
    assert result.value * value > 0.4
    for action, q in zip(result.actions, result.q_values, strict=True):
        after = rules.play(state, int(action))
        sign = 1 if rules.to_play(after) == rules.to_play(state) else -1
        if q == q and abs(q) > 0.5:
            assert np.sign(q) == sign * solve(rules, after)


# --- positions -----------------------------------------------------------------------------------------------------


def test_positions_are_values_and_outlive_the_cache():
    game = python_game(type("Small", (TicTacToe,), {"cached_states": 16}))
    position = game.start()
    for action in (4, 0, 8):
        position.play(action)
    copy, drawn = position.copy(), str(position)
    copy.play(2)
    random_games(game, 200, 1)  # everything else pushed out
    assert str(position) == drawn
    assert (copy.ply, position.ply) == (4, 3)
    assert position.legal_actions == [1, 2, 3, 5, 6, 7]
    assert copy.evaluation_key != position.evaluation_key
    del game
    gc.collect()
    assert position.legal_actions == [1, 2, 3, 5, 6, 7]


def test_evaluation_keys_follow_the_observation_and_transposition_keys_the_future():
    class Keyed(TicTacToe):
        def transposition_key(self, state):
            return hash(state.stones) - 2**70

    plain, keyed = python_game(TicTacToe), python_game(Keyed)
    for game, transposes in ((plain, False), (keyed, True)):
        a, b = game.start(), game.start()
        for action in (0, 1, 2):
            a.play(action)
        for action in (2, 1, 0):
            b.play(action)
        assert a.evaluation_key == b.evaluation_key
        assert (a.transposition_key == b.transposition_key) == transposes


@pytest.mark.parametrize(("numpys", "same"), [(np.uint64(2), 2), (np.int64(-3), -3), (np.uint64(2**64 - 1), 2**64 - 1)])
def test_a_transposition_key_may_be_a_number_of_numpy(numpys, same):
    keys = [python_game(type("Keyed", (TicTacToe,), {"transposition_key": lambda self, s, key=key: key}))
            .start().transposition_key for key in (numpys, same)]
    assert keys[0] == keys[1]


def test_positions_are_set_up_from_text():
    game = python_game(TicTacToe)
    position = game.position("XO./.X./...")
    assert (position.to_play, position.ply) == (1, 0)
    position.play(8)
    random_games(python_game(type("Small", (TicTacToe,), {"cached_states": 16})), 10, 1)
    assert str(position) == "X O .\n. X .\n. . O\n"
    batch = SearchBatch(python_game(TicTacToe), search_options(PuctConfig(), symmetries=True), 1, 1)
    batch.begin(0, position, 1)
    with pytest.raises(ValueError, match="of another game"):
        SearchBatch(python_game(Takeaway), search_options(PuctConfig(), symmetries=True), 1, 1).begin(0, position, 1)
    for text, reason in (("XO", "no board of nine"), ("", "no text"), ("X" * 2000, "2000 bytes")):
        with pytest.raises(ValueError, match=reason):
            game.position(text)
    with pytest.raises(ValueError, match=r"no method parse\(text\)"):
        python_game(Takeaway).position("7")


@pytest.mark.parametrize("plies", [500, 513, 4097])
def test_long_games_have_room(plies):
    class Long(Takeaway):
        max_plies, observation_shape = plies, (1, 1, 1)

        def start(self):
            return Pile(plies, 0, False)

        def legal_actions(self, state):
            return [1] if state.left else []

        def observation(self, state):
            return np.array([[[state.player]]])

    game, position = python_game(Long), python_game(Long).start()
    while not position.is_terminal:
        position.play(1)
    assert position.ply == plies
    assert random_games(game, 2, 1) == 2 * plies
    columns = records(game, "puct", 1)[0] if plies == 500 else None
    assert columns is None or RowRing(game, 600).append(SimpleNamespace(**columns)) > 490


# --- threads and memory --------------------------------------------------------------------------------------------


def test_threads_play_at_once_and_calls_into_the_game_do_not_overlap():
    class Watched(TicTacToe):
        inside = overlaps = 0
        threads: set[int] = set()  # noqa: RUF012

        def play(self, state, action):
            cls = type(self)
            cls.threads.add(threading.get_ident())
            cls.overlaps += cls.inside
            cls.inside += 1
            time.sleep(0)  # gives the GIL away
            try:
                return super().play(state, action)
            finally:
                cls.inside -= 1

    game, alone = python_game(Watched), records(python_game(TicTacToe), "puct", 4)
    with ThreadPoolExecutor(3) as pool:
        runs = [pool.submit(records, game, "puct", 4) for _ in range(3)]
        while not all(run.done() for run in runs):
            random_games(game, 1, time.monotonic_ns())
            game.start().play(4)  # by a thread that holds the GIL, too
            time.sleep(0.002)
        for run in runs:
            assert_equal_records(run.result(), alone)
    assert Watched.overlaps == 0
    assert len(Watched.threads) >= 2


class Counted:
    """A state that knows how many of it there are."""

    alive = 0

    def __init__(self, board):
        self.board = board
        Counted.alive += 1

    def __del__(self):
        Counted.alive -= 1


class Counting(TicTacToe):
    cached_states = 100

    def start(self):
        return Counted(Board())

    def play(self, state, action):
        return Counted(super().play(state.board, action))


for _name in ("to_play", "is_terminal", "outcome", "legal_actions", "observation", "render"):
    setattr(Counting, _name, lambda self, state, _name=_name: getattr(TicTacToe, _name)(
        self, state.board if isinstance(state, Counted) else state))


def test_memory_is_bounded_however_many_games_are_played():
    Counted.alive = 0
    game = python_game(Counting)
    for seed in range(5):
        random_games(game, 100, seed)
        records(game, "puct", 10)
        assert 90 <= Counted.alive <= 102  # the cache, the start, and one on its way
    del game
    gc.collect()
    assert Counted.alive == 0
    assert CACHED_STATES < 10_000
