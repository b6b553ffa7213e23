"""The Go Text Protocol, version 2: a question, and its answer up to an empty line."""

from shusaku.actors.opponents.process import EngineFault, EngineProcess, quote

MAX_ANSWER = 1 << 16  # bytes


class Refused(Exception):
    """The engine answered `?`: it will not do this, and lives on."""


class GtpEngine(EngineProcess):
    """Asks one thing at a time."""

    def ask(self, command: str, seconds: float) -> str:
        """The text of the answer, without its `=`.

        Refused with the text behind `?`; EngineFault when it dies, takes longer, or says what no answer is; Stopped
        when the match is.
        """
        if early := self.unread().strip():
            raise EngineFault("garbage", f"said {quote(early)} before it was asked to {command}")
        self.send(command)
        answer = self.receive(
            command, seconds, lambda said: _take_answer(command, said), "the empty line that ends an answer"
        )
        text = answer[1:].decode(errors="replace").strip()
        if answer[:1] == b"?":
            raise Refused(text or "no reason given")
        return text


def _take_answer(command: str, said: bytes) -> tuple[bytes | None, bytes]:
    """Everything up to the empty line that ends an answer, and what follows it."""
    text = said.replace(b"\r", b"").lstrip(b"\n")
    if text and text[:1] not in b"=?":
        raise EngineFault("garbage", f"answered {quote(text)} to {command}; an answer begins with = or ?")
    answer, end, rest = text.partition(b"\n\n")
    if end:
        return answer, rest
    if len(text) > MAX_ANSWER:
        raise EngineFault("garbage", f"answered {command} with more than {MAX_ANSWER:,} bytes: {quote(text)}")
    return None, text
