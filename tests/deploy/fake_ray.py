"""A stand-in for Ray: calls that the test answers, in the order that it wants, and nothing that may block."""

from types import SimpleNamespace
from typing import Any

import pytest
import ray

HERE, ELSEWHERE = "this node", "another node"


class Call:
    """What `.remote()` returns: open until the test answers it."""

    def __init__(self, method: str, arguments: tuple[Any, ...]) -> None:
        self.method, self.arguments = method, arguments
        self.is_done = False
        self.value: Any = None
        self.error: Exception | None = None

    def answer(self, value: Any = None) -> None:
        self.is_done, self.value = True, value

    def fail(self, error: Exception) -> None:
        self.is_done, self.error = True, error


class FakeHandle:
    """Of an actor; remembers who called what."""

    def __init__(self) -> None:
        self.made: list[Call] = []
        self.is_killed = False

    def __getattr__(self, method: str) -> Any:
        def remote(*arguments: Any) -> Call:
            self.made.append(Call(method, arguments))
            return self.made[-1]

        return SimpleNamespace(remote=remote)

    def calls(self, method: str) -> list[Call]:
        return [call for call in self.made if call.method == method]

    def newest(self, method: str) -> Call:
        return self.calls(method)[-1]


class FakeRay:
    """The part of `ray` that the driver uses; a `get` that would have to wait fails the test."""

    exceptions = ray.exceptions

    def __init__(self) -> None:
        self.stored: list[Any] = []
        self.actors: list[SimpleNamespace] = []  # started: cls, options, arguments, handle

    def wait(self, references: list[Call], *, timeout: float) -> tuple[list[Call], list[Call]]:
        assert timeout <= 0.1, "the driver's loop must go on"
        return [r for r in references if r.is_done], [r for r in references if not r.is_done]

    def get(self, reference: Call) -> Any:
        assert reference.is_done, f"waits for {reference.method}"
        if reference.error is not None:
            raise reference.error
        return reference.value

    def put(self, value: Any) -> Any:
        self.stored.append(value)
        return SimpleNamespace(stored=value)

    def kill(self, handle: FakeHandle, *, no_restart: bool) -> None:
        assert no_restart, "the supervisor restarts, under a new incarnation"
        handle.is_killed = True

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(get_node_id=lambda: HERE)

    def remote(self, actor_class: type) -> Any:
        def start(options: dict[str, Any], arguments: tuple[Any, ...]) -> FakeHandle:
            self.actors.append(
                SimpleNamespace(cls=actor_class, options=options, arguments=arguments, handle=FakeHandle())
            )
            handle: FakeHandle = self.actors[-1].handle
            return handle

        return SimpleNamespace(options=lambda **options: SimpleNamespace(remote=lambda *a: start(options, a)))


class Clock:
    """In place of the module `time`; time passes when the test says so, or when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    time = monotonic

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def install(monkeypatch: pytest.MonkeyPatch, *modules: str) -> tuple[FakeRay, Clock]:
    """Both in place of the real ones in these modules of `deploy`, as far as they use them."""
    fake, clock = FakeRay(), Clock()
    for module in modules:
        monkeypatch.setattr(f"deploy.{module}.ray", fake)
        monkeypatch.setattr(f"deploy.{module}.time", clock, raising=False)
    return fake, clock


def task_error(cause: Exception) -> Exception:
    """What `ray.get` raises where the method itself raised."""
    trace = f"ray::Worker.run()\n  File \"worker.py\", line 1, in run\n{type(cause).__name__}: {cause}\n"
    exceptions: Any = ray.exceptions
    error: Exception = exceptions.RayTaskError("run", trace, cause).as_instanceof_cause()
    return error


def death(text: str = "The actor died unexpectedly before finishing this task.") -> Exception:
    """What `ray.get` raises where the process is gone."""
    error: Exception = ray.exceptions.RayActorError(error_msg=text)
    return error
