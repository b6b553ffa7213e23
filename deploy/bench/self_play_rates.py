"""What players of a bench do a second, and the result that `shusaku bench selfplay` makes of it."""

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import psutil

from shusaku.actors.pipelined_self_play import PipelinedSelfPlay
from shusaku.actors.self_play import SelfPlay
from shusaku.common.config.schema import Config
from shusaku.common.stage_timer import StageTimer, shares


class SelfPlayRates:
    """Counts what a player does in the time in which it is measured."""

    def __init__(self, player: SelfPlay | PipelinedSelfPlay, timer: StageTimer) -> None:
        """`timer`: that of the player."""
        self._player, self._timer = player, timer
        self._counts: Counter[str] = Counter()
        self._seconds = 0.0

    def play(self, seconds: float, is_measured: bool = True) -> None:
        """Lets the player play for about so long."""
        before, begin = self._counters(), time.perf_counter()
        while (spent := time.perf_counter() - begin) < seconds:
            self._player.step()
        if is_measured:
            self._seconds += spent
            self._counts.update({name: count - before[name] for name, count in self._counters().items()})

    def to_json(self) -> dict[str, Any]:
        """Rates of the counters of player and timer, and resident_mb of this process."""
        rates = {name: count / self._seconds for name, count in self._counts.items()}
        return {**rates, "resident_mb": psutil.Process().memory_info().rss / 1e6}

    def _counters(self) -> dict[str, int]:
        return {**self._player.counters(), **self._timer.counters()}


def result(
    config: Config, rates: Sequence[dict[str, Any]], games: int, raw: float, network: dict[str, Any], **more: float
) -> dict[str, Any]:
    """The JSON of DESIGN §9: sums over players of `games` games, beside the network alone, `raw` evaluations a second.

    `network` says its runtime and precision.
    """
    total = {name: sum(player[name] for player in rates) for name in rates[0]}
    known = total["cache_hits"] + total["evaluations"]
    return {
        "game": config.game.name, "actors": len(rates), "games_per_actor": games, **network,
        "raw_evaluations_per_s": raw, "evaluations_per_s": total["evaluations"],
        "of_raw": total["evaluations"] / raw if raw else None, "searches_per_s": total["searches"],
        "rows_per_s": total["rows"], "games_per_s": total["games"],
        "cache_hit_rate": total["cache_hits"] / known if known else 0.0, **more,
        "time_shares": shares({}, total), "actor_mb": total["resident_mb"] / len(rates),
    }
