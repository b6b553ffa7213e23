"""Options of UCI and USI: what an engine declares, and what `setoption` asks of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from shusaku.common.suggestions import nearest


@dataclass(frozen=True, slots=True)
class Option:
    """One option: a spin (a whole number from `least` to `most`), a check (a bool) or a button."""

    name: str
    default: int | bool | None = None  # None: a button
    least: int = 0
    most: int = 0
    is_declared: bool = True  # USI's clients set two options that no engine has to declare

    def declaration(self) -> str:
        """The line that tells a client of it."""
        if self.default is None:
            return f"option name {self.name} type button"
        if isinstance(self.default, bool):
            return f"option name {self.name} type check default {str(self.default).lower()}"
        return f"option name {self.name} type spin default {self.default} min {self.least} max {self.most}"

    def read(self, text: str) -> int | bool | None:
        """The value that the text says; ValueError names the value and what it must be."""
        if self.default is None:
            return None
        if isinstance(self.default, bool):
            if text.lower() not in ("true", "false"):
                raise ValueError(f"{self.name}={text}: must be true or false")
            return text.lower() == "true"
        digits = text.removeprefix("-").removeprefix("+")
        if not (digits.isascii() and digits.isdigit() and len(digits) < 19 and self.least <= int(text) <= self.most):
            raise ValueError(f"{self.name}={text[:40]}: must be a whole number from {self.least} to {self.most}")
        return int(text)


def read_setoption(words: Sequence[str], options: Sequence[Option]) -> tuple[Option, int | bool | None]:
    """What stands behind `setoption`: `name Move Overhead value 100`; ValueError says what is wrong.

    Names are the same in upper and lower case, and may hold blanks.
    """
    lowered = [word.lower() for word in words]
    if not lowered or lowered[0] != "name":
        raise ValueError("setoption: say `setoption name NAME value VALUE`")
    split = lowered.index("value") if "value" in lowered else len(words)
    name, text = " ".join(words[1:split]), " ".join(words[split + 1 :])
    option = next((option for option in options if option.name.lower() == name.lower()), None)
    if option is None:
        names = [option.name for option in options]
        raise ValueError(f"no option {name[:40]!r}; nearest: {nearest(name[:40], names)}; there are {', '.join(names)}")
    return option, option.read(text)
