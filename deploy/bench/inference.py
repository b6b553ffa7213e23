"""`shusaku bench inference`: the network alone at every size of a batch, and what follows for a run."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from shusaku.actors.evaluators.evaluator import LARGEST_BATCH, BatchTooLargeError
from shusaku.actors.evaluators.factory import choose_runtime, network_maker
from shusaku.common.config.rules import PRECISIONS
from shusaku.common.config.schema import Config, InferenceConfig
from shusaku.common.errors import RunError
from shusaku.common.external.configured_game import configured_game
from shusaku.common.hardware import choose_precision
from shusaku.common.network.weights import random_weights
from shusaku.deploy.bench.raw_rate import raw_rate
from shusaku.deploy.cluster.layout import batch_buckets
from shusaku.deploy.run.calibration import with_scales

BATCHES = (1, 8, 16, 32, 64, 128, 256)  # of an actor, whose network computes on one core
ENOUGH = 0.95  # of the best rate: more parallel games are not worth the rest


def measure_inference(config: Config) -> dict[str, Any]:
    """The network alone, fed with full batches that are ready: every runtime and precision that this machine has."""
    game = configured_game(config.game)
    weights = random_weights(game, config.network, config.run.seed, version=1)
    choices = list(runtimes(config))
    is_gpu = config.inference.is_on_gpu
    batches = batch_buckets(LARGEST_BATCH) if is_gpu else BATCHES
    seconds = config.bench.seconds / (len(choices) * len(batches))
    if not is_gpu and any(runtime == "torch" for runtime, _ in choices):
        import torch

        torch.set_num_threads(1)  # as an actor has
    rows = []
    for runtime, precision in choices:
        # The usual one alone is what has to be asked for: the core may compute small towers for it.
        asked = config.inference.runtime if runtime == choose_runtime(config.inference)[0] else runtime
        inference = replace(config.inference, runtime=asked, precision=precision)
        try:
            loaded = with_scales(inference, game, config.network, weights)
        except RunError:
            if config.inference.precision != "auto":
                raise
            continue  # the quantisation error is too large here, and int8 was not asked for
        make = network_maker(game, inference, config.network)
        for batch in batches:
            try:
                evaluator = make(batch)
            except BatchTooLargeError:
                if batch == batches[0]:
                    raise
                break
            begin = time.perf_counter()
            evaluator.load(loaded)
            load_ms = (time.perf_counter() - begin) * 1000
            rate = raw_rate(evaluator, seconds)
            rows.append({"runtime": evaluator.runtime_name, "precision": evaluator.precision, "batch": batch,
                         "positions_per_s": rate, "batch_ms": 1000 * batch / rate, "load_ms": load_ms})
    return {"game": game.name, "rows": rows, "advice": advice(rows, is_gpu=is_gpu)}


def advice(rows: Sequence[Mapping[str, Any]], *, is_gpu: bool = False) -> dict[str, Any]:
    """The fastest runtime and precision, and the smallest batch with `ENOUGH` of its rate.

    A smaller batch means fewer parallel games, which end sooner and are played by newer weights.
    """
    best = max(rows, key=lambda row: row["positions_per_s"])
    same = [row for row in rows if (row["runtime"], row["precision"]) == (best["runtime"], best["precision"])]
    chosen = min((row for row in same if row["positions_per_s"] >= ENOUGH * best["positions_per_s"]),
                 key=lambda row: row["batch"])
    rate = f"{chosen['positions_per_s']:,.0f} positions/s"
    where = (f"inference.device=cuda, {rate} a GPU in batches of {chosen['batch']}, which actors.games_per_actor=auto "
             "fills" if is_gpu else f"actors.games_per_actor={chosen['batch']}, {rate} a core")
    runtime = "auto" if best["runtime"] == "core" else best["runtime"]
    text = f"advice: inference.runtime={runtime} inference.precision={best['precision']} {where}"
    if chosen is not best:
        share = chosen["positions_per_s"] / best["positions_per_s"]
        text += (f" ({share:.0%} of what batches of {best['batch']} reach; an answer takes "
                 f"{chosen['batch_ms']:.2g} instead of {best['batch_ms']:.2g} ms)")
    return {"runtime": best["runtime"], "precision": best["precision"], "games_per_actor": chosen["batch"],
            "text": text}


def runtimes(config: Config) -> Iterator[tuple[str, str]]:
    """Runtime and precision that can be had here, as far as the configuration leaves the choice."""
    wanted: InferenceConfig = config.inference
    for runtime in ("openvino", "torch") if wanted.runtime == "auto" else (wanted.runtime,):
        for precision in PRECISIONS[1:] if wanted.precision == "auto" else (wanted.precision,):
            is_native = choose_precision(precision, wanted.chosen_device, "").name == precision and (
                runtime == "openvino" or precision != "int8")
            is_installed = choose_runtime(replace(wanted, runtime=runtime))[0] == runtime
            if (is_native or wanted.precision != "auto") and (is_installed or wanted.runtime != "auto"):
                yield runtime, precision
