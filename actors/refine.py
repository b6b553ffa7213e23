"""Monte Carlo tree self-refine: a search over answers (Zhang et al., 2024, arXiv 2406.07394, section 3).

A node is an answer, an edge the refinement that made one answer from another by a critique.  A rollout selects an
answer, scores it again, asks for a critique and a better answer, and scores that:

    Q(a) = 1/2 (min R_a + mean R_a)                 R_a: the rewards of the answer, one for each time it was scored
    Q(a) <- 1/2 (Q(a) + max Q of its children)      from the new answer up, each from its own rewards
    UCT(a) = Q(a) + c sqrt((ln N(parent) + 1) / (N(a) + epsilon))

N(a) is how often the answer was scored, and 1 for the question, the parent of the first answer and of the dummy one.
An answer is open with fewer than `children` refinements or while none of them has a higher Q; the open answer with the
largest UCT is selected, the oldest of equals.  Scores from 95 up count as a reward of 50, so that a generous judge
does not end the search; the best answer goes by scores as they were given, and a score of 100 ends the search.

What an answer is, and what scores it, is the task's: one of `actors/refine_tasks/`, or the user's.
"""

import json
import math
import numbers
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

LOWEST_SCORE, HIGHEST_SCORE = -100.0, 100.0
SUPPRESSED_FROM = 95.0  # a score from here up counts as a reward of
SUPPRESSED_REWARD = 50.0
EPSILON = 1e-5
MOST_WORKERS = 64
SHORTEST_LINE = 40  # of the text behind a deep indent
DUMMY_TEXT = "I do not know."  # beside a first answer in words; another task names its own as `dummy`

Answer = Any  # what JSON can hold: a text, numbers, lists, maps


class Task(Protocol):
    """What is searched.  With several workers, its methods are called by several threads at once.

    A task may have an attribute `dummy`, an answer that is certainly bad; if it has none and answers in words, the
    dummy answer is DUMMY_TEXT.  It may count its paid calls in an attribute `calls_made`.  What a method raises closes
    the answer that it was called for, except TaskEnded.
    """

    def first(self) -> Answer:
        """A first answer to the question."""

    def critique(self, answer: Answer) -> Any:
        """What is wrong with the answer, for `refine`."""

    def refine(self, answer: Answer, critique: Any) -> Answer:
        """A better answer."""

    def score(self, answer: Answer) -> float:
        """In [-100, 100]; 100: the answer is right, and the search ends.  It may differ from call to call."""


class TaskEnded(Exception):
    """Raised by a task that can answer no more, such as after its last paid call: the search ends with what it has."""


@dataclass
class Node:
    """One answer, and what is known of it."""

    id: int  # in the order in which the answers came
    parent: "Node | None"  # the answer that it refines; None: the question's first answer, or the dummy one
    answer: Answer
    critique: Any = None  # of the parent's answer, by which this one was made
    scores: list[float] = field(default_factory=list)  # as the task gave them
    children: list["Node"] = field(default_factory=list)
    q: float = -math.inf  # backed up
    pending: int = 0  # refinements that workers are making of it now
    closed: str = ""  # why it is selected no more; empty: it can be

    @property
    def visits(self) -> int:
        """N: how often it was scored."""
        return len(self.scores)

    @property
    def own_q(self) -> float:
        """Q by its own rewards alone."""
        return _low_mean([SUPPRESSED_REWARD if score >= SUPPRESSED_FROM else score for score in self.scores])

    @property
    def worth(self) -> float:
        """By which the best answer is chosen: as `own_q`, from the scores as they were given; 100 if one of them is."""
        return HIGHEST_SCORE if HIGHEST_SCORE in self.scores else _low_mean(self.scores)

    def back_up(self) -> None:
        """Computes Q anew, here and in all answers that this one refines."""
        node: Node | None = self
        while node is not None:
            below = [child.q for child in node.children if child.scores]
            node.q = (node.own_q + max(below)) / 2 if below else node.own_q
            node = node.parent

    def is_open(self, most_children: int) -> bool:
        """Whether it may be refined once more; a refinement that is still being made counts as a better one."""
        if self.closed or not self.scores:
            return False
        if len(self.children) + self.pending < most_children:
            return True
        return not self.pending and all(child.q <= self.q for child in self.children)

    def uct(self, exploration: float) -> float:
        """The bound by which an answer is selected; refinements that are being made count as visits."""
        above = self.parent.visits + self.parent.pending if self.parent else 1
        return self.q + exploration * math.sqrt((math.log(above) + 1) / (self.visits + self.pending + EPSILON))


class TreeSearch:
    """The search; `run` once, then read `best`, `ended_by`, `failures` and `trace()`, also after an interruption.

    With one worker everything happens in the caller's thread, in an order that only the task's answers decide.
    """

    def __init__(
        self, task: Task, rollouts: int = 8, children: int = 3, exploration: float = 1.4, workers: int = 1,
        on_best: Callable[[Node, int], None] = lambda node, rollouts: None,
    ) -> None:
        """`rollouts`: refinements that are asked for; `on_best(node, rollouts so far)`: at each better answer."""
        assert rollouts >= 0, rollouts
        assert children >= 1, children
        assert 1 <= workers <= MOST_WORKERS, workers
        self._task, self._rollouts, self._children, self._exploration = task, rollouts, children, exploration
        self._workers, self._on_best = workers, on_best
        self._changed = threading.Condition()  # guards all that follows
        self._working = 0  # threads
        self._broken: BaseException | None = None  # raised in a thread by our own mistake
        self.nodes: list[Node] = []
        self.best: Node | None = None  # by `worth`, the oldest of equals
        self.rollouts = 0  # begun
        self.failures = 0  # calls of the task that raised, scored no number in range or answered nothing
        self.first_failure = ""
        self.ended_by = ""  # solved | rollouts | no_open_answer | task: ... | stop; empty: it goes on

    def run(self) -> None:
        """Searches to the end; an exception that is none of the task's, such as KeyboardInterrupt, goes through."""
        try:
            self._begin()
            if self._workers == 1:
                self._work()
            else:
                self._work_in_threads()
            self._end("rollouts" if self.rollouts == self._rollouts else "no_open_answer")
        finally:
            self._end("stop")

    def trace(self) -> dict[str, Any]:
        """The tree as JSON; `best` is the id of a node, or None if no answer was scored."""
        with self._changed:
            return {
                "rollouts": self.rollouts, "ended_by": self.ended_by, "failures": self.failures,
                "best": None if self.best is None else self.best.id,
                "nodes": [
                    {"id": node.id, "parent": None if node.parent is None else node.parent.id, "answer": node.answer,
                     "critique": node.critique if _is_json(node.critique) else _line(node.critique),
                     "scores": list(node.scores), "q": node.q if node.scores else None, "closed": node.closed}
                    for node in self.nodes
                ],
            }

    # --- workers -----------------------------------------------------------------------------------------------------

    def _work_in_threads(self) -> None:
        """Waits for all workers, but for no call that is still going on when the answer is found.

        They are daemons, because such a call may last long.
        """
        threads = [threading.Thread(target=self._work_in_thread, daemon=True) for _ in range(self._workers)]
        self._working = len(threads)
        for thread in threads:
            thread.start()
        with self._changed:
            self._changed.wait_for(lambda: not self._working or self._broken or self.ended_by == "solved")
            if self._broken is not None:
                raise self._broken

    def _work_in_thread(self) -> None:
        broken: BaseException | None = None
        try:
            self._work()
        except BaseException as error:
            broken = error
        with self._changed:
            self._broken = self._broken or broken
            self._working -= 1
            self._changed.notify_all()

    def _work(self) -> None:
        """Rollout after rollout, until the search has ended."""
        while (node := self._select()) is not None:
            try:
                self._roll_out(node)
            finally:
                with self._changed:
                    node.pending -= 1
                    self._changed.notify_all()

    def _select(self) -> Node | None:
        """The answer to refine next; waits while only refinements that are being made can open one.  None: the end."""
        with self._changed:
            while not self.ended_by and self.rollouts < self._rollouts:
                found = [node for node in self.nodes if node.is_open(self._children)]
                if found:
                    node = max(found, key=lambda node: node.uct(self._exploration))
                    node.pending += 1
                    self.rollouts += 1
                    return node
                if not any(node.pending for node in self.nodes):
                    return None
                self._changed.wait()
            return None

    def _end(self, reason: str) -> None:
        with self._changed:
            self.ended_by = self.ended_by or reason
            self._changed.notify_all()

    # --- one rollout -------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """The first answer and the dummy one."""
        first = self._ask("first")
        if first.failure:
            self._count(first)
        else:
            self._score(self._add(None, first.value))
        dummy = getattr(self._task, "dummy", DUMMY_TEXT if isinstance(first.value, str) else None)
        if dummy is not None and not self.ended_by:
            self._score(self._add(None, dummy))

    def _roll_out(self, node: Node) -> None:
        if not self._score(node) or self.ended_by:
            return
        critique = self._ask("critique", node.answer)
        better = critique if critique.failure else self._ask("refine", node.answer, critique.value)
        if better.failure:
            self._close(node, better)
        else:
            self._score(self._add(node, better.value, critique.value))

    def _add(self, parent: Node | None, answer: Answer, critique: Any = None) -> Node:
        with self._changed:
            node = Node(len(self.nodes), parent, answer, critique)
            self.nodes.append(node)
            if parent is not None:
                parent.children.append(node)
            return node

    def _score(self, node: Node) -> bool:
        """Scores an answer once more, and backs its Q up; False, with the answer closed, if that failed."""
        found = self._ask("score", node.answer)
        if found.failure:
            self._close(node, found)
            return False
        with self._changed:
            node.scores.append(found.value)
            node.back_up()
            before = self.best
            self.best = max((known for known in self.nodes if known.scores), key=lambda known: known.worth)
            if found.value == HIGHEST_SCORE:
                self._end("solved")
            if self.best is not before:
                self._on_best(self.best, self.rollouts)
        return True

    def _close(self, node: Node, reply: "_Reply") -> None:
        """Selects the answer no more, unless it was the task that ended."""
        with self._changed:
            if not reply.is_end:
                node.closed = reply.failure
        self._count(reply)

    def _count(self, reply: "_Reply") -> None:
        with self._changed:
            if not reply.is_end:
                self.failures += 1
                self.first_failure = self.first_failure or reply.failure

    def _ask(self, method: str, *arguments: Any) -> "_Reply":
        """Calls the task; what it answers, or why that is no answer."""
        try:
            value = getattr(self._task, method)(*arguments)
        except TaskEnded as error:
            self._end(f"task: {_line(error)}")
            return _Reply(None, _line(error), is_end=True)
        except Exception as error:
            return _Reply(None, f"{method} raised {type(error).__name__}: {_line(error)}")
        if method == "score":
            return _check_score(value)
        if value is None or (isinstance(value, str) and not value.strip()):
            return _Reply(None, f"{method} answered nothing")
        if method != "critique" and not _is_json(value):
            return _Reply(None, f"{method} answered {type(value).__name__}, which JSON cannot hold")
        return _Reply(value)


@dataclass(frozen=True)
class _Reply:
    """What a call of the task gave."""

    value: Any
    failure: str = ""  # why it cannot be used
    is_end: bool = False  # because the task has ended


def _check_score(value: Any) -> _Reply:
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not LOWEST_SCORE <= value <= HIGHEST_SCORE:
        return _Reply(None, f"score answered {_line(value)}: must be a number in [{LOWEST_SCORE:g}, {HIGHEST_SCORE:g}]")
    return _Reply(float(value))


def _low_mean(values: list[float]) -> float:
    """1/2 (min + mean): a mean that a single generous score cannot raise much."""
    return (min(values) + sum(values) / len(values)) / 2


def _is_json(value: Any) -> bool:
    """Whether it can be written as JSON in UTF-8, so without NaN and lone surrogates."""
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def as_text(answer: Answer) -> str:
    """For a terminal, which must not obey what a model writes: characters that do not print are replaced."""
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "�" for letter in text)


def _line(value: Any, width: int = 200) -> str:
    text = " ".join(as_text(str(value)).split())
    return text if len(text) <= width else f"{text[: width - 3]}..."


def draw(trace: Mapping[str, Any], width: int = 120) -> str:
    """A trace as a tree of text, one answer a line: id (`*`: the best), Q, scores, answer, why it is closed."""
    below: dict[int | None, list[Mapping[str, Any]]] = {}
    for node in trace["nodes"]:
        below.setdefault(node["parent"], []).append(node)
    lines = []
    waiting = [(node, "") for node in reversed(below.get(None, []))]  # a stack: a chain may be longer than Python's
    while waiting:
        node, indent = waiting.pop()
        is_last = node is below[node["parent"]][-1]
        branch = f"{indent}{'└' if is_last else '├'}─ "
        lines.append(branch + _line(_describe(node, trace["best"]), max(SHORTEST_LINE, width - len(branch))))
        indent += "   " if is_last else "│  "
        waiting += [(child, indent) for child in reversed(below.get(node["id"], []))]
    return "\n".join(lines)


def _describe(node: Mapping[str, Any], best: int | None) -> str:
    scores = " ".join(f"{score:g}" for score in node["scores"])
    known = f"Q {node['q']:.1f}, scores {scores}" if scores else "-"
    closed = f"closed, {node['closed']}: " if node["closed"] else ""
    mark = "*" if node["id"] == best else ""
    return f"{node['id']}{mark} {known} {closed}{as_text(node['answer'])}"
