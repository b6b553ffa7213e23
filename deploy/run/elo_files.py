"""The files of a run's Elo over its versions: `elo.json`, and the picture `elo.png`."""

import json
from dataclasses import asdict
from pathlib import Path

from shusaku.actors.arena.rating_log import EloCurve, EloPoint
from shusaku.common.durable_files import write_atomically
from shusaku.deploy.run.plots import plot_elo

ELO_JSON, ELO_PNG = "elo.json", "elo.png"


def write_curve(directory: Path, curve: EloCurve, title: str) -> None:
    """elo.json and elo.png."""
    write_atomically(directory / ELO_JSON, json.dumps(asdict(curve), indent=1).encode() + b"\n")
    plot_elo(curve, directory / ELO_PNG, title)


def read_curve(directory: Path) -> EloCurve | None:
    """What `write_curve` wrote; None without it, or if it is something else."""
    try:
        content = json.loads((directory / ELO_JSON).read_bytes())
        curve = EloCurve(tuple(EloPoint(**point) for point in content["points"]), dict(content["others"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return curve if curve.points else None
