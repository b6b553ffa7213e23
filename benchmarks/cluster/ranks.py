"""What a second rank of the learner is worth: rows a second of gradient steps, and games that are read and checked.

    python -m benchmarks.cluster.ranks [--ranks 2] [--rows 256] [--steps 60] [--games 60000]
        [--repeats 3] [--record] [overrides …]

Each rank is a process with one thread; one and several take turns, and the ratio is that of one turn.  Steps: every
rank has --rows ready rows of each mini-batch, so several learn from more rows a step.  As many learners that do not
talk to each other are the limit of the machine (`apart`): they share its memory and its clock, too.  Games: the ranks
read one full window of prepared games of self-play from one Redis, each its share, as the learner does at a start.
"""

import argparse
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import torch

from benchmarks.lib import record
from benchmarks.speed.redis_replay import BATCH, RUN, Client, begun_server, prepared
from shusaku.common.config.schema import ReplayConfig
from shusaku.common.external.configured_game import configured_game
from shusaku.deploy.bench.learner import WARM_UPS, learner_and_batch
from shusaku.deploy.cli.overrides import compose
from shusaku.learner.collectives import Collectives, open_store
from shusaku.learner.ranks import RankedLearner
from shusaku.replay.share import MOST, Share
from shusaku.replay.stream.buffer import RedisBuffer

FILE = "ranks.jsonl"
CONTEXT = get_context("spawn")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rows", type=int, default=256, help="of each rank in a step")
    parser.add_argument("--games", type=int, default=60_000, help="that are read and checked")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--record", action="store_true", help=f"append the result to benchmarks/results/{FILE}")
    parser.add_argument("overrides", nargs="*", default=["game=connect_four"])
    options = parser.parse_intermixed_args()
    runs = []
    for _ in range(options.repeats):
        rows = {ranks: rows_per_s(options.overrides, ranks, options.rows, options.steps)
                for ranks in (1, options.ranks)}
        apart = rows_per_s(options.overrides, options.ranks, options.rows, options.steps, is_apart=True)
        games = {ranks: games_per_s(options.overrides, ranks, options.games) for ranks in (1, options.ranks)}
        runs.append({"rows_per_s_of_one": rows[1], "rows_per_s": rows[options.ranks],
                     "rows_ratio": rows[options.ranks] / rows[1], "rows_ratio_apart": apart / rows[1],
                     "games_per_s_of_one": games[1],
                     "games_per_s": games[options.ranks], "games_ratio": games[options.ranks] / games[1]})
        print("  ".join(f"{name} {value:,.2f}" for name, value in runs[-1].items()), flush=True)
    for name in ("rows_ratio", "rows_ratio_apart", "games_ratio"):
        print(f"{name}: median {statistics.median(run[name] for run in runs):.2f}")
    if options.record:
        command = shlex.join(["python", "-m", "benchmarks.cluster.ranks", *sys.argv[1:]])
        record(FILE, command, ranks=options.ranks, rows=options.rows, games=options.games, runs=runs)


def rows_per_s(overrides: Sequence[str], ranks: int, rows: int, steps: int, *, is_apart: bool = False) -> float:
    """Of the steps of all ranks together, after the first few; `is_apart`: of learners that share nothing."""
    store = open_store("127.0.0.1")
    seconds = _in_processes(_step, [(list(overrides), store.port, rank, 1 if is_apart else ranks, rows, steps)
                                    for rank in range(ranks)])
    return steps * ranks * rows / max(seconds)


def _step(pipe: Connection, overrides: list[str], port: int, rank: int, ranks: int, rows: int, steps: int) -> None:
    torch.set_num_threads(1)
    config = compose([*overrides, f"learner.batch_size={rows}"])
    learner, batch = learner_and_batch(config)
    if ranks > 1:
        group = Collectives(open_store("127.0.0.1", port), rank, ranks)
        learner = RankedLearner(learner.network, configured_game(config.game), config.learner, group)
    for _ in range(WARM_UPS):
        learner.step(batch)
    begin = time.perf_counter()
    for _ in range(steps):
        learner.step(batch)
    pipe.send(time.perf_counter() - begin)


def games_per_s(overrides: Sequence[str], ranks: int, games: int) -> float:
    """Read, checked and held by all ranks together, from the first one read to the last."""
    game = configured_game(compose(list(overrides)).game)
    ready = prepared(game, min(games, 4096))
    rows = 2 * sum(one.rows for one in ready) * (games // len(ready) + 1)  # no game leaves before it is read
    with begun_server(rows) as server:
        client = Client(server.url, ready)
        while client.sequence < games:
            client.append_for(0.01)
        seconds = _in_processes(_read, [(list(overrides), server.url, rank, ranks, rows, client.sequence)
                                        for rank in range(ranks)])
    return client.sequence / max(seconds)


def _read(pipe: Connection, overrides: list[str], url: str, rank: int, ranks: int, rows: int, games: int) -> None:
    torch.set_num_threads(1)
    game = configured_game(compose(overrides).game)
    config = ReplayConfig(capacity=rows, minimum=rows // 2, window="fixed")
    begin = time.perf_counter()
    buffer = RedisBuffer(game, config, url=url, run_id=RUN, batch_size=BATCH, limited=False, background=False,
                         share=Share(rank, ranks))
    while (stats := buffer.stats()).games < games:
        pass  # each call reads on
    pipe.send(time.perf_counter() - begin)
    assert not stats.quarantined, stats.quarantined
    assert stats.accepted <= games // ranks + MOST, "only the own share is checked"
    buffer.close()


def _in_processes(job: Callable[..., None], arguments: Sequence[tuple[Any, ...]]) -> list[float]:
    """What each process says at its end; they run side by side."""
    ends, processes = [], []
    for one in arguments:
        here, there = CONTEXT.Pipe(duplex=False)
        processes.append(CONTEXT.Process(target=job, args=(there, *one)))
        processes[-1].start()
        there.close()
        ends.append(here)
    answers: list[float] = [end.recv() for end in ends]
    for process in processes:
        process.join()
    return answers


if __name__ == "__main__":
    main()
