"""`shusaku gtp checkpoint=…`: an engine for GUIs of Go, Othello and hex."""

import sys
from importlib import metadata
from typing import Any

from shusaku.common.config.schema import Config
from shusaku.common.errors import UsageError
from shusaku.deploy.protocols.gtp.commands import GAMES
from shusaku.deploy.protocols.gtp.engine import Engine, Settings
from shusaku.deploy.protocols.gtp.shell import GtpShell
from shusaku.deploy.protocols.line_loop import LineReader, protocol_output, serve
from shusaku.deploy.protocols.opening import OpenedAnalysis, open_analysis


def run(config: Config, as_json: bool) -> dict[str, Any]:
    """Answers until `quit` or the end of stdin; UsageError if there is no such checkpoint, or GTP has not its game."""
    with protocol_output() as say:
        opened = open_analysis(config, "go")
        if opened.game.name not in GAMES:
            raise UsageError(f"checkpoint={config.checkpoint}: plays {opened.game.name}, and gtp is for "
                             f"{', '.join(GAMES)}; use shusaku uci (chess), usi (shogi) or play (every game)")
        for note in opened.notes:
            log(note)
        log(f"{describe(opened)}; {opened.evaluator}")
        engine = Engine(opened.reopen, opened.evaluators[0], opened.game, make_settings(config, opened), log)
        opened.analysis.close()
        serve(GtpShell(engine, say, log), LineReader(sys.stdin.buffer))
    return {"checkpoint": config.checkpoint}


def make_settings(config: Config, opened: OpenedAnalysis) -> Settings:
    """Of the engine, from those of the command line."""
    engine = config.engine
    return Settings(
        simulations=opened.simulations, limits_clock=engine.simulations > 0, ponder=engine.ponder,
        resign_value=engine.resign_value, resign_moves=engine.resign_moves, reserve_seconds=engine.lag_ms / 1000,
        version=f"{metadata.version('shusaku')} ({describe(opened)})",
    )


def describe(opened: OpenedAnalysis) -> str:
    """The weights in a few words."""
    weights = opened.chosen.weights
    return f"{opened.game.name}, version {weights.version}, step {weights.step}"


def log(line: str) -> None:
    """A line that is no protocol."""
    print(f"shusaku gtp: {line}", file=sys.stderr, flush=True)
