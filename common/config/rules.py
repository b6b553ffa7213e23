"""What a configuration must hold to before anything starts: each rule names the setting, its value and the way out."""

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from itertools import pairwise
from math import isfinite
from typing import Any

from shusaku.common.config.rule import Rule, raise_first
from shusaku.common.config.schema import Config, PlayerConfig
from shusaku.common.config.search import EvaluationConfig, PuctConfig, search_rules, value_rules
from shusaku.common.suggestions import nearest

# The names of `common.network.targets`, which needs torch.
TARGETS = ("policy", "value", "short_term", "soft_policy", "reply", "moves_left", "ownership", "score")
# Protocols of programs, and a command that speaks each.
ENGINES = {"gtp": "gnugo --mode gtp", "uci": "stockfish", "usi": "fairy-stockfish"}
PRECISIONS = ("auto", "fp32", "bf16", "int8")


def check(config: Config) -> None:
    """Raises UsageError naming value, rule and way out for the first setting that cannot work."""
    raise_first([*_finite(config), *_Rules(config).all()])


def names_players(config: Config) -> bool:
    """Whether it is for a command that plays with networks of runs, whose searches are then partly those runs'."""
    return bool(config.checkpoint) or config.first != PlayerConfig() or config.second != PlayerConfig()


def check_self_play(config: Config) -> None:
    """What `check` leaves to the commands that play to learn, where a configuration names players too."""
    rules = _Rules(config)
    raise_first([*search_rules(config.search, "search"), *rules.search_to_learn(), *rules.self_play()])


def _finite(config: Any, prefix: str = "") -> Iterator[Rule]:
    for item in fields(config):
        value, key = getattr(config, item.name), f"{prefix}{item.name}"
        if is_dataclass(value):
            yield from _finite(value, f"{key}.")
        elif isinstance(value, float):
            yield key, value, isfinite(value), "must be a finite number"


class _Rules:
    def __init__(self, config: Config) -> None:
        self._config = config

    def all(self) -> list[Rule]:
        c = self._config
        rules = [*self.run(), *self.actors(), *self.replay(), *self.network(), *self.learner(), *self.match()]
        if names_players(c):
            return rules  # nothing is learned, and the searches are known when their runs are read
        return [*rules, *search_rules(c.search, "search"), *self.search_to_learn(), *self.self_play()]

    def run(self) -> list[Rule]:
        c = self._config
        return [
            self._rule("run.dir", c.run.dir.strip() != "", "must name a directory, such as runs/first"),
            self._rule("run.name", re.fullmatch("([a-z0-9][a-z0-9-]{0,63})?", c.run.name) is not None,
                "must be made of a-z, 0-9 and -, 64 at most, and not begin with -"),
            self._at_least("run.minutes", 0), self._at_least("run.evaluations", 0), self._at_least("run.seed", 0),
            self._one_of("run.resume", "auto", "never"),
            self._at_least("run.checkpoint_seconds", 0), self._at_least("run.keep_checkpoints", 1),
        ]

    def actors(self) -> list[Rule]:
        c = self._config
        return [
            self._at_least("actors.count", 0),
            self._rule("actors.count", c.actors.count <= 4096,
                "more than 4096 actors are not supported; ask for fewer"),
            self._rule("actors.cpus", c.actors.cpus > 0,
                "must be above 0, for example 0.1 to oversubscribe on purpose"),
            self._at_least("actors.games_per_actor", 0),
            self._rule("actors.games_per_actor", c.actors.games_per_actor <= 65536,
                "must be at most 65536; auto measures at the start"),
            self._one_of("inference.runtime", "auto", "openvino", "torch", "uniform", "pseudo_random",
                "simulated_gpu"),
            self._rule("inference.batch_latency_ms", c.inference.batch_latency_ms > 0, "must be above 0"),
            self._one_of("inference.placement", "auto", "actor", "server"), self._at_least("inference.servers", 1),
            self._rule("inference.deadline_ms", 0 <= c.inference.deadline_ms <= 1000, "must lie between 0 and 1000"),
            self._rule("inference.placement", not (c.inference.placement == "actor" and c.inference.device == "cuda"),
                "one actor cannot fill a GPU; with inference.device=cuda use inference.placement=server"),
            self._one_of("inference.precision", *PRECISIONS),
            self._one_of("inference.device", "cpu", "cuda"), self._one_of("learner.device", "cpu", "cuda"),
            self._rule("inference.runtime", not (c.inference.runtime == "openvino" and c.inference.device == "cuda"),
                "openvino runs on the CPU; with inference.device=cuda use inference.runtime=torch"),
        ]

    def search_to_learn(self) -> list[Rule]:
        s, n = self._config.search, self._config.learner
        rules = []
        if isinstance(s, PuctConfig):
            rules += [
                self._rule("search.reuse", not (s.reuse and s.graph),
                    "a graph cannot be cut where the move was played; use search.reuse=false or search.graph=false"),
                self._rule("search.leaves", s.leaves == 1,
                    "self-play walks to one leaf a game at a time, or its visits would be learned with losses that "
                    "never were; use search.leaves=1 (evaluate and match know more)"),
            ]
        if isinstance(s, EvaluationConfig):
            rules.append(self._rule("search.average_symmetries", not s.average_symmetries,
                "self-play draws one symmetry for every leaf; use search.average_symmetries=false (evaluate and match "
                "know the mean)"))
        return [
            *rules,
            self._rule("search.policy", s.policy != "mcts" or not n.enabled,
                "plain UCT uses no network, so nothing can be learned; use search=puct or search=gumbel, or "
                "learner.enabled=false"),
            self._rule("search.policy", s.policy != "policy_only" or not n.enabled,
                "its target is the network's own policy, so nothing can be learned; use search=puct or search=gumbel, "
                "or learner.enabled=false"),
        ]

    def self_play(self) -> list[Rule]:
        s, p = self._config.search, self._config.self_play
        uses_cheap = p.cheap_share > 0 or p.decided_value < 1
        return [
            self._at_least("self_play.random_plies", 0), self._at_least("self_play.policy_plies", 0),
            self._rule("self_play.policy_temperature", p.policy_temperature > 0, "must be above 0"),
            self._rule("self_play.fork_share", 0 <= p.fork_share < 1,
                "must be at least 0 and below 1, because some games have to begin anew"),
            self._at_least("self_play.fork_plies", 0),
            self._at_least("self_play.komi_stdev", 0),
            self._rule("self_play.komi_stdev", p.komi_stdev == 0 or self._config.game.name == "go",
                f"{self._config.game.name} has no komi; leave it out"),
            self._rule("self_play.cheap_share", 0 <= p.cheap_share < 1,
                "must be at least 0 and below 1, for cheap searches are not learned from"),
            self._at_least("self_play.cheap_simulations", 1),
            self._rule("self_play.cheap_simulations", p.cheap_simulations < s.simulations or not uses_cheap,
                f"must be fewer than search.simulations={s.simulations}, or they are not cheap"),
            self._rule("self_play.decided_value", 0 < p.decided_value <= 1, "must lie above 0 and be at most 1"),
            self._at_least("self_play.decided_plies", 1),
            self._rule("self_play.decided_weight", 0 < p.decided_weight <= 1, "must lie above 0 and be at most 1"),
            self._rule("self_play.resign_errors", 0 <= p.resign_errors <= 0.5, "must lie between 0 and 0.5"),
            self._rule("self_play.never_resign_share", 0 < p.never_resign_share <= 1 or p.resign_errors == 0,
                "must lie above 0 and be at most 1: without games played to the end it is unknown when to resign"),
        ]

    def replay(self) -> list[Rule]:
        r = self._config.replay
        return [
            self._one_of("replay.window", "power", "fixed"), self._at_least("replay.capacity", 1),
            self._at_least("replay.minimum", 1),
            self._rule("replay.minimum", r.minimum <= r.capacity,
                f"must not exceed replay.capacity={r.capacity}, or the first step never comes"),
            self._rule("replay.window_exponent", 0 < r.window_exponent <= 1, "must lie above 0 and be at most 1"),
            self._rule("replay.window_factor", 0 < r.window_factor <= 1, "must lie above 0 and be at most 1"),
            self._rule("replay.samples_per_position", r.samples_per_position > 0, "must be above 0"),
            self._share("replay.surprise_weight"), self._share("replay.value_surprise_weight"),
            self._rule("replay.value_surprise_weight", r.surprise_weight + r.value_surprise_weight <= 1,
                f"must be at most 1 together with replay.surprise_weight={r.surprise_weight:g}"),
            self._rule("replay.url", r.url == "" or r.url.startswith(("redis://", "rediss://", "unix://")),
                "must begin with redis://, rediss:// or unix://"),
            self._rule("replay.actor_url", r.actor_url == "" or r.actor_url.startswith(("redis://", "rediss://",
                "unix://")),
                "must begin with redis://, rediss:// or unix://"),
            self._rule("replay.actor_url", r.actor_url == "" or r.url != "",
                "is for a server of yours; give its replay.url as well"),
            self._at_least("replay.megabytes", 1),
        ]

    def network(self) -> list[Rule]:
        c = self._config
        return [
            self._rule("cluster.nice", 0 <= c.cluster.nice <= 19, "must lie between 0 and 19"),
            self._at_least("network.filters", 1),
            self._rule("network.filters", c.network.filters <= 4096, "must be at most 4096"),
            self._at_least("network.blocks", 0),
            self._rule("network.blocks", c.network.blocks <= 256, "must be at most 256"),
            self._one_of("network.policy_head", "linear", "planes"),
            self._at_least("network.policy_filters", 1), self._at_least("network.value_filters", 1),
            self._at_least("network.value_hidden", 1),
        ]

    def learner(self) -> list[Rule]:
        n, r = self._config.learner, self._config.replay
        return [
            *self.targets(n.targets), self._at_least("learner.batch_size", 2),
            self._rule("learner.batch_size", n.batch_size <= r.capacity,
                f"must not exceed replay.capacity={r.capacity}; raise the capacity or lower the batch size"),
            self._one_of("learner.optimizer", "sgd", "adam", "adamw"),
            self._rule("learner.learning_rate", n.learning_rate > 0, "must be above 0"),
            self._rule("learner.momentum", 0 <= n.momentum < 1, "must be at least 0 and below 1"),
            self._at_least("learner.weight_decay", 0), self._at_least("learner.value_weight", 0),
            self._at_least("learner.short_term_weight", 0), self._at_least("learner.soft_policy_weight", 0),
            self._at_least("learner.reply_weight", 0), self._at_least("learner.moves_left_weight", 0),
            self._at_least("learner.ownership_weight", 0), self._at_least("learner.score_weight", 0),
            self._share("learner.root_value_share"), self._at_least("learner.blunder_gap", 0),
            self._at_least("learner.blunder_width", 0),
            self._rule("learner.blunder_width", n.blunder_gap == 0 or n.blunder_width <= 2 * n.blunder_gap,
                f"must be at most twice learner.blunder_gap={n.blunder_gap:g}, or what loses nothing is a blunder"),
            self._at_least("learner.warmup_steps", 0),
            self._one_of("learner.schedule", "constant", "cosine", "step", "cooldown"),
            self._at_least("learner.schedule_steps", 1),
            self._rule("learner.schedule_drops", all(a < b for a, b in pairwise([0, *n.schedule_drops])),
                "must be steps above 0, each later than the one before"),
            self._rule("learner.cooldown_share", 0 < n.cooldown_share <= 1, "must be above 0 and at most 1"),
            self._at_least("learner.max_grad_norm", 0),
            self._rule("learner.ema_decay", 0 <= n.ema_decay < 1, "must be at least 0 and below 1"),
            self._at_least("learner.publish_every", 1), self._one_of("learner.precision", "auto", "fp32", "bf16"),
            self._at_least("learner.threads", 0), self._at_least("learner.prefetch", 0),
            self._at_least("learner.max_bad_steps", 1),
        ]

    def targets(self, names: list[str]) -> list[Rule]:
        unknown = next((name for name in names if name not in TARGETS), "")
        near = nearest(unknown, TARGETS)
        return [
            self._rule("learner.targets", not unknown,
                f"there is no target {unknown}; nearest: {near}; there are {', '.join(TARGETS)}"),
            self._rule("learner.targets", {"policy", "value"} <= set(names),
                "policy and value must be among them, for the search asks for both"),
            self._rule("learner.targets", len(set(names)) == len(names), "names a target twice"),
        ]

    def match(self) -> list[Rule]:
        c = self._config
        return [
            self._at_least("strength.simulations", 1), self._at_least("strength.positions", 1),
            self._rule("strength.minutes", c.strength.minutes > 0,
                "must be above 0; strength.enabled=false switches it off"),
            self._rule("bench.seconds", 0 < c.bench.seconds <= 3600, "must lie above 0 and be at most 3600"),
            self._at_least("match.opening_plies", 0),
            self._rule("match.move_seconds", c.match.move_seconds > 0, "must be above 0"),
            self._rule("match.start_seconds", c.match.start_seconds > 0, "must be above 0"),
            self._rule("match.engines", 0 <= c.match.engines <= 256, "must lie between 0 and 256"),
            self._rule("games", c.games >= 2 and c.games % 2 == 0,
                "must be an even number from 2 on, for every opening is played twice, with sides swapped"),
            self._rule("games", c.games <= 100_000, "must be at most 100000"),
            *self.player("first"), *self.player("second"),
        ]

    def player(self, key: str) -> list[Rule]:
        p = self._get(key)
        return [
            self._rule(f"{key}.engine", p.engine in ("", *ENGINES, "mcts", "random"),
                f"there are {', '.join(ENGINES)}, mcts, random; a network is {key}.checkpoint=RUN_DIR"),
            self._rule(f"{key}.engine", not (p.engine and p.checkpoint),
                f"{key}.checkpoint={p.checkpoint} names a player already; leave one of them out"),
            self._rule(f"{key}.command", bool(p.command.strip()) or p.engine not in ENGINES,
                f'must name a program: {key}.command="{ENGINES.get(p.engine)}"'),
            self._rule(f"{key}.command", not p.command or p.engine in ENGINES,
                f"is for {key}.engine={'|'.join(ENGINES)}; add it"),
            self._rule(f"{key}.options", not p.options or p.engine in ENGINES,
                f"are for {key}.engine={'|'.join(ENGINES)}; add it"),
            self._rule(f"{key}.precision", p.precision in ("", *PRECISIONS),
                f"must be one of {', '.join(PRECISIONS)}"),
            self._rule(f"{key}.precision", not (p.precision and p.engine),
                f"is of a network, and {key}.engine={p.engine} has none; leave it out"),
            *self.move_limits(key, {"nodes": p.nodes, "depth": p.depth, "movetime_ms": p.movetime_ms}),
            *value_rules(p.search, f"{key}.search"),
        ]

    def move_limits(self, key: str, limits: dict[str, int]) -> list[Rule]:
        given = [name for name, value in limits.items() if value]
        engine, seconds = self._get(f"{key}.engine"), self._config.match.move_seconds
        return [
            *(self._at_least(f"{key}.{name}", 0) for name in limits),
            *(self._rule(f"{key}.{name}", engine in ("uci", "usi"),
                f"is for {key}.engine=uci|usi" + (f"; a gtp engine is told by {key}.options or its command"
                                                  if engine == "gtp" else "; leave it out")) for name in given),
            *(self._rule(f"{key}.{name}", False, f"and {key}.{given[0]}={limits[given[0]]} are two limits of one move; "
                "leave one of them out") for name in given[1:]),
            self._rule(f"{key}.movetime_ms", limits["movetime_ms"] < 1000 * seconds,
                f"must be less than match.move_seconds={seconds:g}, or every move comes too late"),
        ]

    def _get(self, key: str) -> Any:
        value: Any = self._config
        for name in key.split("."):
            value = getattr(value, name)
        return value

    def _rule(self, key: str, holds: bool, text: str) -> Rule:
        return key, self._get(key), holds, text

    def _at_least(self, key: str, low: float) -> Rule:
        return self._rule(key, self._get(key) >= low, f"must be at least {low:g}")

    def _one_of(self, key: str, *names: str) -> Rule:
        return self._rule(key, self._get(key) in names, f"must be one of {', '.join(names)}")

    def _share(self, key: str) -> Rule:
        return self._rule(key, 0 <= self._get(key) <= 1, "must lie between 0 and 1")
