"""Several processes that measure something together, and what becomes of it when one of them cannot."""

import queue
import time
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from typing import Any

from shusaku.actors.inference.client import EvaluationStoppedError
from shusaku.common.errors import RunError, UsageError


def collect_answers(processes: Sequence[BaseProcess], results: Any, seconds: float) -> list[dict[str, Any]]:
    """One of each process, which runs `put_answer`; what one of them met is raised here.  None of them stays."""
    answers: list[dict[str, Any]] = []
    for process in processes:
        process.start()
    until = time.monotonic() + seconds
    try:
        while len(answers) < len(processes):
            answer = _next(processes, results, until, seconds)
            if isinstance(answer, Exception):
                raise answer
            if answer is not None:
                answers.append(answer)
    finally:
        for process in processes:
            process.join(5 if len(answers) == len(processes) else 0)
            process.kill()
            process.join()
    return answers


def put_answer(results: Any, function: Callable[..., dict[str, Any]], *told: Any) -> None:
    """Hands the answer of a function over, or what is to be told to the user."""
    try:
        results.put(function(*told))
    except (UsageError, RunError) as error:
        results.put(error)
    except EvaluationStoppedError:
        results.put(RunError("the inference server did not answer a player in time"))


def _next(processes: Sequence[BaseProcess], results: Any, until: float, seconds: float) -> Any:
    try:
        return results.get(timeout=0.5)
    except queue.Empty:
        dead = [process.exitcode for process in processes if process.exitcode]
        if dead:
            raise RunError(f"a process of the bench ended with exit code {dead[0]}") from None
        if time.monotonic() > until:
            raise RunError(f"the bench has not ended after {seconds:.0f} s") from None
        return None
