"""What only a cluster's driver shows: its workers and its replay server."""

from collections.abc import Mapping, Sequence
from typing import Any

from shusaku.actors.inference.stats import SERVER_FAULTS
from shusaku.actors.remote import ServerReport
from shusaku.deploy.cluster.actor_totals import ActorTotals
from shusaku.deploy.cluster.replay_store import ReplayStore
from shusaku.deploy.cluster.supervisor import Supervisor
from shusaku.deploy.run.run_view import WorkersView


def view_workers(supervisor: Supervisor, totals: ActorTotals, store: ReplayStore, desired_actors: int) -> WorkersView:
    """The workers as they were last heard from; asks none of them."""
    return WorkersView(
        alive_actors=supervisor.groups["self_play"].alive, desired_actors=desired_actors,
        waiting_actors=supervisor.waiting("self_play"),
        resident_megabytes=sum(int(stats.get("resident_mb", 0)) for stats in totals.by_actor.values()),
        restarts=supervisor.restarts, replay_restarts=store.restarts, replay_losses=store.losses,
        replay_counters=totals.counters,
        inference=_sum_servers(_server_reports(supervisor), list(totals.by_actor.values())),
    )


def list_runtimes(supervisor: Supervisor, totals: ActorTotals) -> tuple[str, ...]:
    """What evaluates, a line for each kind: actors of several machines may differ, and so may their ways."""
    served = {report.runtime for report in _server_reports(supervisor)}
    in_actors = {str(stats["runtime"]) for stats in totals.by_actor.values() if "runtime" in stats}
    return (*sorted(served), *sorted(in_actors))


def list_processes(supervisor: Supervisor, store: ReplayStore) -> dict[str, dict[str, Any]]:
    """Incarnation and process id of each worker and of the replay server."""
    processes = {f"{name} {replica.index}": {"incarnation": replica.incarnation, "pid": getattr(worker, "pid", None)}
                 for name in supervisor.groups for replica, worker in supervisor.workers(name)}
    return {**processes, "replay 0": {"incarnation": store.restarts, "pid": store.pid}}


def count_roles(supervisor: Supervisor, store: ReplayStore, is_replay_answering: bool) -> dict[str, dict[str, int]]:
    """How many workers of each role live, and how many are to."""
    roles = {name: {"alive": group.alive, "desired": group.desired} for name, group in supervisor.groups.items()}
    return {**roles, "replay": {"alive": int(is_replay_answering), "desired": 1}}


def _server_reports(supervisor: Supervisor) -> list[ServerReport]:
    answers = [getattr(worker, "report", None) for _, worker in supervisor.workers("inference")]
    return [answer for answer in answers if isinstance(answer, ServerReport)]


def _sum_servers(reports: list[ServerReport], actors: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Metrics of all inference servers, and of the calls to them; empty if there are none."""
    stats = [report.stats for report in reports]
    if not stats:
        return {}
    return {
        **{name: sum(getattr(s, name) for s in stats) for name in ("rows_per_s", *SERVER_FAULTS)},
        **{name: sum(getattr(s, name) for s in stats) / len(stats) for name in ("rows_per_batch", "idle_share")},
        **{name: max(getattr(s, name) for s in stats) for name in ("wait_p50_ms", "wait_p99_ms")},
        **{name: max((float(metrics.get(name, 0.0)) for metrics in actors), default=0.0)
           for name in ("call_p50_ms", "call_p99_ms")},
    }
