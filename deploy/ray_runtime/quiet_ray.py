"""`cluster.quiet_ray=true`: a Ray that starts fewer processes of its own, which wake up less often.

Ray has no public setting for this, so it rests on private names of Ray and is off by default.  On a laptop Ray's own
processes run on the cores that play, and each time one wakes up, the player loses what it had in its caches.  With two
actors of connect four 64x5 on two cores, self-play reached 94 % of plain processes beside all of them, 97 % beside
these, and 99 % without a dashboard (benchmarks/cluster/cluster_selfplay.py).  A cluster that is joined keeps its own.
"""

import contextlib
import importlib
import inspect
import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PERIODS = {  # variables of Ray, with its own value behind each
    "RAY_raylet_report_resources_period_milliseconds": "1000",  # 100
    "RAY_raylet_check_gc_period_milliseconds": "1000",  # 100
    "RAY_object_manager_timer_freq_ms": "1000",  # 100
    "RAY_memory_monitor_refresh_ms": "1000",  # 250
    "RAY_kill_idle_workers_interval_ms": "2000",  # 200
    "RAY_DASHBOARD_AGENT_POLL_INTERVAL_S": "5",  # 1
    "REPORTER_UPDATE_INTERVAL_MS": "10000",  # 2500: CPU and memory of each process in the dashboard
    "RAY_event_stats": "0",  # durations of its own handlers, for its debug logs
}

# Name -> module; a process each, but the last.  Without those of Ray's libraries (Data, Serve, Train), without events.
DASHBOARD_PARTS = {
    "NodeHead": "node.node_head", "ReportHead": "reporter.reporter_head", "JobHead": "job.job_head",
    "StateHead": "state.state_head", "UsageStatsHead": "usage_stats.usage_stats_head",
}
METRICS_PART = {"MetricsHead": "metrics.metrics_head"}  # shows the plots of Grafana
METRICS_VARIABLES = ("RAY_GRAFANA_HOST", "RAY_PROMETHEUS_HOST")  # set by users that have one

DAEMONS = {  # parameters of Ray's start that `ray.init` does not take
    "include_log_monitor": False,  # it reads all logs ten times a second, for `log_to_driver` alone
    "dashboard_agent_listen_port": 0,  # the fixed one is taken beside another Ray, and then no job can be submitted
}
PARAMETERS, SERVICES = "ray._private.parameter", "ray._private.services"


def own_periods() -> dict[str, str]:
    """PERIODS without the variables that the user has set."""
    return {name: value for name, value in PERIODS.items() if name not in os.environ}


def dashboard_parts() -> dict[str, str]:
    """The parts of the dashboard that are started in this environment."""
    has_metrics = any(os.environ.get(variable) for variable in METRICS_VARIABLES)
    return {**DASHBOARD_PARTS, **METRICS_PART} if has_metrics else DASHBOARD_PARTS


@contextlib.contextmanager
def fewer_processes(notify: Callable[[str], None]) -> Iterator[None]:
    """Within it, a Ray that is started is a quiet one; if this Ray lacks a name, `notify` gets one line instead."""
    missing = missing_name()
    if missing:
        notify(f"cluster.quiet_ray=true has no effect: this version of Ray has no {missing}")
        yield
        return
    parameter, services = (importlib.import_module(name) for name in (PARAMETERS, SERVICES))
    parameters, start = parameter.RayParams, services.start_ray_process

    class QuietParameters(parameters):  # type: ignore[misc, valid-type]
        def __init__(self, *positional: Any, **named: Any) -> None:
            super().__init__(*positional, **{**DAEMONS, **named})

    def start_process(command: list[str], process_type: str, *rest: Any, **options: Any) -> Any:
        if process_type == "dashboard" and not any(word.startswith("--modules-to-load") for word in command):
            command = [*command, f"--modules-to-load={','.join(dashboard_parts())}"]
        return start(command, process_type, *rest, **options)

    parameter.RayParams, services.start_ray_process = QuietParameters, start_process  # type: ignore[attr-defined]
    try:
        yield
    finally:
        parameter.RayParams, services.start_ray_process = parameters, start  # type: ignore[attr-defined]


def missing_name() -> str:
    """The first private name of Ray that this version lacks; empty if it has all."""
    for module, name in ((PARAMETERS, "RayParams"), (SERVICES, "start_ray_process")):
        try:
            found = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            return f"{module}.{name}"
        if name == "RayParams":
            absent = DAEMONS.keys() - inspect.signature(found).parameters.keys()
            if absent:
                return f"{module}.{name}({min(absent)}=)"
    for name, module in dashboard_parts().items():
        path = f"ray.dashboard.modules.{module}"
        if not _defines(path, name):
            return f"{path}.{name}"
    return ""


def _defines(module: str, name: str) -> bool:
    """Whether the module's source has this class; importing the dashboard would take seconds."""
    try:
        spec = find_spec(module)
    except ImportError:
        return False
    return spec is not None and spec.origin is not None and f"class {name}(" in Path(spec.origin).read_text()

