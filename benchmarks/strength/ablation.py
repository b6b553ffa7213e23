"""What each method is worth: connect four, plain AlphaZero against the same with one method more, at equal cost.

    python -m benchmarks.strength.ablation [--methods plain gumbel ...] [--seeds 1 2 3] [--millions 1 2 4]

Every run is cut after so many millions of network evaluations of self-play, measured on the whole set of positions
and then goes on to the next cut.  A line of results/ablation.jsonl for each; what stands there is not run again.
"""

import argparse
import json
import os
from pathlib import Path

from benchmarks.lib import read_results, record, run_shusaku
from benchmarks.strength.methods import METHODS, PLAIN
from shusaku.actors.arena.strength import measure
from shusaku.actors.arena.strength_sets import strength_set
from shusaku.actors.evaluators.factory import make_evaluator
from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.run.chosen_weights import choose_weights

RESULTS = "ablation.jsonl"
SIMULATIONS = 64  # of the search that is measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--millions", nargs="+", type=float, default=[1, 2, 4])
    parser.add_argument("--runs", type=Path, default=Path("runs/ablation"))
    asked = parser.parse_args()
    for seed in asked.seeds:  # all methods with one seed first: a part of the table says something early
        for method in asked.methods:
            for millions in sorted(asked.millions):
                train(method, seed, millions, asked.runs / f"{method.replace(',', '').replace(' ', '_')}_{seed}")


def settings_of(method: str) -> list[str]:
    """PLAIN, changed by the method; gumbel draws its moves itself and so has no temperature."""
    settings = [*PLAIN, *METHODS[method]]
    return [one for one in settings if "search=gumbel" not in settings or not one.startswith("search.temperature")]


def train(method: str, seed: int, millions: float, directory: Path) -> None:
    """Goes on to `millions` of evaluations and notes how strong the network is there."""
    known = [(line["method"], line["seed"], line["millions"]) for line in read_results(RESULTS)]
    if (method, seed, millions) in known:
        return
    overrides = [
        "experiment=connect_four", *settings_of(method), f"run.dir={directory}", f"run.seed={seed}",
        f"run.evaluations={round(millions * 1e6)}", "run.minutes=100000", "strength.enabled=false",
    ]
    summary = run_shusaku(["local", *overrides])
    if summary["evaluations"] > 1.02e6 * millions:
        raise SystemExit(f"{directory} went on to {summary['evaluations']:,} evaluations, so its network says nothing "
                         f"of {millions:g} M; ask for all cuts at once, from the first one on, with another --runs")
    policy, search = strength_of(directory)
    line = {
        "method": method, "seed": seed, "millions": millions, "policy": policy, f"search_{SIMULATIONS}": search,
        **{name: summary[name] for name in ("evaluations", "games", "rows", "steps", "seconds")},
    }
    record(RESULTS, f"python -m benchmarks.strength.ablation --methods {method!r} --seeds {seed}", **line)
    print(json.dumps(line), flush=True)


def strength_of(directory: Path) -> tuple[float, float]:
    """Share of optimal moves of the network alone, and of PUCT with it: one search for all, so nets are compared."""
    config = compose([f"checkpoint={directory}", "experiment=connect_four", "search=puct", "search.noise=false",
                      "search.solved_empties=0"])
    chosen = choose_weights(config)
    evaluators = []
    for _ in range(len(os.sched_getaffinity(0))):
        evaluators.append(make_evaluator(chosen.game, config.inference, chosen.network, config.actors.games))
        evaluators[-1].load(chosen.weights)
    positions = strength_set(chosen.game)
    assert positions is not None
    strength = measure(positions, evaluators, config.search, (SIMULATIONS,))
    return strength.policy.optimal, strength.searches[SIMULATIONS].optimal


if __name__ == "__main__":
    main()
