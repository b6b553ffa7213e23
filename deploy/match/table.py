"""A match as text: the line while it runs, the table at the end, and the numbers in both."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import isinf
from typing import Any

from shusaku.actors.arena.arena import MatchResult, Tally
from shusaku.actors.arena.elo import EloEstimate
from shusaku.actors.arena.sprt import Sprt
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


def sprt_text(sprt: Sprt, outcomes: Sequence[int]) -> str:
    """`SPRT: +20 Elo rather than +0 (H1), after 120 pairs; log likelihood ratio 2.96 between -2.94 and 2.94; …`."""
    accepted, better, worse = sprt.decide(outcomes), f"{sprt.elo1:+g}", f"{sprt.elo0:+g}"
    answer = {"H1": f"{better} Elo rather than {worse}", "H0": f"{worse} Elo rather than {better}",
              "": "neither is clear yet; a larger games= goes on"}[accepted]
    ratio = f"{float(sprt.ratio(outcomes)):.2f} between {sprt.lower:.2f} and {sprt.upper:.2f}"
    return (f"SPRT: {answer}{f' ({accepted})' if accepted else ''}, after {sum(outcomes):,} pairs; log likelihood "
            f"ratio {ratio}; pairs with 0, 1/2, 1, 3/2, 2 points: {', '.join(map(str, outcomes))}")


def sprt_json(sprt: Sprt, outcomes: Sequence[int]) -> dict[str, Any]:
    """The test and its answer: accepted is H0, H1 or empty."""
    return {**asdict(sprt), "accepted": sprt.decide(outcomes), "pairs": list(outcomes),
            "log_likelihood_ratio": round(float(sprt.ratio(outcomes)), 4)}


def forfeits_text(counts: Mapping[str, int]) -> str:
    """`3 by crash, 1 by resignation`."""
    return ", ".join(f"{count:,} by {reason.replace('_', ' ')}" for reason, count in sorted(counts.items()))


def _counts(tally: Tally) -> str:
    return f"{tally.wins:,} wins, {tally.draws:,} draws, {tally.losses:,} losses"


def _signed(elo: float) -> str:
    return f"{round(elo):+d}"
