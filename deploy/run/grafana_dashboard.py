"""The Grafana dashboard of a run, made from a table of panels.

    python -m shusaku.deploy.run.grafana_dashboard > deploy/grafana/shusaku.json

A panel is a title, a unit of Grafana, and its series: legend -> expression, where METRIC[tags] stands for the metric of
the runs that are chosen.  Source: Grafana, "Dashboard JSON model".
"""

import json
import re
from typing import Any, NamedTuple

COLUMNS, WIDTH, HEIGHT = 24, 8, 7  # Grafana's grid, and a panel's place in it
RATE = "5m"  # over which counters become rates


class Panel(NamedTuple):
    """One graph."""

    title: str
    unit: str
    series: dict[str, str]


ROWS: dict[str, list[Panel]] = {
    "Self-play": [
        Panel("Games", "ops", {"games/s": "rate(games_total[RATE])"}),
        Panel("Searches and evaluations", "ops", {"searches/s": "searches_per_second",
                                                  "evaluations/s": "evaluations_per_second"}),
        Panel("Actors", "none", {"play": "actors", "asked for": "actors_desired", "wait for a node": "actors_waiting"}),
        Panel("Waiting", "percentunit", {"actors, for the learner": "actors_paused_ratio",
                                         "the learner, for rows": "learner_waiting_ratio"}),
        Panel("Where the actors' time goes", "percentunit", {"{{stage}}": "self_play_time_ratio"}),
        Panel("Cache", "percentunit", {"leaves answered": "cache_hit_ratio"}),
    ],
    "Learning": [
        Panel("Loss", "none", {"{{target}}": "loss"}),
        Panel("Steps", "ops", {"steps/s": "rate(steps_total[RATE])"}),
        Panel("Age of what is learned from", "none", {"versions, mean": "sample_age_versions",
                                                      "versions, oldest": "sample_age_max_versions"}),
        Panel("Samples per position", "none", {"samples": "samples_per_position"}),
        Panel("Published", "none", {"version": "version"}),
        Panel("Newest checkpoint", "s", {"age": "checkpoint_age_seconds"}),
    ],
    "Strength": [
        Panel("Elo of the newest version that was rated", "none", {"Elo": "elo", "lower end": "elo_low",
                                                                   "upper end": "elo_high"}),
        Panel("Optimal moves", "percentunit", {"share": "optimal_moves_ratio"}),
        Panel("On games not learned from", "none", {"{{measure}}": "unseen_games"}),
    ],
    "Replay": [
        Panel("Window", "short", {"rows": "window_rows", "size now": "window_size_rows"}),
        Panel("Rows", "ops", {"rows/s": "rate(rows_total[RATE])"}),
        Panel("Games in Redis", "bytes", {"encoded": "replay_bytes"}),
        Panel("Refused games", "none", {"{{reason}}": "increase(quarantined_records_by_reason_total[1h])",
                                        "duplicates": "increase(duplicate_games_total[1h])",
                                        "fenced": "increase(fenced_games_total[1h])"}),
        Panel("Lost games", "none", {"games": "increase(lost_games_total[1h])"}),
        Panel("Replay server without an answer", "s", {"since": "replay_unreachable_seconds"}),
    ],
    "Inference servers": [
        Panel("Positions", "ops", {"positions/s": "inference_rows_per_second"}),
        Panel("Positions a batch", "none", {"positions": "inference_batch_rows"}),
        Panel("Waits in the server", "s", {"median": "inference_wait_p50_seconds",
                                           "p99": "inference_wait_p99_seconds"}),
        Panel("Calls of the actors", "s", {"median": "inference_call_p50_seconds",
                                           "p99": "inference_call_p99_seconds"}),
        Panel("Idle", "percentunit", {"servers": "inference_idle_ratio"}),
        Panel("Refused, failed", "none", {"refused": "increase(inference_refused_requests_total[1h])",
                                          "failed": "increase(inference_failed_requests_total[1h])"}),
    ],
    "Faults and memory": [
        Panel("Workers started again", "none", {"within an hour": "increase(restarts_total[1h])"}),
        Panel("What is wrong now", "none", {"lines of `shusaku status`": "troubles"}),
        Panel("Not finite", "none", {"steps": "increase(skipped_steps_total[1h])",
                                     "networks": "increase(refused_publications_total[1h])",
                                     "answers": "increase(inference_non_finite_rows_total[1h])"}),
        Panel("Memory of the run", "bytes", {"{{part}}": "resident_memory_bytes"}),
        Panel("Program", "none", {"{{version}}": "build_info"}),
        Panel("Nothing could be learned", "s", {"within an hour": "increase(outage_seconds_total[1h])"}),
    ],
}
# Of Ray itself, for every node of the cluster.
NODES = [
    Panel("Processors", "percent", {"{{instance}}": "ray_node_cpu_utilization"}),
    Panel("Memory", "bytes", {"{{instance}}": "ray_node_mem_used"}),
    Panel("GPUs", "percent", {"{{instance}} {{GpuIndex}}": "ray_node_gpus_utilization"}),
]
_METRIC = re.compile(r"\b[a-z][a-z0-9_]*\b(?!\()")  # and no function


def expression(short: str, runs: str = "$run") -> str:
    """The PromQL of a series of ROWS, of these runs (a regular expression)."""
    before, bracket, behind = short.partition("[")
    metric = _METRIC.sub(lambda found: f'ray_shusaku_{found[0]}{{run=~"{runs}"}}', before)
    return metric + bracket + behind.replace("RATE", RATE)


def expressions(runs: str = "$run") -> list[str]:
    """Those of all panels that show a run."""
    return [expression(short, runs) for panels in ROWS.values() for panel in panels for short in panel.series.values()]


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in (*ROWS.items(), ("Nodes of Ray", NODES)):
        panels.append({"type": "row", "title": title, "collapsed": False, "panels": [],
                       "gridPos": {"h": 1, "w": COLUMNS, "x": 0, "y": y}})
        y += 1
        for index, panel in enumerate(row):
            place = {"h": HEIGHT, "w": WIDTH, "x": index * WIDTH % COLUMNS, "y": y + index * WIDTH // COLUMNS * HEIGHT}
            panels.append(_graph(panel, place, is_of_run=row is not NODES))
        y += -(-len(row) * WIDTH // COLUMNS) * HEIGHT
    for number, made in enumerate(panels, 1):
        made["id"] = number
    return {
        "title": "Shusaku", "uid": "shusaku", "schemaVersion": 39, "version": 1, "refresh": "30s", "editable": True,
        "time": {"from": "now-6h", "to": "now"}, "tags": ["shusaku"], "panels": panels,
        "templating": {"list": [
            {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
            {"name": "run", "type": "query", "label": "run", "multi": True, "includeAll": True, "allValue": ".*",
             "datasource": {"type": "prometheus", "uid": "${datasource}"}, "refresh": 2,
             "query": "label_values(ray_shusaku_troubles, run)", "current": {"text": "All", "value": "$__all"}},
        ]},
    }


def _graph(panel: Panel, place: dict[str, int], *, is_of_run: bool) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    prefix = "{{run}} " if is_of_run else ""
    return {
        "type": "timeseries", "title": panel.title, "datasource": source, "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, **({"min": 0} if panel.unit == "percentunit" else {})},
                        "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [{"refId": chr(65 + index), "datasource": source, "legendFormat": f"{prefix}{legend}",
                     "expr": expression(short) if is_of_run else short}
                    for index, (legend, short) in enumerate(panel.series.items())],
    }


if __name__ == "__main__":
    print(json.dumps(dashboard(), indent=1))
