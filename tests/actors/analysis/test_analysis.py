"""The search that can be watched: limits, reports, subtrees, threads."""

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from shusaku.actors.analysis.analysis import Analysis, Limits, Report
from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.common._core import Game, Position
from shusaku.common.config.search import GumbelConfig, MctsConfig, PolicyOnlyConfig, PuctConfig, SearchConfig
from shusaku.common.messages import Evaluation, Leaves


def make(
    name: str = "go", threads: int = 1, leaves: int = 16, search: SearchConfig | None = None, **params: int
) -> Analysis:
    game = Game(name, params or ({"size": 5} if name == "go" else {}))
    return Analysis(game, [PseudoRandomEvaluator(game, 16) for _ in range(threads)], search or PuctConfig(),
                    leaves=leaves)


def search(analysis: Analysis, limits: Limits) -> Report:
    analysis.start(limits)
    assert analysis.wait(120)
    return analysis.report()


@pytest.fixture(params=[1, 3])
def analysis(request: pytest.FixtureRequest) -> Iterator[Analysis]:
    made = make(threads=request.param)
    yield made
    made.close()


def check(report: Report) -> None:
    """What every report holds to, at any moment."""
    assert sum(move.visits for move in report.moves) == report.simulations
    for move in report.moves:
        assert move.variation[0] == move.action
        assert len(move.variation) == len(move.variation_visits)
        assert move.variation_visits[0] == move.visits
        assert list(move.variation_visits) == sorted(move.variation_visits, reverse=True)
        assert -1 <= move.lower_bound <= 1
        assert -1 <= move.value <= 1
        assert move.lower_bound <= move.value


def test_a_fixed_number_of_simulations(analysis: Analysis) -> None:
    report = search(analysis, Limits(simulations=200, to_the_end=True))
    assert (report.ended, report.simulations) == ("simulations", 200)
    check(report)
    assert sorted(move.action for move in report.moves) == analysis.position.legal_actions
    assert report.moves[0].visits == max(move.visits for move in report.moves)
    assert report.moves[0].move == analysis.position.to_move(report.moves[0].action)
    assert sum(move.prior for move in report.moves) == pytest.approx(1, abs=1e-2)


def test_a_fixed_number_counts_what_was_kept(analysis: Analysis) -> None:
    first = search(analysis, Limits(simulations=300, to_the_end=True))
    analysis.advance(first.moves[0].action)
    kept = analysis.report()
    assert kept.simulations == first.moves[0].visits - 1
    second = search(analysis, Limits(simulations=400, to_the_end=True))
    assert second.simulations == 400
    assert search(analysis, Limits(simulations=100, to_the_end=True)).simulations == 400  # there are more already


def test_runs_until_stop(analysis: Analysis) -> None:
    analysis.start(Limits())
    assert not analysis.wait(0.2)
    assert analysis.report().ended == ""
    for call in (lambda: analysis.start(Limits()), lambda: analysis.advance(0), analysis.clear,
                 lambda: analysis.set_position(analysis.position)):
        with pytest.raises(RuntimeError, match="call stop"):
            call()
    report = analysis.stop()
    assert report.ended == "stop"
    assert report.simulations > 0
    assert report.seconds >= 0.2
    assert analysis.stop().simulations == report.simulations


def test_ends_by_the_clock(analysis: Analysis) -> None:
    begin = time.monotonic()
    report = search(analysis, Limits(seconds=0.2, to_the_end=True))
    assert 0.2 <= time.monotonic() - begin < 5
    assert report.ended == "time"


def test_no_time_at_all_is_one_evaluation(analysis: Analysis) -> None:
    report = search(analysis, Limits(seconds=0))
    assert report.ended == "time"
    assert len({move.prior for move in report.moves}) > 1  # of the network
    assert report.moves[0].prior == max(move.prior for move in report.moves)


def test_only_some_actions_are_searched(analysis: Analysis) -> None:
    search(analysis, Limits(simulations=100))
    before = {move.action: move.visits for move in analysis.report().moves}
    report = search(analysis, Limits(simulations=64, actions=(3, 7), to_the_end=True))
    after = {move.action: move.visits for move in report.moves}
    assert {action for action in after if after[action] != before[action]} <= {3, 7}
    assert after[3] + after[7] == 64
    assert report.moves[0].action in (3, 7)
    assert report.moves[1].action in (3, 7)
    assert len(report.moves) == 26
    with pytest.raises(ValueError, match="illegal action 99"):
        analysis.start(Limits(actions=(99,)))


def test_ends_early_if_the_best_move_is_decided() -> None:
    """A forced win: connect four with three in a column."""
    analysis = make("connect_four", threads=2)
    for column in (3, 0, 3, 0, 3, 1):
        analysis.advance(column)
    report = search(analysis, Limits(simulations=20_000))
    assert report.ended == "decided"
    assert report.moves[0].action == 3
    most, second = sorted((move.visits for move in report.moves), reverse=True)[:2]
    assert most - second > 20_000 - report.simulations - 64  # in flight when it was seen
    assert report.simulations < 15_000
    analysis.close()


def test_a_single_action_is_decided_at_once() -> None:
    analysis = make()
    report = search(analysis, Limits(seconds=60, actions=(4,)))
    assert report.ended == "decided"
    assert report.moves[0].action == 4
    analysis.start(Limits(actions=(4,)))  # but who asks for no end gets none
    assert not analysis.wait(0.2)
    analysis.stop()
    analysis.close()


def test_a_proven_position_ends() -> None:
    analysis = make("tic_tac_toe", search=PuctConfig(proven_results=True))
    for cell in (4, 0, 3, 8):  # 5 wins
        analysis.advance(cell)
    report = search(analysis, Limits())
    assert (report.ended, report.value, report.moves[0].action) == ("proven", 1, 5)
    analysis.close()


def exact(position: Position) -> int:
    """For the player to move."""
    if position.is_terminal:
        return int(position.outcome)
    return max(-exact(after(position, action)) for action in position.legal_actions)


def after(position: Position, action: int) -> Position:
    position = position.copy()
    position.play(action)
    return position


def test_a_tree_that_was_searched_without_some_moves_is_not_kept_for_them() -> None:
    """As an analysis of some moves, and then a game goes on: their visits would play the best of these."""
    analysis = make("connect_four")
    for column in (3, 0, 3, 0, 3, 1):  # a fourth in column 3 wins
        analysis.advance(column)
    for others in ((0, 1), (0,)):  # the second may keep the tree of the first
        report = search(analysis, Limits(simulations=200, actions=others, to_the_end=True))
        assert report.moves[0].action in others
        assert report.simulations == 200
        visited = [move for move in report.moves if move.visits and move.action in others]
        mean = sum(move.visits * move.value for move in visited) / sum(move.visits for move in visited)
        assert report.value == pytest.approx(mean, abs=1e-4), "of these moves, not of the win"
    report = search(analysis, Limits(simulations=200, to_the_end=True))
    assert (report.moves[0].action, report.simulations) == (3, 200)
    report = search(analysis, Limits(simulations=100, actions=(0, 1), to_the_end=True))
    assert report.value < 0.9, "the win's visits are kept, and not counted"
    analysis.close()


@pytest.mark.parametrize("cells", [(4, 0, 3, 8), (0, 4, 8, 2), (4, 0, 1)])  # X has a win, O has one, X will
def test_what_is_proven_by_another_move_says_nothing_of_the_allowed_ones(cells: tuple[int, ...]) -> None:
    analysis = make("tic_tac_toe", search=PuctConfig(proven_results=True))
    for cell in cells:
        analysis.advance(cell)
    position = analysis.position
    values = {action: -exact(after(position, action)) for action in position.legal_actions}
    assert search(analysis, Limits()).ended == "proven"
    for left in ([action for action in values if values[action] < max(values.values())], list(values)[:2]):
        if not left:
            continue
        report = search(analysis, Limits(actions=tuple(left)))
        assert report.ended == "proven"
        assert report.moves[0].action in left
        assert report.value == values[report.moves[0].action] == max(values[action] for action in left)
    report = search(analysis, Limits())
    assert (report.ended, report.value) == ("proven", max(values.values()))
    assert values[report.moves[0].action] == report.value
    analysis.close()


def test_a_full_tree_ends() -> None:
    game = Game("go", {"size": 19})
    analysis = Analysis(game, [PseudoRandomEvaluator(game, 16)], PuctConfig(cache=0), megabytes=4)
    report = search(analysis, Limits())
    assert report.ended == "memory"
    assert analysis.tree_bytes / report.simulations <= 1024
    assert report.simulations > 3000
    analysis.close()


def test_positions(analysis: Analysis) -> None:
    analysis.advance(12)
    assert analysis.position.ply == 1
    with pytest.raises(ValueError, match="illegal action 12"):
        analysis.advance(12)
    assert analysis.position.ply == 1
    position = analysis.game.start()
    position.play(1), position.play(2)
    analysis.set_position(position)
    position.play(3)  # the analysis has its own copy
    assert analysis.position.ply == 2
    analysis.advance(25)
    analysis.advance(25)
    with pytest.raises(ValueError, match="the game is over"):
        analysis.start(Limits(simulations=1))
    over = analysis.report()
    assert (over.moves, over.value) == ((), analysis.position.outcome)
    with pytest.raises(ValueError, match="another game"):
        analysis.set_position(Game("tic_tac_toe").start())


def test_a_position_that_follows_keeps_the_subtree() -> None:
    analysis = make("chess")
    report = search(analysis, Limits(simulations=800, to_the_end=True))
    line = report.moves[0].variation[:2]
    position = analysis.position
    for action in line:
        position.play(action)
    analysis.set_position(position)
    assert analysis.report().simulations == report.moves[0].variation_visits[1] - 1
    analysis.set_position(position)
    assert analysis.report().simulations == report.moves[0].variation_visits[1] - 1
    other = analysis.game.start()
    for move in ("a2a3", "h7h6", "b2b3"):
        other.play(other.from_move(move))
    analysis.set_position(other)
    assert analysis.report().simulations == 0
    analysis.close()


def test_clear_forgets(analysis: Analysis) -> None:
    first = search(analysis, Limits(simulations=100, to_the_end=True))
    analysis.clear()
    assert analysis.report().simulations == 0
    if len(analysis._evaluators) == 1:
        again = search(analysis, Limits(simulations=100, to_the_end=True))
        assert [move.visits for move in again.moves] == [move.visits for move in first.moves]


def test_one_thread_is_deterministic_over_a_game() -> None:
    games = []
    for _ in range(2):
        analysis, moves = make(leaves=8), []
        for _ in range(12):
            report = search(analysis, Limits(simulations=150, to_the_end=True))
            moves.append([(move.action, move.visits, move.value) for move in report.moves])
            analysis.advance(report.moves[0].action)
        games.append(moves)
        analysis.close()
    assert games[0] == games[1]


@pytest.mark.parametrize(("threads", "leaves", "simulations"), [(1, 16, 400), (2, 16, 400), (4, 64, 400), (2, 16, 20)])
def test_few_leaves_are_in_flight(threads: int, leaves: int, simulations: int) -> None:
    analysis = make(threads=threads, leaves=leaves, size=9)
    search(analysis, Limits(simulations=simulations, to_the_end=True))
    most = max(1, simulations // 16)
    assert analysis.most_in_flight <= most
    assert analysis.most_in_flight >= min(most, leaves) // 2 or threads > 1
    analysis.clear()
    report = search(analysis, Limits(seconds=0.2, to_the_end=True))
    assert analysis.most_in_flight <= max(1, report.simulations // 16)
    analysis.close()


def test_reports_while_it_searches() -> None:
    analysis = make("go", threads=2, size=9)
    analysis.start(Limits())
    reports: list[Report] = []
    end = threading.Event()

    def watch() -> None:
        while not end.is_set():
            reports.append(analysis.report())

    watchers = [threading.Thread(target=watch) for _ in range(2)]
    for watcher in watchers:
        watcher.start()
    time.sleep(0.5)
    last = analysis.stop()
    end.set()
    for watcher in watchers:
        watcher.join()
    for report in reports:
        check(report)
    assert len({report.simulations for report in reports}) > 3
    assert max(report.simulations for report in reports) <= last.simulations
    assert analysis.report().moves == last.moves
    analysis.close()


def test_any_order_of_calls_while_others_watch() -> None:
    """A thousand random calls: only the documented errors come, and each report agrees with itself."""
    analysis, moves = make("connect_four", threads=2, leaves=4), random.Random(1)
    end, faults = threading.Event(), []

    def watch() -> None:
        try:
            while not end.is_set():
                check(analysis.report())
        except BaseException as error:
            faults.append(error)

    watcher = threading.Thread(target=watch)
    watcher.start()
    calls: list[Callable[[], object]] = [
        lambda: analysis.start(Limits()), lambda: analysis.start(Limits(simulations=moves.randrange(200))),
        lambda: analysis.start(Limits(seconds=moves.random() / 100)), analysis.stop, analysis.report, analysis.clear,
        lambda: analysis.advance(moves.randrange(7)), lambda: analysis.wait(0.001),
        lambda: analysis.set_position(analysis.game.start()),
    ]
    errors = set()
    for _ in range(1000):
        try:
            moves.choice(calls)()
        except (RuntimeError, ValueError) as error:
            errors.add(str(error).split(": ")[0].split("() ")[-1].rstrip("0123456789 "))
    end.set()
    watcher.join()
    assert faults == []
    assert errors <= {"while a search runs", "illegal action", "the game is over in this position"}
    analysis.close()
    analysis.close()


class FailingEvaluator(PseudoRandomEvaluator):
    """Fails, or answers nonsense, after some calls."""

    def __init__(self, game: Game, answer: float | None) -> None:
        super().__init__(game, 16)
        self._calls, self._nonsense = itertools.count(), answer

    def __call__(self, leaves: Leaves) -> Evaluation:
        evaluation = super().__call__(leaves)
        if next(self._calls) == 5:
            if self._nonsense is None:
                raise OSError("the network is gone")
            evaluation.values[:] = self._nonsense
        return evaluation


@pytest.mark.parametrize(("nonsense", "error"), [(None, OSError), (float("nan"), ValueError)])
def test_what_a_network_raises_comes_out(nonsense: float | None, error: type[Exception]) -> None:
    game = Game("go", {"size": 5})
    evaluators = [FailingEvaluator(game, nonsense), PseudoRandomEvaluator(game, 16)]
    analysis = Analysis(game, evaluators, PuctConfig())
    analysis.start(Limits())
    with pytest.raises(error, match="the network"):
        analysis.wait(60)
    check(analysis.report())
    assert analysis.report().ended == "stop"
    assert search(analysis, Limits(simulations=600, to_the_end=True)).ended == "simulations"
    analysis.close()


class HeadsEvaluator(PseudoRandomEvaluator):
    """Has an ownership and a score head: what `heads` makes of the planes [B, C, H, W]."""

    def __init__(self, game: Game) -> None:
        super().__init__(game, 16)
        self._game = game

    def __call__(self, leaves: Leaves) -> Evaluation:
        evaluation = super().__call__(leaves)
        planes = np.empty((len(leaves), *self._game.observation_shape), np.float32)
        self._game.expand(leaves.packed, leaves.uniform, planes)
        ownership, score = self.heads(planes)
        return Evaluation(evaluation.logits, evaluation.values, evaluation.version,
                          {"ownership": ownership, "score": score})

    def heads(self, planes: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Ownership [B, H, W] and score [B], for the player to move."""
        raise NotImplementedError


class OwnerEvaluator(HeadsEvaluator):
    """Black (first) owns all cells of column 0 and leads by three points."""

    def heads(self, planes: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        sign = 2 * planes[:, -1, 0, 0] - 1  # the last plane: black is to move
        ownership = np.zeros_like(planes[:, 0])
        ownership[:, :, 0] = sign[:, None]
        return ownership, 3 * sign


def test_ownership_and_score_are_for_the_player_to_move() -> None:
    game = Game("go", {"size": 5})
    analysis = Analysis(game, [OwnerEvaluator(game), OwnerEvaluator(game)], PuctConfig())
    for sign in (1, -1, 1):
        report = search(analysis, Limits(simulations=100, to_the_end=True))
        assert report.score == pytest.approx(3 * sign)
        assert report.ownership is not None
        np.testing.assert_allclose(report.ownership, np.eye(1, 5)[[0] * 5] * sign, atol=1e-6)
        analysis.clear()
        analysis.advance(report.moves[0].action)
    analysis.close()


def test_ownership_stays_with_its_position() -> None:
    game = Game("go", {"size": 5})
    analysis = Analysis(game, [OwnerEvaluator(game)], PuctConfig())
    before = search(analysis, Limits(simulations=40, to_the_end=True))
    analysis.set_position(game.start())
    again = search(analysis, Limits(simulations=40, to_the_end=True))
    assert again.simulations == before.simulations
    assert (again.score, again.ownership is not None) == (before.score, True)
    analysis.set_position(after(game.start(), before.moves[0].action))
    assert analysis.report().ownership is None
    analysis.close()


class CornerEvaluator(HeadsEvaluator):
    """Who has a stone in the first corner leads by ten points; nobody else leads."""

    def heads(self, planes: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return np.zeros_like(planes[:, 0]), 10 * (planes[:, 0, 0, 0] - planes[:, 8, 0, 0])


def test_the_score_of_some_moves_is_of_them_alone() -> None:
    game = Game("go", {"size": 5})
    analysis = Analysis(game, [CornerEvaluator(game)], PuctConfig())
    search(analysis, Limits(simulations=600, to_the_end=True))
    of_all = search(analysis, Limits(simulations=600, actions=(0,), to_the_end=True)).score
    analysis.clear()
    alone = search(analysis, Limits(simulations=600, actions=(0,), to_the_end=True)).score
    assert alone is not None
    assert alone > 5
    assert of_all == pytest.approx(alone, abs=1.5)
    analysis.close()


def test_gumbel_is_itself_with_a_fixed_number_only() -> None:
    analysis = make("connect_four", threads=2, search=GumbelConfig())
    report = search(analysis, Limits(simulations=64))
    assert (report.ended, report.simulations) == ("simulations", 64)
    assert len([move for move in report.moves if move.visits]) == 7  # sequential halving looks at all of them
    by_clock = search(analysis, Limits(seconds=0.1))
    assert by_clock.ended in ("time", "decided")
    assert by_clock.simulations > 64
    analysis.close()


def test_gumbel_leaves_a_full_report_to_the_tree() -> None:
    game = Game("go", {"size": 5})
    analysis = Analysis(game, [OwnerEvaluator(game)], GumbelConfig())
    report = search(analysis, Limits(simulations=64, to_the_end=True, full_report=True))
    check(report)
    assert (report.ended, report.score) == ("simulations", pytest.approx(3))
    assert report.ownership is not None
    assert search(analysis, Limits(simulations=64, to_the_end=True)).ownership is None  # gumbel itself
    analysis.close()


@pytest.mark.parametrize("config", [MctsConfig(), PolicyOnlyConfig(), GumbelConfig()])
def test_policies_without_a_shared_tree(config: SearchConfig) -> None:
    analysis = make("connect_four", search=config)
    report = search(analysis, Limits(simulations=100))
    assert report.ended == "simulations"
    assert len(report.moves) == 7
    assert report.simulations == (0 if isinstance(config, PolicyOnlyConfig) else 100)
    if isinstance(config, MctsConfig):
        analysis.start(Limits())
        assert not analysis.wait(0.1)
        assert analysis.report().simulations > 0
        assert analysis.stop().ended == "stop"
        assert search(analysis, Limits(seconds=0.1)).ended == "time"
    analysis.close()
