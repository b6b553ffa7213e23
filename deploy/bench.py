"""`shusaku bench WHAT`: measures one part of the configuration that a training command would run."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from common._core import Game, GameBatch, foreign_names
from common.config import Config, InferenceConfig
from common.config_rules import check_self_play
from common.errors import UsageError
from common.row_labels import row_labels
from common.search import search_options

BATCHES = (1, 8, 32, 64, 128, 256)  # of `bench inference`


def run(what: str, config: Config, as_json: bool) -> dict[str, Any]:
    """Measures for about `bench.seconds`, prints the figures and returns them under the keys of DESIGN §9."""
    if what in ("search", "selfplay"):
        check_self_play(config)
    result = _BENCHES[what](config)
    if not as_json:
        for row in result.get("rows", [result]):
            print("  ".join(f"{name}={_shown(value)}" for name, value in row.items()))
    return result


def _rules(config: Config) -> dict[str, Any]:
    from deploy.bench_rules import measure_rules

    return measure_rules(config)


def _search(config: Config) -> dict[str, Any]:
    """The tree alone: self-play with a pseudo-random evaluator, no cache, one thread, no Python in the loop.

    Openings and cheap searches of `self_play` are left out, so that every search is a full one.
    """
    game = _game(config)
    search = replace(config.search, cache=0)
    games = GameBatch(game, search_options(search, symmetries=True), config.actors.games_per_actor, config.run.seed)
    some = 500 if game.name in foreign_names() else 200_000
    games.play_pseudo_random(some)  # warm-up
    before = games.counters()
    begin = time.perf_counter()
    while (seconds := time.perf_counter() - begin) < config.bench.seconds:
        games.play_pseudo_random(some)
    after = games.counters()
    rate = {name: (after[name] - before[name]) / seconds for name in after}
    return {"game": game.name, "policy": search.policy, "simulations": search.simulations,
            "simulations_per_s": rate["simulations"], "searches_per_s": rate["searches"]}


def _inference(config: Config) -> dict[str, Any]:
    """The network alone, fed with full batches that are ready: every runtime and precision that this machine has."""
    from actors.evaluators import make_network_evaluator, raw_rate
    from common.weights import random_weights

    game = _game(config)
    weights = random_weights(game, config.network, config.run.seed, version=1)
    choices = list(_runtimes(config))
    seconds = config.bench.seconds / (len(choices) * len(BATCHES))
    rows = []
    for runtime, precision in choices:
        inference = replace(config.inference, runtime=runtime, precision=precision)
        for batch in BATCHES:
            evaluator = make_network_evaluator(game, inference, config.network, batch)
            begin = time.perf_counter()
            evaluator.load(weights)
            load_ms = (time.perf_counter() - begin) * 1000
            rate = raw_rate(evaluator, seconds)
            rows.append({"runtime": runtime, "precision": precision, "batch": batch, "positions_per_s": rate,
                         "load_ms": load_ms})
    return {"game": game.name, "rows": rows}


def _runtimes(config: Config) -> Iterator[tuple[str, str]]:
    """Runtime and precision that can be had here, as far as the configuration leaves the choice."""
    from actors.evaluators import make_network_evaluator

    wanted: InferenceConfig = config.inference
    for runtime in ("openvino", "torch") if wanted.runtime == "auto" else (wanted.runtime,):
        for precision in ("fp32", "bf16") if wanted.precision == "auto" else (wanted.precision,):
            try:
                inference = replace(wanted, runtime=runtime, precision=precision)
                make_network_evaluator(_game(config), inference, config.network, 1)
            except UsageError:
                continue
            yield runtime, precision


def _replay(config: Config) -> dict[str, Any]:
    """Appending whole games with validation, and sampling ready mini-batches, each on one thread."""
    from actors.evaluators import PseudoRandomEvaluator
    from actors.self_play import ActorIdentity, SelfPlay
    from replay.buffer import make_buffer

    game = _game(config)
    search = replace(config.search, simulations=8, cache=0)
    size = config.actors.games_per_actor
    player = SelfPlay(game, search, config.self_play, PseudoRandomEvaluator(game, size), games=size, seed=1,
                      identity=ActorIdentity(0))
    replay = replace(config.replay, minimum=min(config.replay.minimum, config.replay.capacity - game.max_plies))
    buffer = make_buffer("memory", game, replay, batch_size=config.learner.batch_size, limited=False,
                         symmetries=config.learner.symmetries, labels=row_labels(game, config.learner))
    appended, spent = 0, 0.0
    while spent < config.bench.seconds / 2 or buffer.stats().rows < replay.minimum:
        records = player.play(5000)
        begin = time.perf_counter()
        for record in records:
            buffer.append(record)
        spent += time.perf_counter() - begin
        appended += sum(record.num_rows for record in records)
    sampled, begin = 0, time.perf_counter()
    while (seconds := time.perf_counter() - begin) < config.bench.seconds / 2:
        batch = buffer.sample(config.learner.batch_size, sampled)
        assert batch is not None
        sampled += len(batch)
    return {"game": game.name, "appended_per_s": appended / spent, "sampled_per_s": sampled / seconds,
            "batch_size": config.learner.batch_size, "bytes_per_row": buffer.stats().nbytes / replay.capacity}


def _learner(config: Config) -> dict[str, Any]:
    """Gradient steps on mini-batches that are ready."""
    import torch

    from common.network import Network
    from common.targets import make_targets
    from learner.learner import Learner
    from replay.buffer import Batch

    game = _game(config)
    threads = config.learner.threads or len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    network = Network(
        game.observation_shape, game.num_actions, config.network, make_targets(config.learner), config.run.seed
    )
    learner = Learner(network, game, config.learner)
    random, size = np.random.default_rng(1), config.learner.batch_size
    ones, board = np.ones(size, np.float32), game.observation_shape[1:]
    labels = row_labels(game, config.learner)
    policy = random.dirichlet(np.ones(game.num_actions), size).astype(np.float32)
    batch = Batch(
        observations=random.integers(0, 2, (size, *game.observation_shape)).astype(np.float32),
        policy=policy, outcome=random.integers(-1, 2, size).astype(np.float32), root_values=ones, weight=ones,
        plies_left=ones, versions=np.ones(size, np.uint32), rows=np.arange(size, dtype=np.int64), reply=policy,
        short_term=np.zeros((size, len(labels.horizons)), np.float32), ownership=np.ones((size, *board), np.float32),
        score=ones,
    )
    for _ in range(3):
        learner.step(batch)
    steps, begin = 0, time.perf_counter()
    while (seconds := time.perf_counter() - begin) < config.bench.seconds:
        learner.step(batch)
        steps += 1
    return {"game": game.name, "threads": threads, "batch_size": size, "steps_per_s": steps / seconds,
            "rows_per_s": steps * size / seconds}


def _selfplay(config: Config) -> dict[str, Any]:
    from deploy.bench_selfplay import measure_selfplay

    return measure_selfplay(config)


def _game(config: Config) -> Game:
    return Game(config.game.name, config.game.params)


def _shown(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.3g}" if abs(value) < 100 else f"{value:,.0f}"


_BENCHES: dict[str, Callable[[Config], dict[str, Any]]] = {
    "rules": _rules,
    "search": _search,
    "inference": _inference,
    "selfplay": _selfplay,
    "replay": _replay,
    "learner": _learner,
}
