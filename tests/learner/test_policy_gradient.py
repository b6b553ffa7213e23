"""The gradient of an update is that of the expected outcome, whatever is taken at a time, and the policy improves."""

import copy
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from shusaku.actors.evaluators.network import NetworkEvaluator
from shusaku.actors.evaluators.torch_cpu import TorchRuntime
from shusaku.actors.policy_games.paired_games import WHOLE, PairedGames
from shusaku.actors.self_play import ActorIdentity
from shusaku.common._core import Game, Position
from shusaku.common.config.schema import LearnerConfig, NetworkConfig, ReplayConfig
from shusaku.common.config.search import make_search
from shusaku.common.errors import UsageError
from shusaku.common.hardware import Precision
from shusaku.common.messages import EndedBy, GameId, GameRecord, RowKind, Weights
from shusaku.common.network.network import Network
from shusaku.common.network.targets import make_targets
from shusaku.common.network.weights import random_weights, tower_shape
from shusaku.learner.opponent_pool import OpponentPool
from shusaku.learner.policy_gradient import Baseline, PolicyGradient, policy_rows
from shusaku.replay.buffer import Games, QueueOptions
from shusaku.replay.memory_buffer import MemoryBuffer

HEX = Game("hex", {"size": 2})  # 4 cells: all its games can be listed
NETWORK = NetworkConfig(filters=8, blocks=1, value_hidden=16)
CONFIG = LearnerConfig(
    targets=["policy"], precision="fp32", optimizer="sgd", momentum=0.0, weight_decay=0.0, learning_rate=0.05,
    warmup_steps=0, max_grad_norm=0.0, ema_decay=0.0, publish_every=1, prefetch=0, symmetries=False, batch_size=1024)

pytestmark = pytest.mark.usefixtures("one_thread")


@dataclass
class Line:
    """A whole game, and log p of its moves under the policies that drew them."""

    record: GameRecord
    log_share: float  # of the opponent's moves


def lines(game: Game, opponent: Network, learner: int) -> Iterator[Line]:
    """Every game in which the policy that learns has this side."""
    yield from _lines(game, game.start(), opponent, learner, [], [], 0.0)


def _lines(
    game: Game, position: Position, opponent: Network, learner: int, actions: list[int], learns: list[bool],
    log_share: float,
) -> Iterator[Line]:
    if position.is_terminal:
        outcome = position.outcome if position.to_play == 0 else -position.outcome
        yield Line(record_of(game, actions, learns, outcome), log_share)
        return
    is_learner = position.to_play == learner
    policy = None if is_learner else log_policy(opponent, position)
    for action in position.legal_actions:
        after = position.copy()
        after.play(action)
        share = 0.0 if policy is None else float(policy[action])
        yield from _lines(game, after, opponent, learner, [*actions, action], [*learns, is_learner], log_share + share)


def record_of(game: Game, actions: list[int], learns: list[bool], outcome: int) -> GameRecord:
    plies, mask = len(actions), np.array(learns)
    return GameRecord(
        game=game.name, params=game.params, game_id=GameId(0, 0, 0, 0), config_hash="", outcome=outcome,
        score=math.nan, ended_by=EndedBy.RULES, actions=np.array(actions, np.uint16),
        policy_offsets=np.concatenate([[0], np.cumsum(mask)]).astype(np.uint32),
        policy_actions=np.array(actions, np.uint16)[mask], policy_shares=np.full(int(mask.sum()), WHOLE, np.uint16),
        root_values=np.zeros(plies, np.float32), raw_values=np.zeros(plies, np.float32),
        versions=np.ones(plies, np.uint32), kind=np.full(plies, RowKind.FULL, np.uint8),
        row_weight=mask.astype(np.float32), surprise=np.zeros(plies, np.float32))


def log_policy(network: Network, position: Position) -> torch.Tensor:
    """log p [A] over the legal actions, in the numbers of the network's own precision."""
    dtype = next(network.parameters()).dtype
    logits = network(torch.from_numpy(position.observation()[None]).to(dtype))["policy"][0]  # [A]
    mask = torch.full_like(logits, -torch.inf)
    mask[position.legal_actions] = 0
    return torch.log_softmax(logits + mask, 0)


def games_of(records: list[GameRecord]) -> Games:
    return Games(tuple(records), np.ones(len(records), np.uint32))


def policy_gradient(
    tmp_path: Path, game: Game = HEX, config: LearnerConfig = CONFIG, seed: int = 3, **options: Any
) -> PolicyGradient:
    network = Network(game.observation_shape, game.num_actions, NETWORK, make_targets(config), seed=99)
    start, random = random_weights(game, NETWORK, seed, version=1), np.random.default_rng(seed)
    # No activation is exactly 0, where the slope of ReLU is a matter of taste.
    tensors = {name: tensor + 0.1 * random.random(tensor.shape).astype(np.float32)
               for name, tensor in start.tensors.items()}
    start = replace(start, tensors=tensors)
    return PolicyGradient(network, game, config, start=start, pool=OpponentPool(tmp_path), **options)


def gradient(learner: PolicyGradient, games: Games) -> NDArray[np.float64]:
    """Of the loss of these games, all parameters end to end."""
    learner._optimizer.zero_grad(set_to_none=True)
    learner._differentiate_games(games)
    return flat([parameter.grad for parameter in learner.network.parameters()])


def flat(tensors: list[Any]) -> NDArray[np.float64]:
    return np.concatenate([tensor.detach().double().numpy().ravel() for tensor in tensors])


def expected_outcome(network: Network, games: list[tuple[Line, int]]) -> float:
    """E[z] for the policy that learns, by listing every game."""
    total, cache = 0.0, {}
    for line, learner in games:
        position, log_share = HEX.start(), line.log_share
        for action in line.record.actions.tolist():
            if position.to_play == learner:
                key = tuple(position.observation().ravel().tolist())
                if key not in cache:
                    cache[key] = log_policy(network, position)
                log_share += float(cache[key][action])
            position.play(action)
        sign = 1 if learner == 0 else -1
        total += math.exp(log_share) * sign * line.record.outcome
    return total


@pytest.fixture
def all_games() -> list[tuple[Line, int]]:
    """Every game of hex on 2 x 2 of both sides, against an opponent that never changes."""
    opponent = Network(HEX.observation_shape, HEX.num_actions, NETWORK, make_targets(CONFIG), seed=7).eval()
    with torch.no_grad():
        return [(line, side) for side in (0, 1) for line in lines(HEX, opponent, side)]


@pytest.mark.parametrize("with_baseline", [False, True])
def test_the_mean_over_all_games_is_the_gradient_of_the_expected_outcome(
    tmp_path: Path, all_games: list[tuple[Line, int]], with_baseline: bool
) -> None:
    """By central differences of E[z], computed in double precision from a list of every game."""
    baseline = Baseline(random_weights(HEX, NETWORK, 11), "cpu") if with_baseline else None
    learner = policy_gradient(tmp_path, baseline=baseline)
    exact = copy.deepcopy(learner.network).double().eval()
    parameters = list(exact.parameters())
    with torch.no_grad():
        shares = []
        for line, side in all_games:
            only = expected_outcome(exact, [(replace_outcome(line, 1 if side == 0 else -1), side)])
            shares.append(only)
        assert math.isclose(sum(shares), 2.0, rel_tol=1e-6), "the shares of all games, of both sides"
    estimate = np.zeros(sum(parameter.numel() for parameter in parameters))
    for share, (line, _) in zip(shares, all_games, strict=True):
        estimate -= share * gradient(learner, games_of([line.record]))
    random, step = np.random.default_rng(5), 1e-6
    for _ in range(3):
        direction = [torch.from_numpy(random.normal(size=tuple(parameter.shape))) for parameter in parameters]
        slope = 0.0
        with torch.no_grad():
            for sign in (1, -1):
                for parameter, part in zip(parameters, direction, strict=True):
                    parameter.add_(part, alpha=sign * step)
                slope += sign * expected_outcome(exact, all_games) / (2 * step)
                for parameter, part in zip(parameters, direction, strict=True):
                    parameter.sub_(part, alpha=sign * step)
        assert float(estimate @ flat(direction)) == pytest.approx(slope, rel=1e-3, abs=1e-4)
        assert abs(slope) > 1e-3, "a direction along which something changes"


def replace_outcome(line: Line, outcome: int) -> Line:
    return Line(replace(line.record, outcome=outcome), line.log_share)


def test_the_gradient_is_the_mean_over_games_however_many_rows_are_taken_at_a_time(
    tmp_path: Path, all_games: list[tuple[Line, int]]
) -> None:
    records = [line.record for line, _ in all_games[:: len(all_games) // 9]]
    whole = gradient(policy_gradient(tmp_path), games_of(records))
    for size in (2, 3, 7):
        parts = gradient(policy_gradient(tmp_path, config=replace(CONFIG, batch_size=size)), games_of(records))
        np.testing.assert_allclose(parts, whole, rtol=1e-4, atol=1e-6)
    learner = policy_gradient(tmp_path)
    each = [gradient(learner, games_of([record])) for record in records]
    np.testing.assert_allclose(np.mean(each, axis=0), whole, rtol=1e-4, atol=1e-6)


def test_the_value_of_the_baseline_is_subtracted_from_the_outcome(
    tmp_path: Path, all_games: list[tuple[Line, int]]
) -> None:
    value = random_weights(HEX, NETWORK, 11)
    learner = policy_gradient(tmp_path, baseline=Baseline(value, "cpu"))
    line, side = all_games[5]
    evaluator = evaluator_of(HEX, value)
    tower = learner._baseline
    assert tower is not None
    assert evaluator.version == 0
    position, expected = HEX.start(), np.zeros_like(gradient(learner, games_of([line.record])))
    for action in line.record.actions.tolist():
        if position.to_play == side:
            z = line.record.outcome if side == 0 else -line.record.outcome
            b = float(tower.values(position.observation()[None])[0])
            learner.network.zero_grad()
            (-log_policy(learner.network, position)[action] * (z - b)).backward()
            expected += flat([parameter.grad for parameter in learner.network.parameters()])
        position.play(action)
    np.testing.assert_allclose(gradient(learner, games_of([line.record])), expected, rtol=1e-4, atol=1e-6)


def test_rows_are_the_moves_of_the_policy_that_learns(all_games: list[tuple[Line, int]]) -> None:
    records = [line.record for line, _ in all_games]
    rows = list(policy_rows(HEX, tuple(records), 5))
    assert all(len(part) == 5 for part in rows[:-1])
    assert sum(len(part) for part in rows) == sum(record.num_rows for record in records)
    actions = np.concatenate([part.actions for part in rows])
    assert actions.tolist() == list(itertools.chain(*(r.actions[r.row_weight > 0].tolist() for r in records)))
    assert all(part.legal[np.arange(len(part)), part.actions].all() for part in rows)
    assert sum(int(part.is_first.sum()) for part in rows) == len(records)


def test_an_update_whose_gradient_is_not_finite_changes_nothing(
    tmp_path: Path, all_games: list[tuple[Line, int]]
) -> None:
    learner = policy_gradient(tmp_path)
    with torch.no_grad():
        next(learner.network.parameters()).fill_(torch.nan)
    before = flat(list(learner.network.parameters())[1:])
    assert not learner.step(games_of([all_games[0][0].record]))
    assert learner.skipped_steps == 1
    assert learner.step_count == 0
    assert np.array_equal(before, flat(list(learner.network.parameters())[1:]))


def test_a_start_of_another_network_is_refused(tmp_path: Path) -> None:
    network = Network(HEX.observation_shape, HEX.num_actions, NETWORK, make_targets(CONFIG))
    start = random_weights(HEX, replace(NETWORK, filters=4), 1)
    with pytest.raises(UsageError, match="another network"):
        PolicyGradient(network, HEX, CONFIG, start=start, pool=OpponentPool(tmp_path))


def evaluator_of(game: Game, weights: Weights) -> NetworkEvaluator:
    evaluator = NetworkEvaluator(game, TorchRuntime(tower_shape(game, NETWORK), 64, Precision("fp32", "test")))
    evaluator.load(weights)
    return evaluator


def test_a_policy_of_tic_tac_toe_beats_the_one_that_it_began_with(tmp_path: Path) -> None:
    """Paired games, a queue and updates, without any driver; then 400 games against the start, moves drawn.

    With ten times the step a policy is certain of its moves after 20 updates, and what it then has is chance: 0.49 to
    0.75 over seeds and lengths; with this one 0.70 to 0.76.
    """
    game, games = Game("tic_tac_toe"), 64
    search = make_search("policy_only", temperature_plies=0, temperature_final=1.0, cache=0)
    pool = OpponentPool(tmp_path, every=10)
    learner = policy_gradient(tmp_path, game, replace(CONFIG, learning_rate=0.01))
    learner._pool = pool
    start = learner.publish(1)
    assert start is not None
    buffer = MemoryBuffer(game, ReplayConfig(capacity=20_000), batch_size=64, queue=QueueOptions(games, 4, games))
    evaluators = [evaluator_of(game, start), evaluator_of(game, start)]
    pairs = PairedGames(game, search, evaluators, pool.draw, games=games, seed=1, identity=ActorIdentity(0))
    weights = start
    for version in range(2, 82):
        pool.offer(weights)
        buffer.record_version(weights.version)
        pairs.load(weights)
        for record in pairs.play(1):
            buffer.append(record)
        batch = buffer.sample(0, 0)
        assert isinstance(batch, Games)
        assert batch.versions.tolist() == [weights.version] * games
        assert learner.step(batch)
        published = learner.publish(version)
        assert published is not None
        weights = published
    metrics = learner.metrics()
    assert metrics["reinforce/kl_start"] > 0
    assert metrics["reinforce/pool"] == pytest.approx(4.5, abs=0.6)
    assert buffer.stats().too_old == 0
    assert buffer.stats().samples_per_position == 1
    arena = PairedGames(game, search, evaluators, lambda random: start, games=400, seed=2, identity=ActorIdentity(0))
    arena.load(weights)
    records = arena.play(1)
    outcomes = [record.outcome if record.row_weight[0] > 0 else -record.outcome for record in records]
    assert len(outcomes) == 400
    assert (1 + np.mean(outcomes)) / 2 >= 0.65
