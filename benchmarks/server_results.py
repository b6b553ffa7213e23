"""The tables of docs/results/speed.md about inference servers, GPUs, many actors, precisions and the learner's step."""

from collections.abc import Callable
from typing import Any

from benchmarks.lib import read_results
from benchmarks.result_lines import Line, median, number, rate, share, sources, table

WAYS = {"memory": "shared memory", "tcp": "TCP", "ray": "Ray calls"}
KINDS = ("actors", "server", "redis", "driver", "ray")  # of processes, see benchmarks/cluster/many_actors.py
GAMES = {"connect_four": "connect four, 64 × 5", "go_9x9": "Go 9×9, 64 × 4", "tic_tac_toe": "tic-tac-toe, 32 × 2"}


def served() -> str:
    """What the server itself carries, with an evaluator that is free."""
    by_size = {line.get("size"): line for line in read_results("inference_server.jsonl")
               if (line.get("way"), line.get("positions")) == ("memory", 64)}
    lines = [by_size[size] for size in (9, 19)]
    rows = [(f"{size}×{size}", f"{rate(line, 'positions_per_s')}", f"{rate(line, 'positions_per_batch')}",
             f"{rate(line, 'server_us_per_request')} µs", f"{rate(line, 'client_us_per_request')} µs",
             f"{median(line, 'p99_ms'):.1f} ms") for size, line in zip((9, 19), lines, strict=True)]
    header = ("Go", "positions/s", "a batch", "server's processor time a request", "client's", "p99 of an answer")
    return f"{table(header, rows)}\n\n{sources(lines)}"


def encryption() -> str:
    """What TLS costs a call: 128 positions of Go 9×9 to an inference server, one game of connect four to Redis."""
    asked = {line["way"]: line for line in read_results("inference_server.jsonl") if " tls" in line["command"]}
    served = [(f"inference server, {way.upper()}", asked[way], "server_us_per_request", "client_us_per_request",
               f"{median(asked[way], 'p50_ms'):.2f} ms") for way in ("tcp", "tls")]
    kept = {line["way"]: line for line in read_results("encryption.jsonl")}
    kept_rows = [(f"Redis, {way.upper()}", kept[way], "server_us_per_call", "client_us_per_call",
                  f"{median(kept[way], 'us_per_call') / 1000:.2f} ms") for way in ("tcp", "tls")]
    rows = [(what, f"{rate(line, server)} µs", f"{rate(line, client)} µs", waits)
            for what, line, server, client, waits in (*served, *kept_rows)]
    header = ("call", "processor time of the server and its relay", "of the client", "answered after")
    return f"{table(header, rows)}\n\n{sources(row[1] for row in (*served, *kept_rows))}"


def simulated_gpu() -> str:
    """The share of full batches by board and actors, with `auto` games and with fixed ones."""
    newest_of: dict[tuple[int, int, str], Line] = {}
    for line in read_results("simulated_gpu.jsonl"):
        newest_of[line["size"], line["actors"], line["games"]] = line
    rows = [(f"{size}×{size}", str(actors), games, rate(line, "of_full_batches", share),
             rate(line, "evaluations_per_s"))
            for (size, actors, games), line in sorted(newest_of.items(), key=lambda item: (
                item[0][0], item[0][2] != "auto", item[0][1], int(item[0][2]) if item[0][2].isdigit() else 0))]
    header = ("Go", "actors", "games of each", "of full batches", "evaluations/s")
    return f"{table(header, rows)}\n\n{sources(newest_of.values())}"


def precisions() -> str:
    """What `inference.precision=auto` took, beside the fixed choices."""
    newest_of: dict[tuple[bool, str], Line] = {}
    for line in read_results("precision.jsonl"):
        counts = line["counts"]
        runs = [dict(zip(counts, values, strict=True)) for values in zip(*counts.values(), strict=True)]
        newest_of[bool(line["minutes"]), line["game"]] = {**line, "runs": runs}
    rows = []
    for (is_run, game), line in sorted(newest_of.items()):
        what = f"searches in {line['minutes']:g} minutes" if is_run else "evaluations/s"
        rows.append((GAMES[game], what, ", ".join(sorted(set(line["chosen"]))),
                     *(rate(line, name) if name in line["counts"] else "" for name in ("auto", "fp32", "bf16", "int8")),
                     share(line["share"])))
    header = ("game", "counted", "auto took", "auto", "fp32", "bf16", "int8", "auto of the best")
    return f"{table(header, rows)}\n\n{sources(newest_of.values())}"


def many_actors() -> str:
    """What one server and one Redis carry, by the way to the server; of each row the newest run."""
    newest_of: dict[tuple[str, int, float], Line] = {}
    for line in read_results("many_actors.jsonl"):
        if "way" in line:
            newest_of[line["way"], line["actors"], line["minutes"]] = line
    rows = []
    for (way, actors, minutes), line in sorted(newest_of.items(), key=lambda item: (
            list(WAYS).index(item[0][0]), *item[0][1:])):
        run = line["runs"][0]
        rows.append((WAYS[way], str(actors), f"{minutes:g}", f"{run['playing_s']:.0f} s",
                     number(run["positions_per_s"]), f"{run['rows_per_batch']:.0f}", f"{run['call_p50_ms']:.1f} ms",
                     f"{run['call_p99_ms']:.1f} ms (worst {run['worst_call_p99_ms']:.0f} ms)",
                     " / ".join(f"{run[f'cores_of_{kind}']:.2f}" for kind in KINDS),
                     f"{run['pss_first']:,} and {run['pss_last']:,} MB"))
    header = ("way", "actors", "minutes", "all play after", "positions/s", "a batch", "call p50", "call p99",
              f"cores of {', '.join(KINDS)}", "memory of all processes (PSS), first and last tenth")
    return f"{table(header, rows)}\n\n{sources(newest_of.values())}"


def gpu() -> str:
    """What a GPU was worth: of each part the newest line."""
    newest_of: dict[str, Line] = {line["part"]: line for line in read_results("gpu.jsonl")}
    rows = []
    for part, line in newest_of.items():
        if part == "over TCP":
            run = line["run"]
            rows.append(("serving over TCP, Go 9x9, 64x4", f"{number(run['evaluations_per_s'])} evaluations/s, busy "
                         f"{run['busy_share']:.0%}", "", "", "", f"{run['rows_per_batch']:.0f}"))
        elif "run" in line:
            run = line["run"]
            rows.append((f"serving, {part}", f"{number(run['evaluations_per_s'])} evaluations/s",
                         number(run["raw_evaluations_per_s"]),
                         f"{run['evaluations_per_s'] / run['raw_evaluations_per_s']:.0%}",
                         number(line["players_alone"]["evaluations_per_s"]), f"{run['rows_per_batch']:.0f}"))
        elif "bare" in line:
            ours, bare = line["ours"], line["bare"]
            rows.append((f"{part}, Go 19x19, 256x20", f"{number(ours['rows_per_s'])} rows/s",
                         number(ours["batch_size"] * bare["steps_per_s"]),
                         f"{ours['steps_per_s'] / bare['steps_per_s']:.0%}", "", number(ours["batch_size"])))
        else:
            rows.append((f"{part}, Go 19x19, 256x20", f"{line['shown'][0]} of each alone, p99 of a batch × "
                         f"{line['batch_p99']:.1f}", "", "", "", ""))
    header = ("part", "measured", "the network alone, or a bare compiled step", "of that",
              "what the players ask for if an answer costs nothing", "rows a batch")
    return f"{table(header, rows)}\n\n{sources(newest_of.values())}"


def learner_bare() -> str:
    """The learner's step on one core beside torch's bare passes, and where its time goes."""
    lines = list(read_results("learner_bare.jsonl"))
    rows = []
    for line in lines:
        parts = sorted(line["parts"].items(), key=lambda part: -part[1])[:4]
        whose = "the core's" if "3x3 convolutions: core" in line["runtime"] else "torch's"
        rows.append((_processor(line), line["network"], whose,
                     f"{line['step_ms']:.0f} ms ({number(line['rows_per_s'])} rows/s)",
                     f"{line['bare_ms']:.0f} ms", f"{line['three_forwards_ms']:.0f} ms",
                     ", ".join(f"{name} {part:.0%}" for name, part in parts)))
    header = ("one core of", "network, batch of 256", "3x3 convolutions", "the learner's step",
              "torch's forward and backward pass",
              "three forward passes", "where the step's time goes")
    return f"{table(header, rows)}\n\n{sources(lines)}"


def core_floats() -> str:
    """A position in floats on one core, by the core and by other runtimes."""
    lines = list(read_results("float_tower.jsonl"))
    rows = []
    for line in lines:
        least = line["microseconds"]
        others = [least[name] for name in ("openvino", "torch")]
        rows.append((line["preset"], f"{least['core']:,.0f} µs", *(f"{time:,.0f} µs" for time in others),
                     f"{min(others) / least['core']:.2f}",
                     f"{least['core load'] / 1e3:.1f}, {least['openvino load'] / 1e3:.1f} ms"))
    header = ("network", "core", "OpenVINO", "torch", "times as fast", "new weights: core, OpenVINO")
    return f"{table(header, rows)}\n\n{sources(lines)}"


def core_int8() -> str:
    """A position in 8 bits on one core, by the core and by OpenVINO."""
    lines = list(read_results("int8_tower.jsonl"))
    rows = []
    for line in lines:
        least = line["microseconds"]
        rows.append((_processor(line), line["preset"], f"{least['core']:,.1f} µs", f"{least['openvino']:,.1f} µs",
                     f"{least['openvino'] / least['core']:.2f}",
                     f"{least['core load'] / 1e3:.1f}, {least['openvino load'] / 1e3:.0f} ms"))
    header = ("one core of", "network", "core", "OpenVINO", "times as fast", "new weights: core, OpenVINO")
    return f"{table(header, rows)}\n\n{sources(lines)}"


def _processor(line: dict[str, Any]) -> str:
    """Of a line's machine, with its clock where many have its name."""
    name, clock, *units = str(line["machine"]).partition(" of ")[2].split(", ")
    return f"{name.replace('(R)', '').replace(' Processor', '')}{f', {clock}, AMX' if 'AMX' in units else ''}"


def learner_convolutions() -> str:
    """A gradient step on one core, by the core's convolutions and by torch's."""
    lines = list(read_results("learner_convolutions.jsonl"))
    rows = []
    for line in lines:
        numbers = "bf16" if ", bf16" in line["runtime"] else "AVX2"
        rows.append((f"{_processor(line)}, {numbers}", line["network"],
                     f"{line['core_ms']:.0f} ms ({number(1e3 * line['batch'] / line['core_ms'])} rows/s)",
                     f"{line['torch_ms']:.0f} ms",
                     f"{line['ratio']:.2f} ({line['ratio_low']:.2f} – {line['ratio_high']:.2f})"))
    header = ("one core of", "network, batch of 256", "with the core's convolutions", "with torch's", "times as fast")
    return f"{table(header, rows)}\n\n{sources(lines)}"


BLOCKS: tuple[Callable[[], str], ...] = (
    served, encryption, simulated_gpu, precisions, many_actors, gpu, learner_bare, core_floats, core_int8,
    learner_convolutions)
