"""8 queens by swaps: the share of seeds that the tree of `shusaku refine` solves, beside three ways without a tree.

    python -m benchmarks.strength.queens [--seeds 200] [--refinements 64] [--size 8] [--no-record]

Every way scores as many answers at most: one at first and one for each refinement.

    tree           TreeSearch with its defaults
    chain          each answer is refined, whatever its score
    best_of        independent first answers
    hill_climbing  a refinement is kept unless it is worse

The interval is Wilson's, of 95 %.
"""

import argparse
import shlex
import sys
import time

from benchmarks.lib import record
from shusaku.actors.arena.elo import wilson_interval
from shusaku.actors.refine import TreeSearch
from shusaku.actors.refine_tasks.queens import Queens

SOLVED = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--refinements", type=int, default=64)
    parser.add_argument("--size", type=int, default=8)
    parser.add_argument("--no-record", action="store_true", help="only print")
    options = parser.parse_args()
    ways = {}
    for name, solves in WAYS.items():
        began = time.process_time()
        solved = sum(solves(Queens(options.size, seed), options.refinements) for seed in range(options.seeds))
        seconds = time.process_time() - began
        low, high = wilson_interval(solved / options.seeds, options.seeds)
        ways[name] = {"solved": solved, "share": solved / options.seeds, "low": round(low, 4), "high": round(high, 4),
                      "seconds": round(seconds, 2)}
        print(f"{name:<14} {solved / options.seeds:.1%} [{low:.1%}, {high:.1%}] of {options.seeds} in {seconds:.1f} s")
    if not options.no_record:
        record("queens.jsonl", shlex.join(["python", "-m", "benchmarks.strength.queens", *sys.argv[1:]]),
               name=f"{options.seeds:,} seeds", size=options.size, seeds=options.seeds,
               refinements=options.refinements, ways=ways)


def tree(task: Queens, refinements: int) -> bool:
    search = TreeSearch(task, refinements)
    search.run()
    return search.ended_by == "solved"


def chain(task: Queens, refinements: int) -> bool:
    answer = task.first()
    for _ in range(refinements):
        if task.score(answer) == SOLVED:
            return True
        answer = task.refine(answer, task.critique(answer))
    return task.score(answer) == SOLVED


def best_of(task: Queens, refinements: int) -> bool:
    return any(task.score(task.first()) == SOLVED for _ in range(refinements + 1))


def hill_climbing(task: Queens, refinements: int) -> bool:
    answer = task.first()
    score = task.score(answer)
    for _ in range(refinements):
        if score == SOLVED:
            return True
        other = task.refine(answer, task.critique(answer))
        if (other_score := task.score(other)) >= score:
            answer, score = other, other_score
    return score == SOLVED


WAYS = {"tree": tree, "chain": chain, "best_of": best_of, "hill_climbing": hill_climbing}

if __name__ == "__main__":
    main()
