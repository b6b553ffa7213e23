"""GTP between an engine and its pipes: answers, and searches that go on while lines come in."""

import time
import traceback
from collections.abc import Callable

from shusaku.actors.analysis.report import Report
from shusaku.deploy.protocols.gtp.commands import commands_of
from shusaku.deploy.protocols.gtp.engine import Engine, Thinking
from shusaku.deploy.protocols.gtp.text import CommandError, Request, format_answer, parse_request
from shusaku.deploy.protocols.line_loop import Say

INTERRUPT = "# interrupt"  # GoGui's, a comment for all others


class GtpShell:
    """Takes lines and says answers; `line_loop.serve` calls it from one thread.

    An analysis ends with the next line, a search for a move with `stop` or GoGui's comment alone; other lines that come
    meanwhile wait for the move.
    """

    def __init__(self, engine: Engine, say: Say, log: Callable[[str], None]) -> None:
        self._engine, self._say, self._log = engine, say, log
        self._thinking: Thinking | None = None
        self._number = ""  # the id of the command that thinks
        self._next_report = 0.0  # seconds of time.monotonic()

    @property
    def is_busy(self) -> bool:
        """Whether a search runs for an answer."""
        return self._thinking is not None

    def receive(self, line: str) -> bool:
        """Takes a line; False: it was `quit`."""
        is_interrupt = line.strip().lower() == INTERRUPT
        request = parse_request(line)
        if self._thinking is not None:
            if not (self._thinking.ends_at_input or is_interrupt or (request and request.name == "stop")):
                self._await_end()
            self._finish()
        if request is None:
            return True
        self._answer(request)
        return request.name != "quit"

    def advance(self) -> None:
        """Says a report if one is due, and the end of an answer whose search has ended."""
        thinking = self._thinking
        if thinking is None:
            return
        if not thinking.ends_at_input and self._has_ended(0):
            self._finish()
        elif thinking.show and time.monotonic() >= self._next_report:
            self._show(thinking)

    def end(self) -> None:
        """The input has ended: a move that is searched is still answered."""
        try:
            if self._thinking is not None:
                if not self._thinking.ends_at_input:
                    self._await_end()
                self._finish()
        finally:
            self._engine.close()

    def _answer(self, request: Request) -> None:
        try:
            command = commands_of(self._engine).get(request.name)
            if command is None:
                raise CommandError("unknown command")
            answer = self._engine.run(command, request.words)
            if isinstance(answer, Thinking):
                self._begin(request.number, answer)
                return
        except CommandError as error:
            self._say_answer(request.number, str(error), is_error=True)
        except Exception as error:
            self._number = request.number
            self._fail(error)
        else:
            self._say_answer(request.number, answer)
            self._engine.ponder()

    def _begin(self, number: str, thinking: Thinking) -> None:
        self._engine.start(thinking)
        self._thinking, self._number = thinking, number
        self._next_report = time.monotonic() + thinking.interval
        if thinking.show:
            self._say(f"={number}")

    def _await_end(self) -> None:
        """Waits for the search, and goes on to report."""
        while not self._has_ended(0.02):
            self.advance()

    def _has_ended(self, seconds: float) -> bool:
        """Waits so long; whether the search has ended, or has failed, which is answered then."""
        try:
            return self._thinking is None or self._engine.analysis.wait(seconds)
        except Exception as error:
            self._fail(error)
            return True

    def _fail(self, error: Exception) -> None:
        """A fault of ours must not end the client's game: the answer says so, or ends if it has begun."""
        self._log(traceback.format_exc())
        thinking, self._thinking = self._thinking, None
        if thinking is not None and thinking.show:
            self._say("")
        else:
            self._say_answer(self._number, f"internal error: {error}", is_error=True)

    def _show(self, thinking: Thinking) -> None:
        self._next_report = time.monotonic() + thinking.interval
        self._say_report(thinking, self._engine.analysis.report())

    def _say_report(self, thinking: Thinking, report: Report) -> None:
        """A line, unless nothing is known yet: an empty line would end the answer."""
        text = thinking.show(report) if thinking.show else ""
        if text:
            self._say(text)

    def _finish(self) -> None:
        """Ends the search and the answer."""
        thinking = self._thinking
        if thinking is None:
            return
        try:
            report = self._engine.analysis.stop()
            text = thinking.finish(report)
        except Exception as error:
            self._fail(error)
            return
        self._thinking = None
        if thinking.show:
            self._say_report(thinking, report)
            self._say(f"{text}\n" if text else "")
        else:
            self._say_answer(self._number, text)
        if not thinking.ends_at_input:
            self._engine.ponder()

    def _say_answer(self, number: str, text: str, *, is_error: bool = False) -> None:
        self._say(format_answer(number, text, is_error=is_error).removesuffix("\n"))
