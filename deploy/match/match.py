"""`shusaku match`: two players meet in pairs of games with sides swapped, and the Elo difference between them."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict
from math import isfinite
from typing import Any

from rich.console import Console as Terminal
from rich.live import Live
from rich.text import Text

from shusaku.actors.arena.arena import Arena, MatchResult
from shusaku.actors.arena.sprt import Sprt
from shusaku.actors.opponents.process import FAULTS
from shusaku.common.config.schema import Config
from shusaku.deploy.match.game_file import open_game_file
from shusaku.deploy.match.players import KEYS, MatchParts, Seat, game_text, make_parts
from shusaku.deploy.match.table import SIDES, match_table, progress_line, sprt_json, sprt_text
from shusaku.deploy.run.console import clock
from shusaku.deploy.run.stop_signals import StopSignals

LIVE_SECONDS = 0.25  # between two changes of the line on a terminal
PLAIN_SECONDS = 10.0  # between the lines of a match that no terminal shows


def run(config: Config, as_json: bool) -> dict[str, Any]:
    """Plays, prints the table, and returns the JSON of DESIGN §9; stopped by a signal, what there is by then."""
    with ExitStack() as stack:
        signals = stack.enter_context(StopSignals())
        parts = make_parts(config, signals.should_stop)
        for seat in parts.seats:
            stack.callback(seat.player.close)
        for note in parts.notes:
            print(note, file=sys.stderr)
        write = open_game_file(config, parts, stack)
        sprt = Sprt(*config.match.sprt) if config.match.sprt else None
        begin = time.monotonic()
        with _progress(config.games) as show:
            result = Arena(
                parts.game, (parts.seats[0].player, parts.seats[1].player), games=config.games,
                opening_plies=config.match.opening_plies, seed=config.run.seed, games_at_once=parts.games_at_once,
                should_stop=signals.should_stop, on_progress=show, on_game=write,
                is_decided=lambda result: sprt is not None and bool(sprt.decide(result.pair_outcomes())),
            ).play()
        seconds = time.monotonic() - begin
        if not result.games:
            signals.raise_received()
        report = to_json(result, parts, config, seconds)
        print(_table(result, parts, config, seconds))
        signals.raise_received(report)
        return report


def to_json(result: MatchResult, parts: MatchParts, config: Config, seconds: float) -> dict[str, Any]:
    """wins, draws, losses, elo, elo_low, elo_high, games for the first player, and the rest; infinite is null."""
    tally, elo = result.tally(), result.elo()
    forfeits = [result.forfeits(number) for number in (0, 1)]
    sides = {side.replace(" ", "_"): asdict(result.tally(number)) for number, side in enumerate(SIDES)}
    return {
        **asdict(tally),
        "elo": _finite(elo.elo), "elo_low": _finite(elo.low), "elo_high": _finite(elo.high),
        "games": tally.games, "score": tally.score, **sides,
        "faults": {kind: sum(counts.get(kind, 0) for counts in forfeits) for kind in FAULTS},
        **{key: _seat_json(seat, counts) for key, seat, counts in zip(KEYS, parts.seats, forfeits, strict=True)},
        "fault_messages": [
            {"game": game.number, "kind": game.ended_by, "message": game.message}
            for game in result.games if game.message
        ][:100],
        "game": parts.game.name, "params": parts.game.params, "opening_plies": config.match.opening_plies,
        "pairs": list(result.pairs().values()), "seed": config.run.seed, "mean_plies": result.mean_plies,
        "distinct_games": result.distinct,
        "seconds": round(seconds, 3),
        **({"sprt": sprt_json(Sprt(*config.match.sprt), result.pair_outcomes())} if config.match.sprt else {}),
    }


def _seat_json(seat: Seat, forfeits: dict[str, int]) -> dict[str, Any]:
    return {"kind": seat.kind, "name": seat.player.name, **seat.metadata,
            "faults": {kind: forfeits[kind] for kind in FAULTS if kind in forfeits},
            "resignations": forfeits.get("resignation", 0)}


def _table(result: MatchResult, parts: MatchParts, config: Config, seconds: float) -> str:
    played = len(result.games)
    plies = config.match.opening_plies
    title = (f"{game_text(parts.game)}; pairs of games from one opening of {plies} random plies, sides swapped; "
             f"seed {config.run.seed}")
    took = f"{seconds:.1f} s" if seconds < 60 else f"{clock(seconds)} min"
    notes = [f"{took}, {result.mean_plies:.1f} plies a game"]
    decided = ""
    if config.match.sprt:
        sprt, outcomes = Sprt(*config.match.sprt), result.pair_outcomes()
        decided = sprt.decide(outcomes)
        notes.append(sprt_text(sprt, outcomes))
    if played < config.games and not decided:
        notes.append(f"stopped after {played:,} of {config.games:,} games")
    if result.distinct < played:
        notes.append(f"{result.distinct:,} of {played:,} games differ; if the players are deterministic, the rest "
                     "tells nothing new: a larger match.opening_plies helps")
    return match_table(result, parts.seats, title, notes)


def _finite(value: float) -> float | None:
    return round(value, 2) + 0.0 if isfinite(value) else None  # + 0.0: no -0.0


@contextmanager
def _progress(games: int) -> Iterator[Callable[[MatchResult], None]]:
    """Shows the score while the match runs: a line that changes on a terminal, a new one now and then elsewhere."""
    terminal = Terminal(highlight=False)
    is_live = terminal.is_terminal and not terminal.is_dumb_terminal
    live = Live(console=terminal, auto_refresh=False, transient=True) if is_live else None
    begin = shown = time.monotonic()

    def show(result: MatchResult) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - shown < (PLAIN_SECONDS if live is None else LIVE_SECONDS):
            return
        shown, done = now, len(result.games)
        left = f"; about {clock((now - begin) * (games - done) / done)} to go" if done else ""
        text = Text(f"{progress_line(result, games)}{left}")
        if live is not None:
            live.update(text, refresh=True)
        else:
            terminal.print(text, soft_wrap=True)

    with live or nullcontext():
        yield show
