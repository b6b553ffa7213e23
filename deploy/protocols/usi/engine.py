"""USI, the twin of UCI for shogi: its words, resigning, and the declaration of a king that has entered.

T. Romstad, "The universal shogi interface", 2007; http://shogidokoro.starfree.jp/usi.html.
"""

import time
from collections.abc import Callable, Sequence

from shusaku.actors.analysis.report import MoveReport, Report
from shusaku.common._core import Position
from shusaku.common.config.schema import EngineConfig
from shusaku.deploy.protocols.line_loop import Say
from shusaku.deploy.protocols.resignation import ResignationRule
from shusaku.deploy.protocols.uci.engine import Dialect, Open, UciEngine, common_options
from shusaku.deploy.protocols.uci.options import Option


def usi_dialect(settings: EngineConfig, threads: int) -> Dialect:
    """USI's words.

    The two options that every client sets change nothing: it is the client that lets us ponder, and a tree takes what
    it needs.
    """
    options = (*common_options(settings, threads), Option("USI_Hash", 256, 1, 1 << 20, is_declared=False),
               Option("USI_Ponder", False, is_declared=False))
    return Dialect("usi", "sfen", "bw", "usinewgame", True, options)


class UsiEngine(UciEngine):
    """As UciEngine; it resigns, and claims the win of a declaration."""

    def __init__(
        self, dialect: Dialect, open_analysis: Open, say: Say, resignation: ResignationRule,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(dialect, open_analysis, say, now)
        self._resignation = resignation
        self._commands["gameover"] = self._new_game

    def _new_game(self, words: Sequence[str]) -> None:
        super()._new_game(words)
        self._resignation.begin_game()

    def _go(self, words: Sequence[str]) -> None:
        if "mate" in words:
            self._finish()
            self._say("checkmate notimplemented")
        else:
            super()._go(words)

    def _best_move(self, report: Report, position: Position, best: MoveReport, is_game_move: bool) -> str:
        if is_game_move and (self._resignation.record(report.value) or report.resigns):
            return "resign"
        return super()._best_move(report, position, best, is_game_move)

    def _say_over(self, position: Position) -> None:
        """Who has to move and has won declares it: our rules end the game there by themselves."""
        self._say(f"bestmove {'win' if position.outcome > 0 else 'resign'}")
