"""Finding lines of benchmarks/results/*, and writing their numbers and tables as Markdown."""

import statistics
from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.lib import read_results

AMX, OLDER = "AMX", "Cascade Lake"  # the two machines that most results come from
Line = dict[str, Any]


def newest(file: str, *words: str, machine: str = AMX, name: str = "") -> Line:
    """The last line of a results file whose command holds all words, on a machine whose name holds `machine`."""
    found = [
        line for line in read_results(file)
        if all(word in line["command"] for word in words) and machine in line["machine"]
        and (not name or line.get("name") == name)
    ]
    if not found:
        raise LookupError(f"{file} has no line with {words} {name} on {machine}")
    return found[-1]


def processor(line: Line) -> str:
    """What of a line's machine says how fast it computes: the generation, or the name and its units."""
    name, _, *units = [*str(line["machine"]).partition(" of ")[2].split(", "), ""]
    name = name.replace("(R)", "").replace(" Processor", "")
    if name.startswith("AMD EPYC"):
        return name.partition("(")[2].rstrip(")") or ("Zen 4" if "AVX-512 VNNI" in units else "Zen 1")
    return f"{name} with AMX" if "AMX" in units else name or str(line["machine"])


def number(value: float) -> str:
    """Three or four significant digits, with M from a million on."""
    if value >= 1e6:
        millions = value / 1e6
        return f"{millions:.{0 if millions >= 100 else 1 if millions >= 10 else 2}f} M"
    if value >= 10_000:
        return f"{round(value, -2):,.0f}"
    return f"{value:,.0f}" if value >= 20 else f"{value:.1f}"


def share(value: float) -> str:
    return f"{100 * value:.1f} %"


def median(line: Line, key: str) -> float:
    """The median over the runs of a line."""
    middle: float = statistics.median(run[key] for run in line["runs"])
    return middle


def rate(line: Line, key: str, text: Callable[[float], str] = number) -> str:
    """The median over the runs, and from the lowest to the highest of them."""
    values = [run[key] for run in line["runs"]]
    middle = text(statistics.median(values))
    return middle if len(values) == 1 else f"{middle} ({text(min(values))} – {text(max(values))})"


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in [tuple(header), *map(tuple, rows)]]
    lines.insert(1, "|" + "---|" * len(tuple(header)))
    return "\n".join(lines)


def sources(lines: Iterable[Line]) -> str:
    """Machine, commit, date and command of the lines behind a table, folded away."""
    rows: dict[tuple[str, ...], int] = {}
    for line in lines:
        recorded = f"{line['commit']}, {line['date']}" + (f", {line['note']}" if "note" in line else "")
        command = f"`{line['command'].replace('|', chr(92) + '|')}`" if line["command"] else ""
        rows[command, line["machine"], recorded] = rows.get((command, line["machine"], recorded), 0) + len(
            line.get("runs", [1]))
    found = table(("command", "machine", "commit and date", "runs"), ((*row, str(runs)) for row, runs in rows.items()))
    return f"<details><summary>machine, commit, date and command of each line</summary>\n\n{found}\n\n</details>"


def elo(run: Line) -> str:
    """The Elo difference with its 95 % interval; only the lower end if every game was won."""
    if run["elo"] is None:
        return f"above {run['elo_low']:+.0f}" if run["elo_low"] is not None else f"below {run['elo_high']:+.0f}"
    return f"{run['elo']:+.0f} ({run['elo_low']:+.0f} to {run['elo_high']:+.0f})"
