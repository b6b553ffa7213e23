"""Which of Ray's own processes run where we start it, and how often they look after themselves.

On a laptop they run on the cores that play, and each time one wakes up the player loses what it had in its caches.
With two actors of connect four 64x5 on two cores, self-play reached 94 % of plain processes beside all of them, 97 %
beside these, and 99 % without a dashboard (benchmarks/cluster/cluster_selfplay.py).  A cluster that is
joined is left as it is.
"""

import os
from collections.abc import Callable
from typing import Any

PERIODS = {  # variables of Ray, with its own value behind each
    "RAY_raylet_report_resources_period_milliseconds": "1000",  # 100
    "RAY_raylet_check_gc_period_milliseconds": "1000",  # 100
    "RAY_object_manager_timer_freq_ms": "1000",  # 100
    "RAY_memory_monitor_refresh_ms": "1000",  # 250
    "RAY_kill_idle_workers_interval_ms": "2000",  # 200
    "RAY_DASHBOARD_AGENT_POLL_INTERVAL_S": "5",  # 1
    "REPORTER_UPDATE_INTERVAL_MS": "10000",  # 2500: CPU and memory of each process in the dashboard
    "RAY_event_stats": "0",  # times of its own handlers, for its debug logs
}

# A process each, but the last.  Without those of Ray's libraries (Data, Serve, Train), and without events.
DASHBOARD_PARTS = ("NodeHead", "ReportHead", "JobHead", "StateHead", "UsageStatsHead")
METRICS_PART = "MetricsHead"  # shows what Grafana draws
METRICS_VARIABLES = ("RAY_GRAFANA_HOST", "RAY_PROMETHEUS_HOST")  # of who has one


def leave_out_processes() -> None:
    """Makes Ray, where this process starts it, start no more than is used; harmless a second time.

    Ray has no setting for it; its version is fixed in pyproject.toml, and names of parts that it lacks would stop it.
    """
    from ray._private import node, services

    # It reads all logs ten times a second, for `log_to_driver` alone.
    node.Node.start_log_monitor = _start_nothing  # type: ignore[method-assign]
    start = services.start_ray_process
    if not hasattr(start, "leaves_out"):
        services.start_ray_process = _leaving_out(start)


def own_periods() -> dict[str, str]:
    """PERIODS without what the user has set."""
    return {name: value for name, value in PERIODS.items() if name not in os.environ}


def dashboard_parts() -> tuple[str, ...]:
    """Of this environment."""
    has_metrics = any(os.environ.get(variable) for variable in METRICS_VARIABLES)
    return (*DASHBOARD_PARTS, METRICS_PART) if has_metrics else DASHBOARD_PARTS


def _leaving_out(start: Callable[..., Any]) -> Callable[..., Any]:
    def start_process(command: list[str], process_type: str, *rest: Any, **options: Any) -> Any:
        if process_type == "dashboard" and not any(word.startswith("--modules-to-load") for word in command):
            command = [*command, f"--modules-to-load={','.join(dashboard_parts())}"]
        return start(command, process_type, *rest, **options)

    start_process.leaves_out = True  # type: ignore[attr-defined]
    return start_process


def _start_nothing(node: object) -> None:
    """In place of a process that nobody here listens to."""
