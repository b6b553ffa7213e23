"""What each method is worth: connect four, plain AlphaZero against the same with one method more, at equal cost.

    ablation.py run [--methods plain gumbel ...] [--seeds 1 2 3] [--millions 1 2 4]
    ablation.py table docs/results/ablation.md

Every run is cut after so many millions of network evaluations of self-play, measured on the whole set of positions
and then goes on to the next cut.  A line of results/ablation.jsonl for each; what stands there is not run again.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from shusaku.actors.arena.strength import measure
from shusaku.actors.arena.strength_sets import strength_set
from shusaku.actors.evaluators.factory import make_evaluator
from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.run.chosen_weights import choose_weights

RESULTS = Path(__file__).resolve().parents[1] / "results" / "ablation.jsonl"
SIMULATIONS = 64  # of the search that is measured

# AlphaZero as published where it is about the method (PUCT, noise, z, every move of a game a row, heads of two and one
# filters), and the preset's tower, openings and learner, which all of them share.
PLAIN = (
    "search=puct", "search.simulations=64", "search.proven_results=false", "search.temperature_plies=12",
    "replay.surprise_weight=0", "network.policy_filters=2", "network.value_filters=1",
)
METHODS: dict[str, tuple[str, ...]] = {
    "plain": (),
    "gumbel": ("search=gumbel", "search.simulations=32", "search.proven_results=false"),
    "gumbel, values as they are": (
        "search=gumbel", "search.simulations=32", "search.proven_results=false", "search.rescale_values=false",
        "search.value_scale=0.5"),
    "playout caps": ("self_play.cheap_share=0.75", "self_play.cheap_simulations=16", "search.simulations=96"),
    "proven results": ("search.proven_results=true",),
    "symmetric cache": ("search.symmetric_cache=true",),
    "auxiliary heads": ("learner.targets=[policy,value,short_term,soft_policy,reply,moves_left]",),
    "surprise": ("replay.surprise_weight=0.5",),
    "wide heads": ("network.policy_filters=32", "network.value_filters=8"),
    "gumbel, surprise": (
        "search=gumbel", "search.simulations=32", "search.proven_results=false", "replay.surprise_weight=0.5"),
    "gumbel, surprise, wide heads": (
        "search=gumbel", "search.simulations=32", "search.proven_results=false", "replay.surprise_weight=0.5",
        "network.policy_filters=32", "network.value_filters=8"),
    "gumbel, values as they are, surprise": (
        "search=gumbel", "search.simulations=32", "search.proven_results=false", "search.rescale_values=false",
        "search.value_scale=0.5", "replay.surprise_weight=0.5"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    run.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    run.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    run.add_argument("--millions", nargs="+", type=float, default=[1, 2, 4])
    run.add_argument("--runs", type=Path, default=Path("runs/ablation"))
    table = commands.add_parser("table")
    table.add_argument("page", type=Path)
    asked = parser.parse_args()
    if asked.command == "table":
        asked.page.write_text(with_table(asked.page.read_text(encoding="utf-8"), lines()), encoding="utf-8")
        return
    for seed in asked.seeds:  # all methods with one seed first: a part of the table says something early
        for method in asked.methods:
            for millions in sorted(asked.millions):
                train(method, seed, millions, asked.runs / f"{method.replace(',', '').replace(' ', '_')}_{seed}")


def train(method: str, seed: int, millions: float, directory: Path) -> None:
    """Goes on to `millions` of evaluations and notes how strong the network is there."""
    if any((line["method"], line["seed"], line["millions"]) == (method, seed, millions) for line in lines()):
        return
    overrides = [
        "experiment=connect_four", *PLAIN, *METHODS[method], f"run.dir={directory}", f"run.seed={seed}",
        f"run.evaluations={round(millions * 1e6)}", "run.minutes=100000", "strength.enabled=false",
    ]
    command = [str(Path(sys.executable).parent / "shusaku"), "local", *overrides, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    summary = json.loads(done.stdout.splitlines()[-1])
    if summary["evaluations"] > 1.02e6 * millions:
        raise SystemExit(f"{directory} went on to {summary['evaluations']:,} evaluations, so its network says nothing "
                         f"of {millions:g} M; ask for all cuts at once, from the first one on, with another --runs")
    policy, search = strength_of(directory)
    line = {
        "method": method, "seed": seed, "millions": millions, "policy": policy, f"search_{SIMULATIONS}": search,
        **{name: summary[name] for name in ("evaluations", "games", "rows", "steps", "seconds")},
    }
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    print(json.dumps(line), flush=True)


def strength_of(directory: Path) -> tuple[float, float]:
    """Share of optimal moves of the network alone, and of PUCT with it: one search for all, so nets are compared."""
    config = compose([f"checkpoint={directory}", "experiment=connect_four", "search=puct", "search.noise=false"])
    chosen = choose_weights(config)
    evaluators = []
    for _ in range(len(os.sched_getaffinity(0))):
        evaluators.append(make_evaluator(chosen.game, config.inference, chosen.network, config.actors.games))
        evaluators[-1].load(chosen.weights)
    positions = strength_set(chosen.game.name)
    assert positions is not None
    strength = measure(positions, evaluators, config.search, (SIMULATIONS,))
    return strength.policy.optimal, strength.searches[SIMULATIONS].optimal


def lines() -> list[dict[str, Any]]:
    if not RESULTS.exists():
        return []
    return [json.loads(text) for text in RESULTS.read_text(encoding="utf-8").splitlines()]


def with_table(page: str, found: list[dict[str, Any]]) -> str:
    """The page with its table made anew: mean and half of the spread over the seeds, in per cent of optimal moves.

    What is said of it, before and behind, is written by hand.
    """
    cuts = sorted({line["millions"] for line in found})
    table = ["| method | seeds | " + " | ".join(f"{cut:g} M" for cut in cuts) + " |", "|---" * (2 + len(cuts)) + "|"]
    for method in [name for name in METHODS if any(line["method"] == name for line in found)]:
        cells = []
        seeds = {line["seed"] for line in found if line["method"] == method}
        for cut in cuts:
            chosen = [line for line in found if (line["method"], line["millions"]) == (method, cut)]
            cells.append(f"{share(chosen, f'search_{SIMULATIONS}')} / {share(chosen, 'policy')}" if chosen else "")
        table.append(f"| {method if method == 'plain' else '+ ' + method} | {len(seeds)} | " + " | ".join(cells) + " |")
    written = page.splitlines()
    first = next(number for number, line in enumerate(written) if line.startswith("|"))
    others = [line for line in written if not line.startswith("|")]
    return "\n".join([*others[:first], *table, *others[first:]]) + "\n"


def share(chosen: list[dict[str, Any]], name: str) -> str:
    values = [100 * line[name] for line in chosen]
    mean = f"{statistics.mean(values):.1f}"
    return mean if len(values) == 1 else f"{mean} ± {(max(values) - min(values)) / 2:.1f}"


if __name__ == "__main__":
    main()
