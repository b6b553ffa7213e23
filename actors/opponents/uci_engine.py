"""UCI, and its twin for shogi USI: lines without numbers, of which one word decides what they are.

UCI: Meyer-Kahlen and Huber, "Description of the universal chess interface", 2004.  USI: Tord Romstad, 2007.
"""

from collections.abc import Callable, Sequence

from shusaku.actors.opponents.process import EngineFault, EngineProcess, quote
from shusaku.actors.opponents.uci_options import EngineOption, parse_option

MAX_LINE = 1 << 16  # bytes
MAX_OUTPUT = 1 << 25  # bytes in all before an answer: a search may talk for a minute, a flood is ended before


class UciEngine(EngineProcess):
    """Asks one thing at a time; words that it does not know are passed over, as UCI wants it."""

    def introduce(self, protocol: str, seconds: float) -> tuple[str, list[EngineOption]]:
        """Its name and its options; `protocol`: uci | usi."""
        names: list[str] = []
        options: list[EngineOption] = []

        def note(line: str) -> None:
            words = line.split()
            if words[:2] == ["id", "name"]:
                names.append(" ".join(words[2:]))
            elif words[:2] == ["option", "name"] and (option := parse_option(line)) is not None:
                options.append(option)

        self.send(protocol)
        self._await(f"{protocol}ok", protocol, seconds, note)
        return " ".join(names[:1]), options

    def wait_until_ready(self, seconds: float) -> None:
        self.send("isready")
        self._await("readyok", "isready", seconds)

    def best_move(self, position: str, go: str, seconds: float) -> str:
        """The word behind `bestmove`."""
        if b"\nbestmove" in b"\n" + (early := self.unread()):
            raise EngineFault("garbage", f"said {quote(early)} before it was asked to {go}")
        self.send(position)
        self.send(go)
        words = self._await("bestmove", go, seconds)
        if len(words) < 2:
            raise EngineFault("garbage", f"answered 'bestmove' without a move to {go}")
        return words[1]

    def _await(
        self, word: str, command: str, seconds: float, note: Callable[[str], None] = lambda line: None
    ) -> Sequence[str]:
        """The words of the line that begins with `word`; lines before it go to `note`."""
        taken = 0

        def take(said: bytes) -> tuple[Sequence[str] | None, bytes]:
            nonlocal taken
            begin = 0
            while (end := said.find(b"\n", begin)) >= 0:
                line = said[begin:end].decode(errors="replace")
                begin = end + 1
                words = line.split()
                if words[:1] == [word]:
                    return words, said[begin:]
                if words[:1] == ["bestmove"]:
                    raise EngineFault("garbage", f"said {line.strip()!r} when it was asked to {command}")
                note(line)
            taken += begin
            if len(said) - begin > MAX_LINE:
                raise EngineFault("garbage", f"answered {command} with a line of more than {MAX_LINE:,} bytes: "
                                             f"{quote(said[begin:])}")
            if taken > MAX_OUTPUT:
                raise EngineFault("garbage", f"said more than {MAX_OUTPUT:,} bytes and no {word} to {command}: "
                                             f"{quote(said)}")
            return None, said[begin:]

        return self.receive(command, seconds, take, f"the end of its line, or {word}")
