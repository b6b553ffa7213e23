"""Options: what is declared is what python-chess reads, and wrong values are refused in words."""

import pytest

from shusaku.deploy.protocols.uci.options import Option, read_setoption

OPTIONS = (Option("Threads", 2, 1, 16), Option("Move Overhead", 50, 0, 5000), Option("Ponder", False),
           Option("Clear Hash"))


@pytest.mark.parametrize(("line", "name", "value"), [
    ("name Threads value 4", "Threads", 4),
    ("name move overhead value 100", "Move Overhead", 100),
    ("name Ponder value TRUE", "Ponder", True),
    ("name Clear Hash", "Clear Hash", None),
    ("Name Threads VALUE +3", "Threads", 3),
])
def test_values_are_read(line: str, name: str, value: int | bool | None) -> None:
    option, read = read_setoption(line.split(), OPTIONS)
    assert (option.name, read) == (name, value)


@pytest.mark.parametrize(("line", "what"), [
    ("name Threads value 0", "Threads=0: must be a whole number from 1 to 16"),
    ("name Threads value 17", "from 1 to 16"),
    ("name Threads value many", "Threads=many"),
    ("name Threads value", "Threads=:"),
    ("name Threads value ٣", "must be a whole number"),
    ("name Threads value " + "9" * 400, "must be a whole number"),
    ("name Ponder value 1", "Ponder=1: must be true or false"),
    ("name Thread value 4", "nearest: Threads"),
    ("", "say `setoption name NAME value VALUE`"),
    ("value 4", "say `setoption name NAME value VALUE`"),
])
def test_others_are_refused_in_words(line: str, what: str) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        read_setoption(line.split(), OPTIONS)
    assert what in str(caught.value)


def test_declarations() -> None:
    assert [option.declaration() for option in OPTIONS] == [
        "option name Threads type spin default 2 min 1 max 16",
        "option name Move Overhead type spin default 50 min 0 max 5000",
        "option name Ponder type check default false",
        "option name Clear Hash type button",
    ]
