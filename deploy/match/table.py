"""A match as text: the line while it runs, the table at the end, and the numbers in both."""

from collections.abc import Mapping, Sequence
from math import isinf

from shusaku.actors.arena.arena import MatchResult, Tally
from shusaku.actors.arena.elo import EloEstimate
from shusaku.deploy.run.text_table import text_table

SIDES = ("moving first", "moving second")
MESSAGES = 5  # faults that are quoted


def progress_line(result: MatchResult, games: int) -> str:
    """`128 of 400 games: 100 wins, 8 draws, 20 losses, Elo +243 (+180 to +320)`."""
    tally = result.tally()
    line = f"{tally.games:,} of {games:,} games"
    if tally.games:
        line += f": {_counts(tally)}, {elo_text(result.elo())}"
    return line


def match_table(result: MatchResult, players: Sequence[object], title: str, notes: Sequence[str] = ()) -> str:
    """Lines of equal columns, from the first player's side; at least one game was played."""
    tally = result.tally()
    rows = [("all games", tally), *((side, result.tally(number)) for number, side in enumerate(SIDES))]
    header = ["first player", "games", "wins", "draws", "losses", "score"]
    cells = [
        [name, f"{t.games:,}", f"{t.wins:,}", f"{t.draws:,}", f"{t.losses:,}", f"{t.score:.1%}" if t.games else "-"]
        for name, t in rows
    ]
    lines = [f"first   {players[0]}", f"second  {players[1]}", title, "", *text_table([header], cells), "",
             elo_text(result.elo())]
    for number, player in enumerate(("first", "second")):
        if forfeits := result.forfeits(number):
            lines.append(f"{player} gave games away: {forfeits_text(forfeits)}")
    faults = [game for game in result.games if game.message]
    lines += [f"  game {game.number}: {game.ended_by}: {game.message}" for game in faults[:MESSAGES]]
    if len(faults) > MESSAGES:
        lines.append(f"  and {len(faults) - MESSAGES:,} more; match.file=games.jsonl keeps them all")
    return "\n".join([*lines, *notes])


def elo_text(elo: EloEstimate) -> str:
    """`Elo +120 (95 %: +60 to +190)`; one end only where everything was won or lost."""
    if isinf(elo.high):
        return f"Elo at least {_signed(elo.low)} (95 %), every game was won"
    if isinf(elo.low):
        return f"Elo at most {_signed(elo.high)} (95 %), every game was lost"
    return f"Elo {_signed(elo.elo)} (95 %: {_signed(elo.low)} to {_signed(elo.high)})"


def forfeits_text(counts: Mapping[str, int]) -> str:
    """`3 by crash, 1 by resignation`."""
    return ", ".join(f"{count:,} by {reason.replace('_', ' ')}" for reason, count in sorted(counts.items()))


def _counts(tally: Tally) -> str:
    return f"{tally.wins:,} wins, {tally.draws:,} draws, {tally.losses:,} losses"


def _signed(elo: float) -> str:
    return f"{round(elo):+d}"
