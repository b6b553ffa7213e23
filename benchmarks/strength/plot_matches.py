"""Draws the curve of `benchmarks/strength/learns.sh`: plot_matches.py RESULTS.jsonl RUN_DIR PICTURE.png."""

import json
import sys
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from shusaku.common.json_lines import read_json_lines


def main(results: Path, run: Path, picture: Path) -> None:
    """Score against plain UCT with 1,000 rollouts by minutes of training; the lines of name `curve`."""
    lines = [json.loads(text) for text in results.read_text(encoding="utf-8").splitlines()]
    metrics = list(read_json_lines(run / "metrics.jsonl"))
    matches = [line["runs"][0] for line in lines if line["name"] == "curve"]
    points = sorted((minutes_of(match["first"]["step"], metrics), match["score"]) for match in matches)
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot([minutes for minutes, _ in points], [100 * score for _, score in points], marker="o")
    axes.set(xlabel="minutes of training", ylabel="score against UCT-1000, %", title=results.stem)
    axes.set(xlim=(0, None), ylim=(-2, 102))
    axes.grid(alpha=0.3)
    figure.savefig(picture, dpi=110)


def minutes_of(step: int, metrics: list[dict[str, Any]]) -> float:
    """When the run had taken `step` steps, by the last line of its metrics that knows fewer or as many."""
    return max(float(line["seconds"]) for line in metrics if line["step"] <= step) / 60


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
