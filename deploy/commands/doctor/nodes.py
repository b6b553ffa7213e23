"""The other nodes of a joined cluster: their versions, wheels, clocks, tokens and way to the replay server."""

from collections.abc import Iterator, Sequence

from shusaku.deploy.commands.doctor.finding import Finding, Level, fail, ok, warn
from shusaku.deploy.commands.doctor.machine import SLOW_CLOCK_SECONDS, TIME_SERVICE, WRONG_CLOCK_SECONDS
from shusaku.deploy.ray_runtime.node_check import NodeAnswer, differences
from shusaku.deploy.ray_runtime.node_probe import NodeFacts

LEVELS = {"core": Level.WARN}  # of a difference; the others are failures


def check_others(own: NodeFacts, answers: Sequence[NodeAnswer]) -> Iterator[Finding]:
    """A finding for each difference, with the node's name."""
    found = []
    for answer in answers:
        found += [Finding("nodes", LEVELS.get(one.what, Level.FAIL), one.text, one.fix)
                  for one in differences(own, answer)]
        if abs(answer.clock) > SLOW_CLOCK_SECONDS:
            make = fail if abs(answer.clock) > WRONG_CLOCK_SECONDS else warn
            side = "ahead of" if answer.clock > 0 else "behind"
            found.append(make("nodes", f"the clock of node {answer.name} is {abs(answer.clock):,.0f} s {side} this "
                              "node's", f"{TIME_SERVICE} on both"))
    yield from found or [ok("nodes", f"{len(answers)} others, with the same wheel, versions, token and time")]
