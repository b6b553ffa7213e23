"""Draws the curve of `benchmarks/learns.sh`: plot_matches.py RESULTS.jsonl PICTURE.png."""

import json
import sys
from pathlib import Path

from matplotlib.figure import Figure


def main(results: Path, picture: Path) -> None:
    """Score against plain UCT with 1,000 rollouts by gradient step; the lines of name `curve`."""
    lines = [json.loads(text) for text in results.read_text(encoding="utf-8").splitlines()]
    matches = [line["result"] for line in lines if line["name"] == "curve"]
    points = sorted((match["first"]["step"], match["score"]) for match in matches)
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot([step for step, _ in points], [100 * score for _, score in points], marker="o")
    axes.set(xlabel="gradient steps", ylabel="score against UCT-1000, %", ylim=(-2, 102), title=results.stem)
    axes.grid(alpha=0.3)
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
