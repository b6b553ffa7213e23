"""Asks all nodes of a cluster for their versions, wheels, clocks, tokens and way to the replay server, and compares."""

import contextlib
import threading
import time
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from shusaku.common.errors import UsageError
from shusaku.deploy.ray_runtime.living_nodes import living_nodes
from shusaku.deploy.ray_runtime.node_probe import NodeFacts, NodeProbe, read_facts

FIRST_SECONDS = 20.0  # that the start of a run waits; a node that hangs is watched while the run begins
ANSWER_SECONDS = 60.0  # for a process to start there and to answer: a busy machine imports Ray for a while
CLOCK_TRIES = 3  # the quickest answer tells most, and the clock may be set in between


@dataclass(frozen=True)
class NodeAnswer:
    """Of one node."""

    name: str  # address and host
    facts: NodeFacts | None = None  # None: it did not say
    clock: float = 0.0  # seconds that its clock is ahead of ours, at least
    no_route: str = ""  # why it does not reach the replay server
    silence: str = ""  # why it said nothing
    node: str = ""  # Ray's name of it


class Difference(NamedTuple):
    """Something of a node that is not as here."""

    what: str  # wheel, core, token, ...
    text: str  # with the node's name
    fix: str


def ask_nodes(url: str = "", seconds: float = ANSWER_SECONDS, only: Container[str] | None = None) -> list[NodeAnswer]:
    """What the living nodes besides this one say; `url`: of the replay server that they must reach, if not empty.

    `only`: the nodes that are asked, by Ray's names; None: all.  Ray must be connected.  A node that dies meanwhile is
    left out.
    """
    own = ray.get_runtime_context().get_node_id()
    others = {node["NodeID"]: _name(node) for node in living_nodes()
              if node["NodeID"] != own and (only is None or node["NodeID"] in only)}
    make_actor: Any = ray.remote  # Ray's types do not know this form
    probes = {node: make_actor(NodeProbe).options(
        num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote() for node in others}
    calls = {node: (probe.facts.remote(), probe.reach.remote(url) if url else ray.put(""))
             for node, probe in probes.items()}
    deadline = time.monotonic() + seconds
    answers = {node: replace(_answer(others[node], probes[node], calls[node], deadline), node=node) for node in others}
    for probe in probes.values():
        ray.kill(probe)
    left = {node["NodeID"] for node in living_nodes()}
    return [answer for node, answer in answers.items() if node in left or not answer.silence]


class StartCheck:
    """Refuses a run on a cluster with a node that cannot work for it."""

    def __init__(self, url: str) -> None:
        """`url`: of the replay server, for actors."""
        self._url = url
        self._own = read_facts()
        self._refusal = ""

    def run(self) -> None:
        """UsageError, of one line, if a node has another wheel, or does not reach the replay server.

        A node that says nothing may be about to be lost: it is asked again, while the run begins.
        """
        answers = ask_nodes(self._url, FIRST_SECONDS)
        self._refusal = self._reason([answer for answer in answers if not answer.silence])
        self.raise_refusal()
        if silent := [answer.node for answer in answers if answer.silence]:
            threading.Thread(target=self._ask_again, args=(silent,), name="nodes", daemon=True).start()

    def raise_refusal(self) -> None:
        """UsageError if a node that said nothing at the start cannot work for the run, as is known by now."""
        if self._refusal:
            raise UsageError(self._refusal)

    def _ask_again(self, nodes: list[str]) -> None:
        with contextlib.suppress(Exception):  # Ray has ended, and so does the run
            self._refusal = self._reason(ask_nodes(self._url, ANSWER_SECONDS, nodes))

    def _reason(self, answers: Sequence[NodeAnswer]) -> str:
        found = [one for answer in answers for one in differences(self._own, answer)]
        return next((f"{one.text}; {one.fix}" for one in found if one.what in ("wheel", "route", "silence")), "")


def differences(own: NodeFacts, answer: NodeAnswer) -> Iterator[Difference]:
    """What is not as on this node, apart from the clock."""
    node, facts = f"node {answer.name}", answer.facts
    leave = "or take it out with `ray stop` there"
    if facts is None:
        yield Difference("silence", f"{node} {answer.silence}", "compare there `sha256sum ~/.ray/auth_token`, its disk "
                         f"and its memory with this node's, {leave}")
        return
    for what, ours, theirs in (("Python", own.python, facts.python), ("Ray", own.ray, facts.ray)):
        if ours != theirs:
            yield Difference("versions", f"{node} runs {what} {theirs}, this node {ours}", f"install {ours} there")
    if (facts.shusaku, facts.code) != (own.shusaku, own.code):
        yield Difference("wheel", f"{node} has another wheel: Shusaku {facts.shusaku}, code {facts.code}; this node "
                         f"has {own.shusaku}, code {own.code}",
                         "install the same wheel on all nodes, or run `shusaku submit`, which ships this one")
    elif facts.core != own.core:
        yield Difference("core", f"{node} has a core of another build ({facts.core}, this node {own.core})",
                         "take the same wheel on all nodes if results must be the same to the last bit")
    if facts.token != own.token:
        yield Difference("token", f"{node} has another Ray token ({facts.token or 'none'}, this node "
                         f"{own.token or 'none'}, of SHA-256)", "copy this node's token file there, mode 600")
    if answer.no_route:
        yield Difference("route", f"{node} does not reach the replay server: {answer.no_route}",
                         f"open its port in the firewall between them, {leave}")


def clock_offset(theirs: float, asked: float, answered: float) -> float:
    """Seconds that a clock is ahead at least, behind if negative: it said `theirs` between two moments of ours."""
    return max(0.0, theirs - answered) or min(0.0, theirs - asked)


def _answer(name: str, probe: Any, calls: Sequence[Any], deadline: float) -> NodeAnswer:
    try:
        facts, no_route = ray.get(list(calls), timeout=max(0.1, deadline - time.monotonic()))
        offsets = []
        for _ in range(CLOCK_TRIES):
            asked = time.time()
            offsets.append(clock_offset(ray.get(probe.now.remote(), timeout=ANSWER_SECONDS), asked, time.time()))
        return NodeAnswer(name, facts, 0.0 if 0.0 in offsets else max(offsets, key=abs), no_route)
    except ray.exceptions.GetTimeoutError:
        return NodeAnswer(name, silence="starts no process of ours: its token may be another, or it hangs")
    except ray.exceptions.RayError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = lines[-1] if lines else type(error).__name__
        return NodeAnswer(name, silence=f"cannot run our code: {reason[:200]}")


def _name(node: dict[str, Any]) -> str:
    address, host = node["NodeManagerAddress"], node["NodeManagerHostname"]
    return f"{address} ({host}, {node['NodeID'][:6]})" if host != address else f"{address} ({node['NodeID'][:6]})"
