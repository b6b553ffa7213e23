"""Pictures of a run, made from its `metrics.jsonl`."""

from pathlib import Path

from shusaku.actors.arena.rating_log import EloCurve
from shusaku.common.metrics import read_metrics
from shusaku.deploy.run.strength_table import baseline_name

LEAST_MARGIN_ELO = 200.0  # beside the ratings, for the ends of their intervals; more if the ratings spread more
LINES_OF_TEXT = 26  # as high as a picture of ratings
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


def plot_elo(curve: EloCurve, picture: Path, title: str) -> None:
    """Draws the Elo of the versions with their 95 % intervals, over minutes and over gradient steps, as a PNG.

    The other players, such as plain UCT, are level lines, as in the papers on AlphaGo Zero and AlphaZero.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    # A run that was killed goes on with a newer version at an earlier time.
    points = sorted(curve.points, key=lambda point: point.seconds)
    elo = [point.elo for point in points]
    bars = [[point.elo - point.elo_low for point in points], [point.elo_high - point.elo for point in points]]
    over = {"minutes of training": [point.seconds / 60 for point in points],
            "gradient steps": [float(point.step) for point in points]}
    for axes, (label, where) in zip(figure.subplots(1, 2, sharey=True), over.items(), strict=True):
        axes.errorbar(where, elo, yerr=bars, marker="o", markersize=4, linewidth=1.8, elinewidth=1, capsize=2)
        for index, level in enumerate(curve.others.values()):
            axes.axhline(level, linestyle=("--", ":", "-.")[index % 3], linewidth=1, color="0.45")
        end = max(where) or 1.0
        axes.set(xlabel=label, xlim=(-0.02 * end, 1.04 * end))  # the first version was there at the start
        axes.locator_params(axis="x", nbins=6)
        axes.grid(alpha=0.25)
    figure.axes[0].set_ylabel("Elo, 95 % intervals")
    # The far end of an interval from one-sided results tells nothing, and would press the curve flat.
    lowest, highest = min(*elo, *curve.others.values(), 0.0), max(*elo, *curve.others.values(), 0.0)
    margin = max(LEAST_MARGIN_ELO, (highest - lowest) / 2)
    low = max(lowest - margin, min(lowest, *(point.elo_low for point in points)))
    high = min(highest + margin, max(highest, *(point.elo_high for point in points)))
    height = 1.1 * (high - low)
    figure.axes[0].set_ylim(low - height / 22, high + height / 22)
    place = low
    for name, level in sorted(curve.others.items(), key=lambda other: other[1]):
        place = max(level, place + height / LINES_OF_TEXT)
        figure.axes[1].annotate(f"{baseline_name(name)} {level:.0f}", (1.01, place), fontsize=8, color="0.35",
                                xycoords=("axes fraction", "data"), va="center", annotation_clip=False)
    figure.suptitle(title)
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
