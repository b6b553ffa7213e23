"""Two checkouts beside each other: alternating pairs of one figure, their ratio with its 95 % interval.

    python -m benchmarks.speed.before_after OLD_CHECKOUT NEW_CHECKOUT FIGURE [--pairs 10] [--seconds 30] [--cpus 0,1]

FIGURE is one of the names in FIGURES.  Both checkouts must be installed (`make install`).  Within a pair the order
changes from pair to pair, so that a drift of the machine's speed favours neither.  The interval is that of the median
by order statistics (no assumption about the distribution); a change is worse than a bound only if all of it is.
"""

import argparse
import json
import math
import statistics
import subprocess
from pathlib import Path

from benchmarks.lib import record

PLAIN_PUCT = ("search=puct", "search.noise=false", "search.simulations=64")
FIGURES = {  # name -> what `shusaku bench` measures, its overrides, and the key of the rate
    "selfplay": ("selfplay", ("game=connect_four", "network=small", *PLAIN_PUCT, "search.reuse=false",
                              "self_play.random_plies=0", "actors.games_per_actor=64"), "evaluations_per_s"),
    "searches": ("selfplay", ("experiment=connect_four",), "searches_per_s"),
    "tree": ("search", (*PLAIN_PUCT, "actors.games_per_actor=16"), "simulations_per_s"),
    "rules": ("rules", (), "moves_per_s"),
    "rules_go": ("rules", ("game=go", "game.size=9"), "moves_per_s"),
    "rules_chess": ("rules", ("game=chess",), "moves_per_s"),
    "learner": ("learner", ("network=small", "learner.threads=1"), "rows_per_s"),
    "preset_learner": ("learner", ("experiment=connect_four", "learner.threads=1"), "rows_per_s"),
    "append": ("replay", (), "appended_per_s"),
}
REDIS = "redis_append"  # the one figure that `shusaku bench` does not measure: the checkout's own script does
APPEND = """
import json, sys, tempfile
from pathlib import Path
sys.path[:0] = [".", "benchmarks"]
try:
    from benchmarks.speed import redis_replay as script
except ImportError:  # as its place was before
    import redis_replay as script
games = script.prepared(script.Game("connect_four"), 4096)
with tempfile.TemporaryDirectory() as directory:
    server = script.EmbeddedServer(Path(directory), max_megabytes=4096)
    server.start()
    script.RedisControl(server.url, script.RUN).begin(0, capacity=500_000, max_bytes=4 << 30, actors=0)
    print(json.dumps({"appended_per_s": script.Client(server.url, games).append_for(float(sys.argv[1]))}))
    server.stop()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("figure", choices=(*FIGURES, REDIS))
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--cpus", default="0,1")
    options = parser.parse_args()
    ratios = []
    for pair in range(options.pairs):
        order = [options.old, options.new] if pair % 2 == 0 else [options.new, options.old]
        rates = {checkout: rate(checkout, options.figure, options.seconds, options.cpus) for checkout in order}
        ratios.append(rates[options.new] / rates[options.old])
        print(f"{options.figure}: {rates[options.old]:,.0f} -> {rates[options.new]:,.0f}: {ratios[-1]:.3f}", flush=True)
    low, high = median_interval(ratios)
    old, new = commit_of(options.old), commit_of(options.new)
    values = {"ratio": round(statistics.median(ratios), 4), "low": round(low, 4), "high": round(high, 4)}
    print(json.dumps(values))
    record("before_after.jsonl", f"python -m benchmarks.speed.before_after {old} {new} {options.figure} "
           f"--pairs {options.pairs} --seconds {options.seconds:g}", name=options.figure, old=old, new=new,
           runs=[{"ratio": round(ratio, 4)} for ratio in ratios], **values)


def rate(checkout: Path, figure: str, seconds: float, cpus: str) -> float:
    """One measurement by the program of that checkout."""
    programs = checkout.resolve() / ".venv" / "bin"
    if figure == REDIS:
        key, command = "appended_per_s", [str(programs / "python"), "-c", APPEND, str(seconds)]
    else:
        what, overrides, key = FIGURES[figure]
        command = [str(programs / "shusaku"), "bench", what, *overrides, f"bench.seconds={seconds}", "--json"]
    command = ["taskset", "-c", cpus, *command]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=checkout)
    return float(json.loads(done.stdout.splitlines()[-1])[key])


def median_interval(values: list[float], confidence: float = 0.95) -> tuple[float, float]:
    """The narrowest symmetric pair of order statistics that holds the median with this probability (binomial)."""
    ordered, n = sorted(values), len(values)
    best = 0
    for rank in range(1, n // 2 + 1):
        outside = 2 * sum(math.comb(n, k) for k in range(rank)) / 2**n
        if 1 - outside >= confidence:
            best = rank - 1
    return ordered[best], ordered[n - 1 - best]


def commit_of(checkout: Path) -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=checkout, capture_output=True, text=True,
                          check=True)
    return done.stdout.strip()


if __name__ == "__main__":
    main()
