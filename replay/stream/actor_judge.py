"""Which actors send games that are no use: most of those of the newest block were refused."""

from dataclasses import dataclass, field

BLOCK_GAMES = 20  # after so many games of an incarnation they are judged, then the next so many
MOST_REFUSED = 10  # of a block
MOST_ACTORS = 4096  # that are remembered: as many as a run can have


@dataclass
class _Block:
    incarnation: int
    games: int = 0
    reasons: list[str] = field(default_factory=list)  # of the refused ones


class ActorJudge:
    """Counts the games of each actor of this driver term; plain, for one thread at a time."""

    def __init__(self) -> None:
        self.fenced: dict[int, str] = {}  # actor -> why, until a successor has sent a good block
        self._blocks: dict[int, _Block] = {}

    def record(self, actor: int, incarnation: int, reason: str) -> bool:
        """Counts one game, with the reason if it was refused; returns whether this incarnation must be fenced."""
        block = self._blocks.get(actor)
        if block is None or block.incarnation < incarnation:
            if block is None and len(self._blocks) >= MOST_ACTORS:
                return False
            block = self._blocks[actor] = _Block(incarnation)
        if block.incarnation > incarnation:
            return False  # its successor has begun
        block.games += 1
        block.reasons += [reason] if reason else []
        refused = len(block.reasons)
        if block.games < BLOCK_GAMES and refused <= MOST_REFUSED:
            return False
        if refused > MOST_REFUSED:
            self.fenced[actor] = f"{refused} of its newest {block.games} games were refused, the last: {reason[:100]}"
            self._blocks[actor] = _Block(incarnation + 1)
            return True
        self.fenced.pop(actor, None)
        self._blocks[actor] = _Block(incarnation)
        return False
