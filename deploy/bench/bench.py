"""`shusaku bench WHAT`: measures one part of the configuration that a training command would run."""

import importlib
import time
from dataclasses import replace
from typing import Any

from shusaku.common._core import GameBatch, external_names
from shusaku.common.config.rules import check_self_play
from shusaku.common.config.schema import Config, SelfPlayConfig, self_play_search
from shusaku.common.config.search import replace_read
from shusaku.common.external.configured_game import configured_game
from shusaku.common.network.row_labels import row_labels
from shusaku.common.search import search_options, self_play_options

_BENCHES = {  # module:function of deploy/bench, imported when it runs
    "rules": "rules:measure_rules",
    "search": "bench:measure_search",
    "inference": "inference:measure_inference",
    "selfplay": "bench:measure_any_selfplay",
    "replay": "bench:measure_replay",
    "learner": "learner:measure_learner",
}


def run(what: str, config: Config, as_json: bool) -> dict[str, Any]:
    """Measures for about `bench.seconds`, prints the results and returns them under the keys of DESIGN §9."""
    if what in ("search", "selfplay"):
        check_self_play(config)
    if what in ("inference", "learner"):
        from shusaku.deploy.run.devices import settle_here

        config = settle_here(config, keeps_shares=True)
    module, _, function = _BENCHES[what].partition(":")
    result: dict[str, Any] = getattr(importlib.import_module(f"shusaku.deploy.bench.{module}"), function)(config)
    if not as_json:
        for row in result.get("rows", [result]):
            print("  ".join(f"{name}={_shown(value)}" for name, value in row.items()))
        if "advice" in result:
            print(result["advice"]["text"])
    return result


def measure_search(config: Config) -> dict[str, Any]:
    """The tree alone: self-play with a pseudo-random evaluator, no cache, one thread, no Python in the loop.

    Openings and cheap searches of `self_play` are left out, so that every search is a full one.
    """
    game = configured_game(config.game)
    search = replace_read(self_play_search(config.search, config.self_play), cache=0)
    games = GameBatch(game, search_options(search, symmetries=True), config.actors.games, config.run.seed,
                      self_play_options(SelfPlayConfig()))
    some = 500 if game.name in external_names() else 200_000
    games.play_pseudo_random(some)  # warm-up
    before = games.counters()
    begin = time.perf_counter()
    while (seconds := time.perf_counter() - begin) < config.bench.seconds:
        games.play_pseudo_random(some)
    after = games.counters()
    rate = {name: (after[name] - before[name]) / seconds for name in after}
    return {"game": game.name, "policy": search.policy, "simulations": search.simulations,
            "simulations_per_s": rate["simulations"], "searches_per_s": rate["searches"]}


def measure_replay(config: Config) -> dict[str, Any]:
    """Appending whole games with validation, and sampling ready mini-batches, each on one thread."""
    from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
    from shusaku.actors.self_play import ActorIdentity, SelfPlay
    from shusaku.replay.backends import make_buffer

    game = configured_game(config.game)
    search = replace_read(config.search, simulations=8, cache=0)
    size = config.actors.games
    player = SelfPlay(game, search, config.self_play, PseudoRandomEvaluator(game, size), games=size, seed=1,
                      identity=ActorIdentity(0))
    replay = replace(config.replay, minimum=min(config.replay.minimum, config.replay.capacity - game.max_plies))
    buffer = make_buffer("memory", game, replay, batch_size=config.learner.batch_size, limited=False,
                         symmetries=config.learner.symmetries, labels=row_labels(game, config.learner))
    empty, appended, spent = buffer.stats().nbytes, 0, 0.0
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
    kept = (buffer.stats().nbytes - empty) / min(appended, replay.capacity)  # of games, if they are kept as moves
    return {"game": game.name, "appended_per_s": appended / spent, "sampled_per_s": sampled / seconds,
            "batch_size": config.learner.batch_size, "bytes_per_row": empty / replay.capacity + kept}


def measure_any_selfplay(config: Config) -> dict[str, Any]:
    """`measure_selfplay`, or `measure_served` if inference servers evaluate."""
    from shusaku.deploy.bench.selfplay import measure_selfplay
    from shusaku.deploy.bench.served import measure_served
    from shusaku.deploy.cluster.layout import placement_of
    from shusaku.deploy.run.devices import settle_here

    return measure_served(config) if placement_of(settle_here(config)) == "server" else measure_selfplay(config)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ",".join(f"{name}:{_shown(one)}" for name, one in value.items())
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.3g}" if abs(value) < 100 else f"{value:,.0f}"
