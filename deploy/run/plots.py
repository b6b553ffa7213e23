"""Pictures of a run, made from its `metrics.jsonl`."""

from pathlib import Path

from shusaku.common.metrics import read_metrics

_SUFFIX = ".optimal"  # metrics of source "strength" that are shares of optimal moves end in it


def plot_strength(metrics: Path, picture: Path, baselines: dict[str, float], title: str) -> None:
    """Draws the share of optimal moves over training time as a PNG; no file if nothing was measured.

    `baselines` are shares of players that do not learn (name -> share), drawn as level lines.
    """
    curves = _curves(metrics, "strength")
    if not curves:
        return
    ends = _curves(metrics, "final_strength")

    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for label, points in curves.items():
        minutes, shares = zip(*sorted(points), strict=True)
        (line,) = axes.plot(minutes, shares, marker="o", markersize=4, linewidth=1.8, label=_readable(label))
        for minute, share in ends.get(label, []):
            axes.plot(minute, share, marker="D", markersize=6, color=line.get_color(), clip_on=False)
    for index, (label, share) in enumerate(baselines.items()):
        axes.axhline(share, linestyle=("--", ":", "-.")[index % 3], linewidth=1, color="0.45")
        axes.annotate(f"{label} {share:.2f}", (1, share), xycoords=("axes fraction", "data"), xytext=(-4, 2),
                      textcoords="offset points", ha="right", va="bottom", fontsize=8, color="0.35")
    axes.set(xlabel="minutes of training", ylabel="share of optimal moves", title=title)
    axes.set_xlim(left=0)
    axes.set_ylim(top=1.0)
    axes.grid(alpha=0.25)
    if ends:
        axes.plot([], [], marker="D", linestyle="none", color="0.45", label="in the end, on all positions")
    figure.legend(loc="outside lower center", ncols=4, frameon=False)  # below: it covers no curve and no level
    temporary = picture.with_name(f"{picture.name}.new")
    figure.savefig(temporary, format="png")
    temporary.replace(picture)


def _curves(metrics: Path, source: str) -> dict[str, list[tuple[float, float]]]:
    """Name -> (minutes, share of optimal moves) of every measurement."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for moment in read_metrics(metrics, source=source):
        for name, value in moment.values.items():
            if name.endswith(_SUFFIX) and value is not None:
                curves.setdefault(name.removesuffix(_SUFFIX), []).append((moment.seconds / 60, float(value)))
    return curves


def _readable(label: str) -> str:
    """`search_64` -> `64 simulations`, `policy` -> `network alone`."""
    name, _, number = label.rpartition("_")
    if name == "search" and number.isdigit():
        return f"{number} simulations"
    return "network alone" if label in ("policy", "network") else label
