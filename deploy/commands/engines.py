"""`shusaku uci|usi|analyse checkpoint=…`: a network as an engine in a GUI of the user's, or behind a tool."""

import os
import sys
from dataclasses import replace
from typing import Any

from shusaku.actors.analysis.analysis import Analysis
from shusaku.actors.analysis.shared_evaluator import SharedEvaluator
from shusaku.actors.opponents.uci_games import KNOWN
from shusaku.common.config.schema import Config
from shusaku.common.config.search import EvaluationConfig, SearchConfig, replace_read
from shusaku.common.errors import UsageError
from shusaku.deploy.protocols.analyse import AnalysisEngine
from shusaku.deploy.protocols.line_loop import LineReader, protocol_output, serve
from shusaku.deploy.protocols.opening import OpenedAnalysis, OpenedNetwork, open_analysis, open_network
from shusaku.deploy.protocols.resignation import ResignationRule
from shusaku.deploy.protocols.uci.engine import Open, UciEngine, uci_dialect
from shusaku.deploy.protocols.usi.engine import UsiEngine, usi_dialect

LEAVES = 4  # of a position at once, where other positions fill the batch
GAMES = {"uci": ("chess",), "usi": tuple(KNOWN["usi"])}


def uci(config: Config, as_json: bool) -> dict[str, Any]:
    """Speaks UCI until `quit` or the end of the input."""
    with protocol_output() as say:
        dialect = uci_dialect(config.engine, _threads(config))
        serve(UciEngine(dialect, _opener(config, "uci"), say), LineReader(sys.stdin.buffer))
    return {}


def usi(config: Config, as_json: bool) -> dict[str, Any]:
    """Speaks USI until `quit` or the end of the input."""
    engine = config.engine
    with protocol_output() as say:
        rule = ResignationRule(engine.resign_value, engine.resign_moves)
        dialect = usi_dialect(engine, _threads(config))
        serve(UsiEngine(dialect, _opener(config, "usi"), say, rule), LineReader(sys.stdin.buffer))
    return {}


def analyse(config: Config, as_json: bool) -> dict[str, Any]:
    """Answers JSON lines until the input ends and everything is answered."""
    positions = config.engine.positions
    with protocol_output() as say:
        network = open_network(config, positions * LEAVES)
        evaluate = SharedEvaluator(network.evaluators, positions * LEAVES)
        search = network.search
        if isinstance(search, EvaluationConfig):  # each of the positions has a cache of its own
            search = replace_read(search, cache=search.cache // positions)

        def make(changed: SearchConfig) -> Analysis:
            return Analysis(network.game, [evaluate], changed, leaves=LEAVES, seed=config.run.seed,
                            megabytes=max(1, config.engine.megabytes // positions))

        _show_notes(network)
        engine = AnalysisEngine(network.game, make, search, search.simulations, positions, say)
        serve(engine, LineReader(sys.stdin.buffer), finishes=True)
    return {}


def _opener(config: Config, protocol: str) -> Open:
    """Opens the checkpoint with so many threads; UsageError if the protocol has no words for its game."""

    def open_with(threads: int) -> OpenedAnalysis:
        opened = open_analysis(replace(config, engine=replace(config.engine, threads=threads)))
        name = opened.game.name
        if name not in GAMES[protocol]:
            opened.analysis.close()
            other = next((word for word, games in GAMES.items() if name in games), "gtp")
            raise UsageError(f"checkpoint={config.checkpoint}: plays {name}, and {protocol} is for "
                             f"{' and '.join(GAMES[protocol])}; use `shusaku {other}` or `shusaku view`")
        _show_notes(opened)
        return opened

    return open_with


def _show_notes(opened: OpenedAnalysis | OpenedNetwork) -> None:
    for note in (*opened.notes, f"version {opened.chosen.weights.version}, on {opened.evaluator}"):
        print(note, file=sys.stderr)


def _threads(config: Config) -> int:
    return config.engine.threads or len(os.sched_getaffinity(0))
