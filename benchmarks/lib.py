"""One runner for every benchmark: each result line says on which machine, from which commit, when and how it was made.

    python -m benchmarks.lib RESULTS.jsonl [--name NAME] [--cores 0,1] [--repeats 3] [--append] -- bench rules game=go

runs `shusaku bench rules game=go --json` as often as asked and writes one line:

    {"name": ..., "command": "bench rules game=go", "machine": ..., "commit": ..., "date": ..., "runs": [...],
     "spread": {"moves_per_s": [lowest, median, highest]}}

`runs` holds the JSON object of each run.  Scripts that measure in another way call `record` with their own keys.
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(os.environ.get("BENCHMARK_RESULTS") or ROOT / "benchmarks" / "results")  # a test has others
PRODUCT = ("actors", "common", "configs", "deploy", "learner", "replay")
PROVENANCE = ("command", "machine", "commit", "date")  # every result line has these keys
BEFORE_PROVENANCE = "recorded before provenance"  # the key `note` of a line whose commit and date come from git


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="file below benchmarks/results/")
    parser.add_argument("--name", help="what the results pages call this line")
    parser.add_argument("--cores", help="run on these cores only: 0 or 0,1")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--append", action="store_true", help="keep what this machine has recorded in the file")
    parser.add_argument("command", nargs="+", help="a shusaku command without `shusaku` and `--json`")
    options = parser.parse_args()
    runs = [run_shusaku(options.command, options.cores) for _ in range(options.repeats)]
    if not options.append:
        forget_machine(options.results)
    record(options.results, shlex.join(["shusaku", *options.command]), name=options.name, runs=runs)


def measure_networks(
    about: str | None, file: str, command: str, networks: Mapping[str, list[str]],
    measure: Callable[[list[str]], dict[str, Any]],
) -> None:
    """The program of a script that measures each network by its overrides; with `--record` among the results."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="among the results")
    records = parser.parse_args().record
    for name, words in networks.items():
        line = {"network": name, **measure(words)}
        print(json.dumps(line), flush=True)
        if records:
            record(file, command, **line)


def run_shusaku(arguments: list[str], cores: str | None = None) -> dict[str, Any]:
    """The JSON object that `shusaku ARGUMENTS --json` prints on its last line.  Exits with the command's exit code."""
    pinned = ["taskset", "-c", cores] if cores else []
    print("shusaku", *arguments, file=sys.stderr, flush=True)
    command = [*pinned, sys.executable, "-m", "shusaku", *arguments, "--json"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def record(file: Path | str, command: str, **values: Any) -> None:
    """Appends one line with its provenance; `runs` of several get their spread."""
    if len(values.get("runs", ())) > 1:
        values["spread"] = spread_of(values["runs"])
    line = {"command": command, "machine": machine(), "commit": commit(), "date": f"{datetime.now(UTC):%Y-%m-%d}"}
    line = {key: value for key, value in (line | values).items() if value is not None}
    path = results_path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as lines:
        lines.write(as_line(line))


def as_line(values: dict[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False) + "\n"


def forget_machine(file: Path | str) -> None:
    """Drops what this machine recorded in a results file before; lines of other machines stay."""
    kept = [line for line in read_results(file) if line["machine"] != machine()]
    results_path(file).write_text("".join(as_line(line) for line in kept), encoding="utf-8")


def results_path(file: Path | str) -> Path:
    """A bare name is a file of benchmarks/results/."""
    return Path(file) if "/" in str(file) else RESULTS / file


def read_results(file: Path | str) -> list[dict[str, Any]]:
    """The lines of a results file; none if there is no such file."""
    path = results_path(file)
    return [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def spread_of(runs: list[dict[str, Any]]) -> dict[str, list[float]]:
    """Lowest, median and highest of each number that differs between runs."""
    numbers = {
        key: [run[key] for run in runs] for key, value in runs[0].items()
        if isinstance(value, int | float) and not isinstance(value, bool)
        and all(run.get(key) is not None for run in runs)
    }
    return {
        key: [min(values), statistics.median(values), max(values)]
        for key, values in numbers.items() if len(set(values)) > 1
    }


def machine() -> str:
    """Cores that this process may use, the processor's name, and what it multiplies fast."""
    text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    fields = dict(line.split(":", 1) for line in text.partition("\n\n")[0].splitlines() if ":" in line)
    values = {name.strip(): value.strip() for name, value in fields.items()}
    flags = set(values.get("flags", "").split())
    units = [name for flag, name in (("amx_bf16", "AMX"), ("avx512_vnni", "AVX-512 VNNI")) if flag in flags]
    gigahertz = f"{float(values.get('cpu MHz', 0)) / 1000:.1f} GHz"
    return ", ".join([f"{len(os.sched_getaffinity(0))} cores of {processor(values)}", gigahertz, *units])


def processor(values: Mapping[str, str]) -> str:
    """Its name by these fields of /proc/cpuinfo.

    A virtual machine says "AMD EPYC" of each generation.  In records that add nothing it is Zen 4 with AVX-512 VNNI,
    and Zen 1 without.  Zen 3 and 4 are of family 25; Zen 5 is of family 26, of whose models from 0x50 on some are Zen 6
    (Linux, arch/x86/kernel/cpu/amd.c).
    """
    name, family, model = values.get("model name", "unknown"), values.get("cpu family"), int(values.get("model", 0))
    if values.get("vendor_id") != "AuthenticAMD":
        return name
    if family == "26" and model < 0x50:
        return f"{name} (Zen 5)"
    return f"{name} (Zen 3)" if family == "25" and (model < 0x10 or 0x20 <= model < 0x60) else name


def commit() -> str:
    """The short hash of HEAD, with `+` if the product has changes that are not committed.

    BENCHMARK_COMMIT overrules it where the files are a copy whose git folder is missing or older.
    """
    if "BENCHMARK_COMMIT" in os.environ:
        return os.environ["BENCHMARK_COMMIT"]
    command = ["git", "rev-parse", "--short", "HEAD"]
    head = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if head.returncode:
        return "unknown"
    clean = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", *PRODUCT], cwd=ROOT, check=False).returncode == 0
    return head.stdout.strip() + ("" if clean else "+")


if __name__ == "__main__":
    main()
