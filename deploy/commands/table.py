"""The commands of `shusaku` as data: where each lies, what it is called with, and one line that says what it does."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any


class Takes(Enum):
    """What a command's `run` is called with."""

    COMMAND_LINE = auto()  # run(arguments) -> exit code: every word is the command's own
    OPTIONS = auto()  # run(arguments, as_json)
    CONFIG = auto()  # run(config, as_json)
    WHAT_AND_CONFIG = auto()  # run(what, config, as_json)


@dataclass(frozen=True)
class Command:
    """One row of the table; `place`, `module` or `module:function` of deploy/, is imported when the command runs."""

    place: str
    takes: Takes
    help: str
    example: str = ""
    reads: tuple[str, ...] = ()  # sections and settings that it uses, for its help
    what: tuple[str, ...] = ()  # choices of the first argument, for WHAT_AND_CONFIG; one in capitals: any word
    owns_stdout: bool = False  # it speaks a protocol there, and nothing else may
    is_elsewhere_too: bool = False  # with --address it runs as a job on a cluster

    def load(self) -> Callable[..., Any]:
        """The function that runs the command."""
        module, _, function = self.place.partition(":")
        run: Callable[..., Any] = getattr(importlib.import_module(f"shusaku.deploy.{module}"), function or "run")
        return run

    @property
    def is_configured(self) -> bool:
        """Whether it takes settings."""
        return self.takes in (Takes.CONFIG, Takes.WHAT_AND_CONFIG)

    @property
    def is_composed(self) -> bool:
        """Whether choices of the groups (experiment, game, search, network) make a difference to it."""
        return "game" in self.reads

    def reads_setting(self, key: str) -> bool:
        """Whether it uses the setting of this dotted key."""
        return any(key == name or key.startswith(f"{name}.") for name in self.reads)


_RUNNING = ("run.dir", "replay.url", "replay.url_file")  # by which a running training run is found
_PLAYED = ("game", "run.seed", "actors.count", "actors.games_per_actor", "search", "network")
_IN_PROCESS = ("inference.runtime", "inference.precision", "inference.device", "inference.gpu_program")
_SOURCES = ("dataset", "reinforce", "value")  # of games that are learned from, in the place of self-play
_LEARNED = ("self_play", "learner", "strength", "rater", "gating", "gate", *_SOURCES)
_WINDOW = ("replay.window", "replay.capacity", "replay.minimum", "replay.window_exponent", "replay.window_factor",
           "replay.keep", "replay.samples_per_position", "replay.surprise_weight", "replay.value_surprise_weight",
           "replay.test_share")
_SYSTEM = ("game", "run.seed", "actors", "inference", "search", "self_play", "replay", "network", "learner")
_ENGINE = ("checkpoint", "engine", "game", "run.seed", "search", "network", *_IN_PROCESS)

COMMANDS = {
    "train": Command("commands.train", Takes.CONFIG, "train on Ray and Redis; the same command resumes",
                     "train experiment=connect_four run.dir=runs/first run.minutes=20",
                     ("resume_from", "run.dir", "run.name", "run.minutes", "run.http_port", "run.resume",
                      "run.checkpoint_seconds", "run.keep_checkpoints", "run.keep_every_minutes", "run.trackers",
                      "run.grow", "run.max_outage_minutes", *_SYSTEM, *_SOURCES,
                      "strength", "rater", "gating", "gate", "cluster")),
    "status": Command("commands.control:status", Takes.CONFIG, "show a running training run",
                      "status run.dir=runs/first", _RUNNING, is_elsewhere_too=True),
    "scale": Command("commands.control:scale", Takes.WHAT_AND_CONFIG,
                     "change the number of actors of a running training run", "scale 4 run.dir=runs/first", _RUNNING,
                     ("N",), is_elsewhere_too=True),
    "submit": Command("commands.submit", Takes.COMMAND_LINE, "run a command as a Ray job: submit -- train ..."),
    "stop": Command("commands.control:stop", Takes.CONFIG, "end a run and write a checkpoint",
                    "stop run.dir=runs/first", _RUNNING, is_elsewhere_too=True),
    "local": Command("local.driver", Takes.CONFIG, "train in one process; the same command resumes",
                     "local experiment=tic_tac_toe run.dir=runs/first",
                     ("resume_from", "run.dir", "run.minutes", "run.evaluations", "run.http_port", "run.resume",
                      "run.checkpoint_seconds", "run.keep_checkpoints", "run.keep_every_minutes", "run.trackers",
                      "run.grow", *_PLAYED, *_IN_PROCESS, *_LEARNED, *_WINDOW)),
    "evaluate": Command("commands.evaluate", Takes.CONFIG, "measure how often a network plays optimally",
                        "evaluate checkpoint=runs/first", ("checkpoint", *_PLAYED, *_IN_PROCESS)),
    "match": Command("match.match", Takes.CONFIG, "play games between two networks or engines and estimate Elo",
                     "match first.checkpoint=runs/first second.engine=mcts games=100",
                     ("first", "second", "games", "match", *_PLAYED, *_IN_PROCESS)),
    "play": Command("protocols.play.command", Takes.CONFIG, "play against a network in the terminal",
                    "play checkpoint=runs/first", (*_ENGINE, "play")),
    "gtp": Command("protocols.gtp.command", Takes.CONFIG, "an engine for GUIs of Go, Othello and hex, over GTP",
                   "gtp checkpoint=runs/go_9x9", _ENGINE, owns_stdout=True),
    "uci": Command("commands.engines:uci", Takes.CONFIG, "an engine for chess GUIs: UCI on stdin and stdout",
                   "uci checkpoint=runs/first", _ENGINE, owns_stdout=True),
    "usi": Command("commands.engines:usi", Takes.CONFIG, "an engine for shogi GUIs: USI on stdin and stdout",
                   "usi checkpoint=runs/first", _ENGINE, owns_stdout=True),
    "analyse": Command("commands.engines:analyse", Takes.CONFIG,
                       "analyse many positions at once: JSON lines in and out, for tools and reviews of games",
                       "analyse checkpoint=runs/first", _ENGINE, owns_stdout=True),
    "rate": Command("commands.rate", Takes.CONFIG, "rate the versions of a run, with error bars",
                    "rate run.dir=runs/first rater.fill=20",
                    ("run.dir", "rater", "actors.count", "second", "match", "game", *_IN_PROCESS)),
    "diagnose": Command("commands.diagnose", Takes.CONFIG, "say what limits the learning of a run, and what would help",
                        "diagnose run.dir=runs/first", (*_RUNNING, "game", "replay.megabytes")),
    "view": Command("commands.view", Takes.CONFIG, "play, see, watch and learn in the browser",
                    "view run.dir=runs/first", (*_ENGINE, "view", *_RUNNING)),
    "bench": Command("bench.bench", Takes.WHAT_AND_CONFIG, "measure the speed of one part of the system",
                     "bench selfplay experiment=connect_four",
                     ("bench", "checkpoint", "run.minutes", *_SYSTEM, *_SOURCES),
                     ("rules", "search", "inference", "selfplay", "replay", "learner")),
    "plan": Command("commands.plan", Takes.CONFIG, "measure for a moment, then estimate speed, memory, disk",
                    "plan experiment=go_9x9 actors.count=64",
                    ("bench.seconds", "checkpoint", "run.dir", "run.minutes", "run.keep_checkpoints",
                     "run.keep_every_minutes", "run.grow", "cluster.autoscaler_cpus", *_SYSTEM, *_SOURCES)),
    "doctor": Command("commands.doctor.command", Takes.CONFIG,
                      "check machine, secrets, ports and versions; each failure with what to do",
                      "doctor run.dir=runs/first", (*_RUNNING, "game", "run.minutes", "run.keep_checkpoints",
                                                    "run.keep_every_minutes", "replay", "network", "cluster")),
    "backup": Command("commands.backup:backup", Takes.WHAT_AND_CONFIG,
                      "copy a run, also while it plays, into one folder or .tar file",
                      "backup to=first.tar run.dir=runs/first", (*_RUNNING, "run.name", "replay.megabytes"),
                      ("to=PATH",)),
    "restore": Command("commands.backup:restore", Takes.WHAT_AND_CONFIG,
                       "make a run directory from a backup; train or local go on with it",
                       "restore from=first.tar run.dir=runs/second", (*_RUNNING, "run.name", "replay.megabytes"),
                       ("from=PATH",)),
    "records": Command("commands.records", Takes.WHAT_AND_CONFIG,
                       "write games of a run as SGF, PGN, KIF or CSA, read such files to learn from, or check them",
                       "records export records.file=games.sgf run.dir=runs/go_9x9",
                       ("records", *_RUNNING, "game", "replay.megabytes"), ("export", "import", "check")),
    "rollout": Command("commands.rollout", Takes.CONFIG,
                       "learn a rollout policy from finished games, for search=mcts search.rollout=FILE",
                       "rollout dataset.records=games file=go.rollout game=go game.size=9",
                       ("dataset.records", "file", "rollout", "game", "run.seed")),
    "checkpoint": Command("commands.checkpoint", Takes.WHAT_AND_CONFIG,
                          "list the checkpoints of a run, verify their hashes, or describe a network",
                          "checkpoint describe checkpoint=runs/first", ("checkpoint", "run.dir"),
                          ("list", "verify", "describe")),
    "export": Command("commands.export", Takes.WHAT_AND_CONFIG, "write a network in a format that other programs read",
                      "export onnx checkpoint=runs/first file=first.onnx", ("checkpoint", "file", "game"), ("onnx",)),
    "games": Command("commands.games", Takes.OPTIONS, "list the games; games check NAME checks the rules of one"),
    "perft": Command("commands.perft", Takes.OPTIONS, "count the move sequences of a game to a depth"),
    "refine": Command("commands.refine", Takes.OPTIONS,
                      "search for a better answer by Monte Carlo tree self-refine: refine task=queens rollouts=64"),
}
