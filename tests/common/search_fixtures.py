"""Positions and evaluations that the tests of the search share."""

import numpy as np

from shusaku.actors.evaluators.evaluator import ScriptedEvaluator
from shusaku.common._core import GameBatch, SearchBatch
from shusaku.common.config.schema import SelfPlayConfig
from shusaku.common.config.search_options import search_options, self_play_options, step
from shusaku.common.messages import Leaves


def scripted(observation, num_actions):
    """Logits and value that any two readers of the same planes agree on."""
    random = np.random.default_rng(np.frombuffer(np.packbits(observation > 0).tobytes(), np.uint8))
    return random.normal(size=num_actions).astype(np.float32) * 1.5, float(np.float32(random.uniform(-1, 1)))


def random_positions(game, count, seed):
    random = np.random.default_rng(seed)
    positions = []
    while len(positions) < count:
        position = game.start()
        for _ in range(random.integers(0, game.max_plies - 2)):
            position.play(int(random.choice(position.legal_actions)))
            if position.is_terminal:
                break
        if not position.is_terminal:
            positions.append(position)
    return positions


def search_all(game, positions, config, seeds):
    """Searches of all positions side by side, each with its own seed."""
    evaluate = ScriptedEvaluator(game, lambda planes: scripted(planes, game.num_actions))
    batch = SearchBatch(game, search_options(config, symmetries=False), len(positions), 0)
    for slot, (position, seed) in enumerate(zip(positions, seeds, strict=True)):
        batch.begin(slot, position, seed)
    while not batch.is_done():
        step(batch, evaluate)
    return [batch.result(slot) for slot in range(len(positions))]


def late_positions(game, count, seed):
    """Random ones with few plies left, as a rule, so that a small search meets the ends of games."""
    random = np.random.default_rng(seed)
    positions = []
    while len(positions) < count:
        position, before = game.start(), []
        while not position.is_terminal:
            before.append(position.copy())
            position.play(int(random.choice(position.legal_actions)))
        positions.append(before[max(0, len(before) - int(random.integers(2, 7)))])
    return positions


def self_play_games(game, evaluate, options, size, games, interrupt=0, **self_play):
    """The first finished games, as tuples of actions, outcome and shares of the policies."""
    found, _ = batch_games(game, options, SelfPlayConfig(**self_play), evaluate, games, interrupt, size, seed=7)
    return [(tuple(g["actions"]), g["outcome"], tuple(g["policy_shares"])) for g in found]


def played_games(game, search, self_play, evaluate, games, interrupt=0, symmetries=True, size=8, seed=3):
    """Columns of the first games that ended, in `size` slots, and the totals of the batch."""
    options = search_options(search, symmetries=symmetries)
    return batch_games(game, options, self_play, evaluate, games, interrupt, size, seed)


def batch_games(game, options, self_play, evaluate, games, interrupt, size, seed):
    """The same for options of the core; after every `interrupt` steps a new batch goes on from a snapshot."""
    other = self_play_options(self_play)
    batch, finished, count = GameBatch(game, options, size, seed, other), [], 0
    while len(finished) < games:
        leaves = Leaves(*batch.select(evaluate.version))
        if len(leaves):
            answer = evaluate(leaves)
            batch.expand_and_backup(answer.logits, answer.values, answer.version)
        finished += batch.take_finished()
        count += 1
        if interrupt and count % interrupt == 0:
            snapshot = batch.snapshot()
            batch = GameBatch(game, options, size, seed, other)
            batch.restore(snapshot)
    return finished, batch.counters()


def assert_proofs_are_true(positions, results, known):
    """`known` [P, A]: the result of every action.  How many of the roots are proven."""
    roots = 0
    for position, result, truth in zip(positions, results, known, strict=True):
        values = truth[result.actions]
        for value, proven in zip(values, result.proven_values, strict=True):
            assert np.isnan(proven) or proven == value, str(position)
        if not np.isnan(result.proven_value):
            roots += 1
            assert result.proven_value == result.value == values.max(), str(position)
    return roots
