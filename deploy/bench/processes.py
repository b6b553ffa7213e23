"""Several processes that measure something together, and what becomes of it when one of them cannot."""

import math
import multiprocessing
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from shusaku.actors.inference.client import EvaluationStoppedError
from shusaku.common.config.schema import Config
from shusaku.common.errors import RunError, UsageError
from shusaku.common.external.entry import adopt, decisions

CONTEXT = multiprocessing.get_context("spawn")  # a fork would copy the threads' locks
T = TypeVar("T")


def run_in_subprocess(function: Callable[[Config], T], config: Config, seconds: float = math.inf) -> T:
    """In a process of its own, so that its memory is its own and its threads end with it; errors as below."""
    answer: T = run_in_processes([partial(function, config)], seconds)[0]
    return answer


def run_in_processes(calls: Sequence[Callable[[], Any]], seconds: float = math.inf) -> list[Any]:
    """The answer of each call, made in a process of its own.  None of them stays, and all end with this program.

    UsageError and RunError of a call are raised here; RunError if a process ends without an answer or takes longer.
    """
    processes: dict[Connection, BaseProcess] = {}
    answers: dict[Connection, Any] = {}
    until = time.monotonic() + seconds
    try:
        for call in calls:
            receiver, sender = CONTEXT.Pipe(duplex=False)
            processes[receiver] = CONTEXT.Process(target=_send_answer, args=(call, sender, decisions()), daemon=True)
            processes[receiver].start()
            sender.close()  # so that the child's end is the only one
        while waiting := processes.keys() - answers.keys():
            ready = wait(waiting, None if seconds == math.inf else max(0.0, until - time.monotonic()))
            if not ready:
                raise RunError(f"the bench has not ended after {seconds:.0f} s")
            for receiver in processes.keys() & ready:
                answers[receiver] = _receive(receiver, processes[receiver])
    finally:
        for receiver, process in processes.items():
            process.join(5 if len(answers) == len(processes) else 0)
            process.kill()
            process.join()
            receiver.close()
    return [answers[receiver] for receiver in processes]


def _receive(receiver: Connection, process: BaseProcess) -> Any:
    try:
        answer, error = receiver.recv()
    except EOFError:
        process.join()
        raise RunError(f"the process that measures ended with exit code {process.exitcode}") from None
    if error is not None:
        raise error
    return answer


def _send_answer(call: Callable[[], Any], sender: Connection, decided: tuple[frozenset[str], bool]) -> None:
    adopt(decided)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to us as well; our parent decides
    try:
        sender.send((call(), None))
    except (UsageError, RunError) as error:
        sender.send((None, error))
    except EvaluationStoppedError:
        sender.send((None, RunError("the inference server did not answer a player in time")))
