"""Positions and evaluations that the tests of the search share."""

import numpy as np

from actors.evaluators import ScriptedEvaluator
from common._core import GameBatch, SearchBatch
from common.config import SelfPlayConfig
from common.messages import Leaves
from common.search import search_options, self_play_options, step


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


def self_play_games(game, evaluate, options, size, games, interrupt=None, **self_play):
    """The first finished games of every slot, as sets of action sequences; `interrupt` steps between snapshots."""
    other = self_play_options(SelfPlayConfig(**self_play))
    batch, finished, count = GameBatch(game, options, size, 7, other), [], 0
    while len(finished) < games:
        leaves = Leaves(*batch.select(evaluate.version))
        if len(leaves):
            answer = evaluate(leaves)
            batch.expand_and_backup(answer.logits, answer.values, answer.version)
        finished += [(tuple(g["actions"]), g["outcome"], tuple(g["policy_shares"])) for g in batch.take_finished()]
        count += 1
        if interrupt and count % interrupt == 0:
            snapshot = batch.snapshot()
            batch = GameBatch(game, options, size, 7, other)
            batch.restore(snapshot)
    return finished


def played_games(game, search, self_play, evaluate, games, interrupt=0, symmetries=True, size=8):
    """Columns of the first games that ended, in `size` slots, and the totals of the batch; snapshots as above."""
    options, other = search_options(search, symmetries=symmetries), self_play_options(self_play)
    batch, finished, count = GameBatch(game, options, size, 3, other), [], 0
    while len(finished) < games:
        leaves = Leaves(*batch.select(0))
        if len(leaves):
            answer = evaluate(leaves)
            batch.expand_and_backup(answer.logits, answer.values, 0)
        finished += batch.take_finished()
        count += 1
        if interrupt and count % interrupt == 0:
            snapshot = batch.snapshot()
            batch = GameBatch(game, options, size, 3, other)
            batch.restore(snapshot)
    return finished, batch.counters()
