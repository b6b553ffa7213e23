"""Self-play through Ray, before and after a change, beside plain processes: searches/s with the learner off.

    python -m benchmarks.cluster.ray_before_after OLD_CHECKOUT NEW_CHECKOUT [--rounds 10] [--seconds 30]

Both checkouts must be installed (`make install`).  A round measures four things, in an order that turns from round to
round: `train` of the old checkout, `train` of the new one with `cluster.quiet_ray=true` and with `false`, and the new
one's `bench selfplay`.  Each ratio is of two figures of the same round; its interval is that of the median.
"""

import argparse
import json
import statistics
from pathlib import Path

from benchmarks.cluster.cluster_selfplay import plain, through_ray
from benchmarks.lib import record
from benchmarks.speed.before_after import commit_of, median_interval

RATIOS = (("quiet_ray", "old"), ("quiet_ray", "plain"), ("ordinary_ray", "plain"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--figures", default="old,plain,quiet_ray,ordinary_ray", help="those that are measured")
    options = parser.parse_args()
    old, new = ([str(path.resolve() / ".venv" / "bin" / "shusaku")] for path in (options.old, options.new))
    figures = {
        "old": lambda: through_ray((), options.seconds, old),
        "plain": lambda: plain((), options.seconds, new),
        "quiet_ray": lambda: through_ray(("cluster.quiet_ray=true",), options.seconds, new),
        "ordinary_ray": lambda: through_ray(("cluster.quiet_ray=false",), options.seconds, new),
    }
    rounds: list[dict[str, float]] = []
    for number in range(options.rounds):
        names = options.figures.split(",")
        turned = names[number % len(names):] + names[: number % len(names)]
        rounds.append({name: round(figures[name](), 1) for name in turned})
        print(json.dumps(rounds[-1]), flush=True)
    values = intervals(rounds)
    print(json.dumps(values))
    command = f"python -m benchmarks.cluster.ray_before_after {commit_of(options.old)} {commit_of(options.new)}"
    record("before_after.jsonl", f"{command} --rounds {options.rounds} --seconds {options.seconds:g}",
           name="self-play through Ray", runs=rounds, intervals=values)


def intervals(rounds: list[dict[str, float]]) -> dict[str, list[float]]:
    """Of each ratio: the ends of its 95 % interval around its median, over the rounds that measured both figures."""
    found = {}
    for above, below in RATIOS:
        ratios = [rates[above] / rates[below] for rates in rounds if above in rates and below in rates]
        if ratios:
            low, high = median_interval(ratios)
            found[f"{above}_to_{below}"] = [round(low, 4), round(statistics.median(ratios), 4), round(high, 4)]
    return found


if __name__ == "__main__":
    main()
