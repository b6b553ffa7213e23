"""What is said of a node that differs, and how far a clock is off."""

import time
from dataclasses import replace

import pytest

from shusaku.common.errors import UsageError
from shusaku.deploy.commands.doctor.finding import Level
from shusaku.deploy.commands.doctor.nodes import check_others
from shusaku.deploy.ray_runtime import node_check
from shusaku.deploy.ray_runtime.node_check import NodeAnswer, StartCheck, clock_offset, differences
from shusaku.deploy.ray_runtime.node_probe import NodeFacts, read_facts

OWN = NodeFacts("1.0", "3.11.7", "2.60.0", "c0de", "c03e", "70ce")
SAME = NodeAnswer("10.0.0.2 (w1)", OWN)


def test_what_differs_is_named_with_its_node_and_a_way_out() -> None:
    def of(**changed: str) -> tuple[str, str]:
        (found,) = differences(OWN, replace(SAME, facts=replace(OWN, **changed)))
        return found.what, f"{found.text}; {found.fix}"

    assert list(differences(OWN, SAME)) == []
    for changed, what, text in (
        ({"shusaku": "0.9"}, "wheel", "Shusaku 0.9, code c0de; this node has 1.0"),
        ({"code": "01d"}, "wheel", "code 01d; this node has 1.0, code c0de; install the same wheel on all nodes"),
        ({"core": "01d"}, "core", "a core of another build (01d, this node c03e)"),
        ({"python": "3.12.1"}, "versions", "runs Python 3.12.1, this node 3.11.7; install 3.11.7 there"),
        ({"ray": "2.59.0"}, "versions", "runs Ray 2.59.0"),
        ({"token": ""}, "token", "another Ray token (none, this node 70ce"),
    ):
        found, line = of(**changed)
        assert found == what
        assert line.startswith("node 10.0.0.2 (w1) ")
        assert text in line
        assert "\n" not in line
    (route,) = differences(OWN, replace(SAME, no_route="no answer in time"))
    assert route.what == "route"
    assert "does not reach the replay server: no answer in time" in route.text
    (silence,) = differences(OWN, NodeAnswer("10.0.0.2", silence="starts no process of ours"))
    assert silence.text == "node 10.0.0.2 starts no process of ours"


@pytest.mark.parametrize(("theirs", "asked", "answered", "offset"), [
    (100.2, 100.0, 100.5, 0.0),  # at some moment in between: nothing is known
    (160.0, 100.0, 100.5, 59.5), (40.0, 100.0, 100.5, -60.0),
])
def test_an_offset_is_what_is_certain(theirs: float, asked: float, answered: float, offset: float) -> None:
    assert clock_offset(theirs, asked, answered) == pytest.approx(offset)


@pytest.mark.parametrize(("clock", "level", "text"), [
    (0.0, Level.OK, "1 others, with the same wheel"), (-1.9, Level.OK, "1 others"),
    (5.0, Level.WARN, "the clock of node 10.0.0.2 (w1) is 5 s ahead of"),
    (-3600.0, Level.FAIL, "is 3,600 s behind this node's"),
])
def test_doctor_names_a_node_whose_clock_is_off(clock: float, level: Level, text: str) -> None:
    (finding,) = check_others(OWN, [replace(SAME, clock=clock)])
    assert finding.level is level
    assert text in finding.text


def test_another_build_of_the_core_is_a_warning_and_all_else_a_failure() -> None:
    levels = [finding.level for changed in ({"core": "x"}, {"code": "x"}, {"token": "x"})
              for finding in check_others(OWN, [replace(SAME, facts=replace(OWN, **changed))])]
    assert levels == [Level.WARN, Level.FAIL, Level.FAIL]


def raise_within(check: StartCheck, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        check.raise_refusal()
        time.sleep(0.01)


def test_a_run_is_refused_at_once_for_another_wheel_and_later_for_a_node_that_stays_silent(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    own = read_facts()
    silent = NodeAnswer("10.0.0.2", silence="starts no process of ours", node="n2")
    answers = [[NodeAnswer("10.0.0.3", own, node="n3"), silent], [silent]]

    def ask(url: str, seconds: float, only: object = None) -> list[NodeAnswer]:
        asked.append(only)
        return answers.pop(0)

    monkeypatch.setattr(node_check, "ask_nodes", ask)
    check = StartCheck("redis://h")
    check.run()  # it may be about to be lost
    with pytest.raises(UsageError, match=r"^node 10\.0\.0\.2 starts no process of ours; compare there"):
        raise_within(check, 10.0)
    assert asked == [None, ["n2"]], "only the silent one is asked again"
    answers.append([NodeAnswer("10.0.0.3", replace(own, code="x"))])
    with pytest.raises(UsageError, match="another wheel"):
        StartCheck("redis://h").run()
    answers.extend([[silent], []])  # it was lost meanwhile
    check = StartCheck("redis://h")
    check.run()
    time.sleep(0.2)
    check.raise_refusal()


def test_the_facts_of_this_machine() -> None:
    facts = read_facts()
    assert facts == read_facts()
    assert all(len(digest) == 12 for digest in (facts.code, facts.core))
