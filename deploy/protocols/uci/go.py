"""What `go` asks for, in UCI and in USI."""

from collections.abc import Sequence
from dataclasses import dataclass

from shusaku.deploy.protocols.clock import Clock

MOST = 10**12  # of any number, so that no sum of them overflows: 30 years of milliseconds
NUMBERS = frozenset({
    "wtime", "btime", "winc", "binc", "byoyomi", "movestogo", "movetime", "depth", "nodes", "mate",
})
FLAGS = frozenset({"infinite", "ponder"})


@dataclass(frozen=True, slots=True)
class GoRequest:
    """One request for a move; None: not limited so."""

    clock: Clock | None = None  # of the player to move
    move_seconds: float | None = None
    nodes: int | None = None  # simulations
    depth: int | None = None  # moves of the principal variation
    moves: tuple[str, ...] = ()  # the only ones to search; (): all
    is_infinite: bool = False  # no answer before `stop`
    is_ponder: bool = False  # the same until `ponderhit`, when the clock begins to run

    @property
    def is_bare(self) -> bool:
        """Whether nothing limits it, not even a `stop` that is sure to come."""
        limits = (self.clock, self.move_seconds, self.nodes, self.depth)
        return not self.is_infinite and all(limit is None for limit in limits)


def read_go(words: Sequence[str], player: str, opponent: str) -> tuple[GoRequest, list[str]]:
    """The words behind `go`, and what is wrong with them, which is left out of the request.

    `player` and `opponent`: the protocol's letters of the player to move and of the other one, w or b.
    """
    numbers: dict[str, int] = {}
    problems: list[str] = []
    moves: list[str] = []
    flags = set()
    waiting = list(reversed(words))
    while waiting:
        word = waiting.pop()
        if word in FLAGS:
            flags.add(word)
        elif word == "searchmoves":
            while waiting and waiting[-1] not in NUMBERS | FLAGS:
                moves.append(waiting.pop())
        elif word not in NUMBERS:
            problems.append(f"go: unknown word {word[:40]!r}")
        elif waiting and (number := _number(waiting[-1])) is not None:
            numbers[word] = number
            waiting.pop()
        else:
            is_value = bool(waiting) and waiting[-1] not in NUMBERS | FLAGS | {"searchmoves"}
            value = f" {waiting.pop()[:40]}" if is_value else ""
            problems.append(f"go {word}{value}: a whole number has to follow")
    request = GoRequest(
        clock=_clock(numbers, player, opponent),
        move_seconds=_seconds(numbers, "movetime") if "movetime" in numbers else None,
        nodes=max(1, numbers["nodes"]) if "nodes" in numbers else None,
        depth=_depth(numbers),
        moves=tuple(moves), is_infinite="infinite" in flags, is_ponder="ponder" in flags,
    )
    return request, problems


def _clock(numbers: dict[str, int], player: str, opponent: str) -> Clock | None:
    """GUIs leave `0` and what is equal for both players out; a time of 0 with byo-yomi is overtime."""
    if not {"wtime", "btime", "byoyomi"} & set(numbers):
        return None
    main = _seconds(numbers, f"{player}time" if f"{player}time" in numbers else f"{opponent}time")
    if "byoyomi" in numbers and numbers["byoyomi"] > 0:
        return Clock.byo_yomi(main, _seconds(numbers, "byoyomi"))
    return Clock.fischer(main, _seconds(numbers, f"{player}inc"), max(0, numbers.get("movestogo", 0)))


def _depth(numbers: dict[str, int]) -> int | None:
    """A mate in n moves takes 2 n - 1 plies."""
    depths = [numbers[name] * factor for name, factor in (("depth", 1), ("mate", 2)) if name in numbers]
    return max(1, min(depths)) if depths else None


def _seconds(numbers: dict[str, int], name: str) -> float:
    return max(0, numbers.get(name, 0)) / 1000


def _number(text: str) -> int | None:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 100):
        return None
    return max(-MOST, min(MOST, int(text)))
