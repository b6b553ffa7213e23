"""Monte Carlo tree self-refine against a slow reference, scripted tasks, failures and threads."""

import ast
import math
import random
import threading
from pathlib import Path

import numpy as np
import pytest

from shusaku.actors.refine import DUMMY_TEXT, Node, TaskEnded, TreeSearch, as_text, draw

ROOT = Path(__file__).resolve().parents[2]


class Numbers:
    """Answers are their own names; each score is drawn anew, around a value that the answer has."""

    dummy = "dummy"

    def __init__(self, seed=0, noise=0.0, low=-100, high=99):
        self.random, self.noise, self.low, self.high = random.Random(seed), noise, low, high
        self.made, self.values, self.log = 0, {}, []

    def first(self):
        return "first"

    def critique(self, answer):
        return f"critique of {answer}"

    def refine(self, answer, critique):
        assert critique == f"critique of {answer}"
        self.made += 1
        self.log.append(("refine", answer))
        return f"answer {self.made}"

    def score(self, answer):
        value = self.values.setdefault(answer, self.random.randint(self.low, self.high))
        score = min(max(value + self.random.uniform(-self.noise, self.noise), -100.0), 99.9)
        self.log.append(("score", answer, score))
        return score


class Scripted:
    """Methods as functions; by default scores are those of a table."""

    def __init__(self, scores=None, **methods):
        self.scores, self.made = scores or {}, 0
        self.methods = methods

    def _call(self, name, default, *arguments):
        return self.methods.get(name, default)(*arguments)

    def first(self):
        return self._call("first", lambda: "a")

    def critique(self, answer):
        return self._call("critique", lambda answer: "bad", answer)

    def refine(self, answer, critique):
        self.made += 1
        return self._call("refine", lambda answer, critique: f"{answer}{self.made}", answer, critique)

    def score(self, answer):
        return self._call("score", lambda answer: self.scores.get(answer, 0), answer)


def run(task, **options):
    search = TreeSearch(task, **options)
    search.run()
    return search


# --- the reference: every number anew from the log of the task -------------------------------------------------------


class Reference:
    """The formulas of the paper by recursion over dictionaries, from nothing at each step."""

    def __init__(self, children, exploration):
        self.children, self.exploration = children, exploration
        self.parent, self.scores = {}, {}

    def kids(self, answer):
        return [kid for kid, parent in self.parent.items() if parent == answer]

    def own(self, answer):
        rewards = [50 if score >= 95 else score for score in self.scores[answer]]
        return 0.5 * (min(rewards) + np.mean(rewards))

    def q(self, answer):
        kids = [self.q(kid) for kid in self.kids(answer)]
        return 0.5 * (self.own(answer) + max(kids)) if kids else self.own(answer)

    def is_open(self, answer):
        kids = self.kids(answer)
        return len(kids) < self.children or not any(self.q(kid) > self.own(answer) for kid in kids)

    def uct(self, answer):
        parent = self.parent[answer]
        above = 1 if parent is None else len(self.scores[parent])
        return self.q(answer) + self.exploration * math.sqrt((math.log(above) + 1) / (len(self.scores[answer]) + 1e-5))

    def select(self):
        return max((answer for answer in self.scores if self.is_open(answer)), key=self.uct)


@pytest.mark.parametrize(("children", "exploration", "noise"), [
    (3, 1.4, 0), (3, 1.4, 30), (1, 1.4, 10), (2, 60, 30), (3, 200, 60), (5, 30, 0), (4, 0, 20),
])
@pytest.mark.parametrize("seed", range(4))
def test_the_search_selects_as_the_reference_does(seed, children, exploration, noise):
    compare(Numbers(seed, noise), children, exploration)


@pytest.mark.parametrize("exploration", [0, 2])
@pytest.mark.parametrize("seed", range(8))
def test_equals_are_selected_oldest_first_and_are_not_better(seed, exploration):
    compare(Numbers(seed, 0, 0, 2), 2, exploration)


def compare(task, children, exploration):
    search = run(task, rollouts=60, children=children, exploration=exploration)
    reference, log = Reference(children, exploration), iter(task.log)
    for answer in ("first", "dummy"):
        kind, scored, score = next(log)
        assert (kind, scored) == ("score", answer)
        reference.parent[answer], reference.scores[answer] = None, [score]
    for made in range(1, 61):
        chosen = reference.select()
        kind, scored, score = next(log)
        assert (kind, scored) == ("score", chosen), f"rollout {made}"
        reference.scores[chosen].append(score)
        assert next(log) == ("refine", chosen)
        kind, scored, score = next(log)
        assert (kind, scored) == ("score", f"answer {made}")
        reference.parent[scored], reference.scores[scored] = chosen, [score]
    assert next(log, None) is None
    assert search.ended_by == "rollouts"
    assert search.failures == 0
    for node in search.nodes:
        assert node.scores == reference.scores[node.answer]
        assert node.q == pytest.approx(reference.q(node.answer))
        assert (node.parent and node.parent.answer) == reference.parent[node.answer]
    worth = {answer: 0.5 * (min(scores) + np.mean(scores)) for answer, scores in reference.scores.items()}
    assert search.best.answer == max(worth, key=worth.get)


def test_equal_seeds_give_equal_trees_and_others_do_not():
    traces = [run(Numbers(seed, 20), rollouts=30).trace() for seed in (1, 1, 2)]
    assert traces[0] == traces[1]
    assert traces[0] != traces[2]


def test_scores_from_95_count_as_50_and_the_best_answer_goes_by_the_scores_themselves():
    task = Scripted({"a": 60, DUMMY_TEXT: -100, "a1": 96, "a2": 70})
    search = run(task, rollouts=2)
    # a has Q = (60 + 50) / 2 = 55 and is scored twice; a1 has Q = 50 and would be selected if it counted 96.
    assert [node.parent.answer for node in search.nodes if node.parent] == ["a", "a"]
    assert search.nodes[2].q == 50
    assert search.best.answer == "a1"
    assert search.ended_by == "rollouts"


def test_100_ends_the_search_at_once():
    task = Scripted({"a": 0, DUMMY_TEXT: -100, "a1": 100})
    search = run(task, rollouts=50)
    assert (search.ended_by, search.best.answer, search.rollouts, task.made) == ("solved", "a1", 1, 1)
    at_once = run(Scripted({"a": 100}), rollouts=50)
    assert (at_once.ended_by, at_once.rollouts, len(at_once.nodes)) == ("solved", 0, 1)


def test_a_100_that_an_answer_gets_later_makes_it_the_best():
    scores = iter([20, -100, 100])
    search = run(Scripted(score=lambda answer: next(scores)), rollouts=50)
    assert (search.ended_by, search.best.answer, search.best.worth) == ("solved", "a", 100)
    assert search.nodes[0].scores == [20, 100]
    assert (len(search.nodes), search.failures) == (2, 0)  # nothing was asked after it


def test_no_rollout_leaves_the_first_answer():
    search = run(Scripted({"a": 7, DUMMY_TEXT: 3}), rollouts=0)
    assert (search.best.answer, search.ended_by) == ("a", "rollouts")


@pytest.mark.parametrize(("attribute", "first", "expected"), [
    (None, "words", DUMMY_TEXT), (None, [1, 2], None), ([0, 0], [1, 2], [0, 0]), ("none", "words", "none"),
])
def test_the_dummy_answer(attribute, first, expected):
    task = Scripted(first=lambda: first)
    if attribute is not None:
        task.dummy = attribute
    nodes = run(task, rollouts=0).nodes
    assert [node.answer for node in nodes] == [first, *([] if expected is None else [expected])]


# --- failures --------------------------------------------------------------------------------------------------------


def fail(*arguments):
    raise RuntimeError("no\nanswer")


BROKEN = {
    "raises": (fail, "raised RuntimeError: no answer"),
    "none": (lambda *arguments: None, "answered nothing"),
    "blank": (lambda *arguments: " \n", "answered nothing"),
}
BAD_SCORES = [math.nan, math.inf, -math.inf, 100.01, -101, None, "90", True, 1j, [5]]


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("method", ["critique", "refine"])
def test_an_answer_that_cannot_be_refined_is_closed_and_the_search_goes_on(method, kind):
    broken, reason = BROKEN[kind]
    task = Scripted(score=lambda answer: {"a": 50, DUMMY_TEXT: 0}.get(answer, -50),
                    **{method: lambda answer, *rest: broken() if answer == "a" else "worse"})
    search = run(task, rollouts=3)
    assert search.nodes[0].closed == f"{method} {reason}"
    assert search.failures == 1
    assert search.first_failure == f"{method} {reason}"
    assert [node.parent.answer for node in search.nodes if node.parent] == [DUMMY_TEXT] * 2
    assert search.best.answer == "a"


@pytest.mark.parametrize("bad", [*BAD_SCORES, fail], ids=lambda bad: getattr(bad, "__name__", None) or repr(bad))
def test_an_answer_without_a_score_is_closed_and_never_the_best(bad):
    def score(answer):
        if answer == "a1":
            return bad() if callable(bad) else bad
        return {"a": 10, DUMMY_TEXT: -100, "a2": 20}.get(answer, -50)

    search = run(Scripted(score=score), rollouts=2)
    assert search.nodes[2].answer == "a1"
    assert search.nodes[2].closed.startswith("score ")
    assert "\n" not in search.nodes[2].closed
    assert search.failures == 1
    assert search.best.answer == "a2"
    assert search.trace()["nodes"][2]["q"] is None


def test_an_answer_whose_second_score_fails_is_closed_and_stays_the_best():
    scores = iter([10, -100, math.nan, -100, -100])
    search = run(Scripted(score=lambda answer: next(scores)), rollouts=2)
    assert search.nodes[0].closed == "score answered nan: must be a number in [-100, 100]"
    assert search.best is search.nodes[0]
    assert search.nodes[2].parent.answer == DUMMY_TEXT


def test_a_closed_refinement_counts_as_one_that_is_not_better():
    bad = {"a1", "a2", "a3"}
    search = run(Scripted(score=lambda answer: math.nan if answer in bad else 10 * (answer == "a")), rollouts=4)
    assert [node.answer for node in search.nodes[0].children] == ["a1", "a2", "a3", "a4"]


NO_JSON = {
    "array": (lambda: np.zeros(3), "answered ndarray, which JSON cannot hold"),
    "NaN": (lambda: [math.nan], "answered list, which JSON cannot hold"),
    "half a character": (lambda: "\ud800", "answered str, which JSON cannot hold"),
}


@pytest.mark.parametrize("kind", [*BROKEN, *NO_JSON])
def test_without_a_first_answer_the_dummy_is_left(kind):
    broken, reason = {**BROKEN, **NO_JSON}[kind]
    task = Scripted({"dummy": 0, "dummy1": 5}, first=broken)
    alone = run(task, rollouts=3)
    assert (alone.best, alone.ended_by, alone.failures) == (None, "no_open_answer", 1)
    assert alone.first_failure == f"first {reason}"
    task.dummy, task.made = "dummy", 0
    assert run(task, rollouts=1).best.answer == "dummy1"


def test_a_search_in_which_all_fails_ends():
    search = run(Scripted({"a": 1}, refine=fail), rollouts=1000)
    assert (search.ended_by, search.rollouts, search.failures) == ("no_open_answer", 2, 2)
    assert search.best.answer == "a"


@pytest.mark.parametrize("method", ["score", "critique", "refine"])
def test_a_task_that_ends_closes_no_answer(method):
    calls = []

    def end(*arguments):
        calls.append(arguments)
        if len(calls) > 4:
            raise TaskEnded("all\nspent")
        return 5 if method == "score" else f"{method} {len(calls)}"

    search = run(Scripted(**{method: end}), rollouts=1000)
    assert search.ended_by == "task: all spent"
    assert search.failures == 0
    assert all(node.closed == "" for node in search.nodes)
    assert search.best is not None


def test_our_own_interruption_goes_through_and_keeps_the_tree():
    def stop(answer, critique):
        raise KeyboardInterrupt

    search = TreeSearch(Scripted({"a": 3}, refine=stop), 5)
    with pytest.raises(KeyboardInterrupt):
        search.run()
    assert (search.ended_by, search.best.answer, len(search.nodes)) == ("stop", "a", 2)


# --- several at once -------------------------------------------------------------------------------------------------


class Counted(Numbers):
    """Counts how many refinements are made at once; the first ones wait for each other."""

    def __init__(self, at_once):
        super().__init__()
        self.lock, self.running, self.most = threading.Lock(), 0, 0
        self.barrier, self.waits = threading.Barrier(at_once), at_once

    def refine(self, answer, critique):
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)
            is_one_of_the_first, self.waits = self.waits > 0, self.waits - 1
        if is_one_of_the_first:
            self.barrier.wait(20)  # breaks unless all of them come
        with self.lock:
            self.running -= 1
            return super().refine(answer, critique)

    def score(self, answer):
        with self.lock:
            return super().score(answer)


@pytest.mark.parametrize("workers", [2, 5])
def test_several_refinements_are_made_at_once_and_no_more_than_that(workers):
    task = Counted(workers)
    search = run(task, rollouts=200, workers=workers, exploration=30)
    assert task.most == workers
    assert search.failures == 0
    assert (search.rollouts, len(search.nodes)) == (200, 202)
    assert [node.pending for node in search.nodes] == [0] * 202
    reference = Reference(3, 30)
    for node in search.nodes:
        reference.parent[node.answer], reference.scores[node.answer] = node.parent and node.parent.answer, node.scores
    assert all(node.q == pytest.approx(reference.q(node.answer)) for node in search.nodes)
    assert sum(node.visits for node in search.nodes) == 202 + 200


def test_refinements_that_are_being_made_send_the_next_worker_elsewhere():
    """One child at most: with both answers taken, the third worker waits until one is back."""
    chosen, both = [], threading.Barrier(2)

    def critique(answer):
        chosen.append(answer)
        if len(chosen) <= 2:
            both.wait(20)
        return "bad"

    run(Scripted({"a": 50}, critique=critique), rollouts=3, workers=3, children=1)
    assert sorted(chosen[:2]) == sorted(["a", DUMMY_TEXT])


def test_a_refinement_that_is_being_made_counts_as_a_visit_and_as_a_child():
    parent = Node(0, None, "a", scores=[1, 1], pending=1)
    node = Node(1, parent, "b", scores=[7], q=7, pending=2)
    assert node.uct(3) == pytest.approx(7 + 3 * math.sqrt((math.log(3) + 1) / (3 + 1e-5)))
    assert parent.uct(0) == parent.q
    assert [node.is_open(children) for children in (2, 3)] == [False, True]
    node.pending = 0
    assert node.is_open(1)


def test_a_solution_does_not_wait_for_a_call_that_hangs():
    hangs, release = threading.Event(), threading.Event()

    def refine(answer, critique):
        if answer == DUMMY_TEXT:
            hangs.set()
            release.wait(60)
        else:
            assert hangs.wait(20)
        return "solution"

    task = Scripted({"a": 0, DUMMY_TEXT: -1, "solution": 100}, refine=refine)
    try:
        search = run(task, rollouts=10, workers=2, children=1)
        assert search.ended_by == "solved"
        assert not release.is_set()
    finally:
        release.set()


def test_after_the_end_of_the_task_the_calls_that_go_on_are_waited_for():
    ended, other_works = threading.Event(), threading.Event()

    def refine(answer, critique):
        if answer == "a":
            assert other_works.wait(20)
            ended.set()
            raise TaskEnded("spent")
        other_works.set()
        assert ended.wait(20)
        return "late"

    search = run(Scripted({"a": 0, DUMMY_TEXT: -1, "late": 90}, refine=refine), rollouts=10, workers=2, children=1)
    assert search.ended_by == "task: spent"
    assert search.best.answer == "late"


def test_our_own_mistake_in_a_worker_reaches_the_caller():
    def mistake(node, rollouts):
        if rollouts:
            raise AssertionError("ours")

    search = TreeSearch(Scripted({"a1": 5}), 4, workers=2, on_best=mistake)
    with pytest.raises(AssertionError, match="ours"):
        search.run()


# --- the trace -------------------------------------------------------------------------------------------------------


def test_a_trace_is_drawn_as_a_tree():
    task = Scripted({"a": 10, DUMMY_TEXT: -100, "a1": 20, "a12": 0, "a13": 40})
    search = run(task, rollouts=3)
    assert draw(search.trace()) == (
        "├─ 0 Q 20.0, scores 10 10 a\n"
        "│  └─ 2 Q 30.0, scores 20 20 20 a1\n"
        "│     ├─ 3 Q 0.0, scores 0 a12\n"
        "│     └─ 4* Q 40.0, scores 40 a13\n"
        "└─ 1 Q -100.0, scores -100 I do not know."
    )


def test_a_trace_holds_the_tree():
    task = Scripted({"a": 10, "no": -100, "a1": 20}, critique=lambda answer: {1})
    task.dummy = "no"
    trace = run(task, rollouts=1).trace()
    assert trace == {
        "rollouts": 1, "ended_by": "rollouts", "failures": 0, "best": 2,
        "nodes": [
            {"id": 0, "parent": None, "answer": "a", "critique": None, "scores": [10, 10], "q": 15, "closed": ""},
            {"id": 1, "parent": None, "answer": "no", "critique": None, "scores": [-100], "q": -100, "closed": ""},
            {"id": 2, "parent": 0, "answer": "a1", "critique": "{1}", "scores": [20], "q": 20, "closed": ""},
        ],
    }


def test_a_terminal_gets_no_commands_from_a_model():
    bell = "red \x1b[31m\x07\nnext\tline \x9b1m"
    search = run(Scripted({bell: 10}, first=lambda: bell, critique=fail), rollouts=1)
    shown = draw(search.trace()) + as_text(search.best.answer)
    assert not any(letter in shown for letter in "\x1b\x07\x9b")
    assert as_text(bell) == "red �[31m�\nnext\tline �1m"
    assert search.trace()["nodes"][0]["answer"] == bell


def test_a_long_chain_is_drawn_without_recursion():
    nodes = [{"id": number, "parent": number - 1 if number else None, "answer": "x", "critique": None, "scores": [1.0],
              "q": 1.0, "closed": "score raised E" if number == 3 else ""} for number in range(3000)]
    lines = draw({"nodes": nodes, "best": 5}).splitlines()
    assert len(lines) == 3000
    assert lines[3].endswith("closed, score raised E: x")
    assert lines[5].lstrip().startswith("└─ 5* Q 1.0")


def test_only_the_command_imports_it():
    importers = set()
    for folder in ("actors", "common", "deploy", "learner", "replay"):
        for file in (ROOT / folder).rglob("*.py"):
            names = [node.module for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
                     if isinstance(node, ast.ImportFrom) and node.module]
            if any(name.startswith("shusaku.actors.refine") for name in names):
                importers.add(file.relative_to(ROOT).as_posix())
    assert importers == {"deploy/commands/refine.py", "actors/refine_tasks/endpoint.py"}
