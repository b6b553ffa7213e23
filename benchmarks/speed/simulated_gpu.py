"""How full the batches of a GPU would be: actors play for an inference server whose GPU is simulated.

    python -m benchmarks.speed.simulated_gpu [--sizes 9 19] [--actors 4 8 12 16 32] [--repeats 3] [--record]
    python -m benchmarks.speed.simulated_gpu --games 64 128 256 512 --actors 16    # more games an actor

The GPU takes a + b rows for a batch, whether its rows are used or not: 1 ms and 15 us on 9x9, 2 ms and 45 us on 19x19.
`of_full_batches` is what it evaluates, of what it would evaluate in full batches without a pause; the bounds are 90 %
on 9x9 and 93 % on 19x19, medians of the repeats, with as many games an actor as auto takes.  More games an actor are to
lower evaluations/s by no more than 3 %.  Exits with 1 if a bound is missed.
"""

import argparse
import statistics
import sys

from benchmarks.lib import record, run_shusaku

FILE = "simulated_gpu.jsonl"
DEVICES = {9: (1, 15), 19: (2, 45)}  # board -> ms a batch, us a row
LEAST = {9: 0.90, 19: 0.93}
MOST_LOSS = 0.03


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[9, 19], choices=list(DEVICES))
    parser.add_argument("--actors", type=int, nargs="+", default=[4, 8, 12, 16, 32])
    parser.add_argument("--games", nargs="+", default=["auto"], help="of each actor")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--record", action="store_true", help=f"append each line to benchmarks/results/{FILE}")
    options = parser.parse_args()
    is_good = True
    for size in options.sizes:
        for actors in options.actors:
            best = 0.0
            for games in options.games:
                share, rate = measure(size, actors, games, options)
                is_good &= (share >= LEAST[size] or games != "auto") and rate >= (1 - MOST_LOSS) * best
                best = max(best, rate)
    sys.exit(not is_good)


def measure(size: int, actors: int, games: str, options: argparse.Namespace) -> tuple[float, float]:
    """Medians of the share of full batches and of evaluations/s."""
    batch_ms, row_us = DEVICES[size]
    arguments = [
        "bench", "selfplay", "game=go", f"game.size={size}", "inference.placement=server",
        "inference.runtime=simulated_gpu", f"inference.simulated_gpu_batch_ms={batch_ms}",
        f"inference.simulated_gpu_row_us={row_us}", f"actors.count={actors}", "actors.cpus=0.05",
        f"actors.games_per_actor={games}", f"bench.seconds={options.seconds:g}"]
    runs = [run_shusaku(arguments) for _ in range(options.repeats)]
    share, rate = (statistics.median(run[key] for run in runs) for key in ("of_full_batches", "evaluations_per_s"))
    shares = sorted(run["of_full_batches"] for run in runs)
    print(f"{size} x {size}, {actors} actors of {games} games: {share:.1%} of full batches ({shares[0]:.1%} to "
          f"{shares[-1]:.1%}), {rate:,.0f} evaluations/s, p99 of a request "
          f"{statistics.median(run['wait_p99_ms'] for run in runs):.0f} ms", flush=True)
    if options.record:
        record(FILE, " ".join(["shusaku", *arguments]), size=size, actors=actors, games=games, runs=runs)
    return share, rate


if __name__ == "__main__":
    main()
