"""Options of an engine over UCI or USI: which it announces, and whether a value is valid."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shusaku.common.errors import UsageError
from shusaku.common.suggestions import nearest

EMPTY = "<empty>"  # the protocols' notation of an empty string
CHECK = ("false", "true")


@dataclass(frozen=True, slots=True)
class EngineOption:
    """One line `option name NAME type TYPE [default D] [min A] [max B] [var V]...`."""

    name: str
    kind: str  # check | spin | combo | button | string, in USI also filename
    default: str
    low: int | None
    high: int | None
    values: tuple[str, ...]  # of a combo

    def command(self, key: str, value: Any) -> str:
        """`setoption ...`; UsageError naming `key`, the value and the rule if the value is invalid."""
        shown = str(value).lower() if isinstance(value, bool) else "null" if value is None else str(value)
        try:
            text = self._format(value, "" if value is None else shown)
        except ValueError as error:
            raise UsageError(f"{key}={{{self.name}: {shown}}}: {error}") from None
        return f"setoption name {self.name}" + (f" value {text}" if self.kind != "button" else "")

    def _format(self, value: Any, text: str) -> str:
        if "\n" in text or "\r" in text:
            raise ValueError("must be one line")
        if self.kind == "button":
            if value is not True and text:
                raise ValueError("is a button and takes no value; write null")
            return ""
        if self.kind == "check" and text.lower() not in CHECK:
            raise ValueError("must be true or false")
        if self.kind == "spin":
            return self._number(value, text)
        if self.kind == "combo":
            found = next((known for known in self.values if known.lower() == text.lower()), None)
            if found is None:
                near = f"nearest: {nearest(text, self.values)}; " if self.values else ""
                raise ValueError(f"there is no such value; {near}there are {', '.join(self.values)}")
            return found
        return text.lower() if self.kind == "check" else text or EMPTY

    def _number(self, value: Any, text: str) -> str:
        try:
            number = int(text)
        except ValueError:
            raise ValueError("must be a whole number") from None
        if (self.low is not None and number < self.low) or (self.high is not None and number > self.high):
            raise ValueError(f"must lie between {self.low} and {self.high}")
        return str(number)


def parse_option(line: str) -> EngineOption | None:
    """The option that a line announces; None if the line is not understood, so that it cannot be set."""
    name, is_typed, rest = line.partition(" type ")
    kind, *words = rest.split() or [""]
    name = " ".join(name.split()[2:])  # without `option name`
    if not is_typed or not name or not kind:
        return None
    if kind not in ("spin", "combo"):  # the default may hold any words
        default = " ".join(words[1:]) if words[:1] == ["default"] else ""
        return EngineOption(name, kind, "" if default == EMPTY else default, None, None, ())
    said: dict[str, list[list[str]]] = {}
    for word in words:
        if word in ("default", "min", "max", "var"):
            said.setdefault(word, []).append([])
            current = said[word][-1]
        elif said:
            current.append(word)
    texts = {word: [" ".join(value) for value in values] for word, values in said.items()}
    try:
        low, high = (int(texts[word][0]) if word in texts else None for word in ("min", "max"))
    except ValueError:
        return None
    return EngineOption(name, kind, texts.get("default", [""])[0], low, high, tuple(texts.get("var", ())))


def option_commands(key: str, known: Sequence[EngineOption], wanted: Mapping[str, Any]) -> list[str]:
    """`setoption` for every option that the user set; names are case-insensitive.

    UsageError, naming the setting `key`, for a name that was not announced and for an invalid value.
    """
    by_name = {option.name.lower(): option for option in known}
    commands = []
    for name, value in wanted.items():
        option = by_name.get(str(name).lower())
        if option is None:
            names = [other.name for other in known]
            hint = f"nearest: {nearest(str(name), names)}; it has {', '.join(names)}" if names else "it has none"
            raise UsageError(f"{key}={{{name}: {value}}}: the engine announces no option {name}; {hint}")
        commands.append(option.command(key, value))
    return commands
