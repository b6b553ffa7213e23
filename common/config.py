"""Everything a user can set: one dataclass a role, one documented line a field.

Hydra composes the same tree from `configs/`; `deploy.overrides` turns it into these classes once, and each part
receives only its own.  `check` raises UsageError on what is impossible or contradictory.  docs/configuration.md is
made from this file.
"""

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from math import isfinite
from typing import Any

from common.errors import UsageError
from common.nearest import nearest

# The names of `common.targets`, which needs torch.
TARGETS = ("policy", "value", "short_term", "soft_policy", "reply", "moves_left", "ownership", "score")


@dataclass
class GameConfig:
    """Which rules."""

    name: str = "connect_four"  # one of `shusaku games`
    params: dict[str, Any] = field(default_factory=dict)  # game.<param>=...: what `shusaku games` lists for it


@dataclass
class RunConfig:
    """Where a run lives and how long it lasts."""

    dir: str = "runs/default"  # checkpoints, records, metrics; the same directory resumes
    name: str = ""  # of its keys in Redis, a-z 0-9 -; empty: made from the directory's name and a random part
    minutes: float = 20.0  # training time, summed over resumes, without set-up and final evaluation
    seed: int = 1  # of games, sampling and initial weights
    resume: str = "auto"  # auto: go on where the directory stops; never: refuse a directory that holds a run
    checkpoint_seconds: float = 60.0  # between checkpoints; 0: only at the end
    keep_checkpoints: int = 3  # newest ones kept


@dataclass
class ActorsConfig:
    """Who plays."""

    count: int = 0  # self-play actors (threads in one process); 0: one a core
    cpus: float = 1.0  # CPUs that each claims on a cluster
    games_per_actor: int = 64  # games side by side in one actor; also the batch size of its network


@dataclass
class InferenceConfig:
    """How positions are evaluated."""

    placement: str = "auto"  # actor: inside each actor; server: batched for all of them; auto: server on a GPU
    servers: int = 1  # inference servers, with placement server
    deadline_ms: float = 2.0  # a server waits no longer than this for more positions
    runtime: str = "auto"  # openvino | torch; auto: openvino on a CPU, torch on a GPU; uniform | pseudo_random: none
    precision: str = "auto"  # fp32 | bf16; auto: bf16 where the processor computes in it
    device: str = "cpu"  # cpu | cuda


@dataclass
class SearchConfig:
    """How a move is searched.  Values of AlphaZero (2018) and Gumbel AlphaZero (2022) unless said otherwise."""

    policy: str = "puct"  # puct | gumbel | mcts (plain UCT with random rollouts, no network) | policy_only (no search)
    simulations: int = 64  # a search
    c_puct: float = 1.5  # exploration constant of puct (and of gumbel's puct interior)
    c_puct_log: float = 0.0  # puct: c = c_puct + this * log((N + c_puct_base) / c_puct_base) (AlphaZero 1, KataGo 0.45)
    c_puct_base: float = 19652.0  # where that growth sets in (AlphaZero; KataGo 500, lc0 38739)
    fpu_reduction: float = 0.2  # unvisited child: parent's value - this * sqrt(visited prior) (KataGo, lc0)
    root_fpu_reduction: float = 0.0  # the same at the root (KataGo: 0 where noise explores)
    noise: bool = True  # Dirichlet noise on the root prior, puct only
    dirichlet_alpha: float = 1.0  # about 10 / number of legal moves (AlphaZero: 0.3 chess, 0.03 Go)
    dirichlet_total: float = 0.0  # instead of alpha: alphas adding up to this, half of it by the prior (KataGo 10.83)
    dirichlet_fraction: float = 0.25  # share of the noise in the root prior
    root_policy_temperature: float = 1.0  # flattens the root prior before the noise, puct only (KataGo 1.1)
    root_policy_temperature_early: float = 1.0  # the same at ply 0, where there is a half-life (KataGo 1.25)
    root_policy_temperature_half_life: float = 0.0  # plies (KataGo: the board's side); 0: no early one
    forced_playouts: float = 0.0  # k: a visited root action gets at least sqrt(k * P * N) visits, puct only (KataGo 2)
    prune_policy: bool = False  # takes visits that PUCT would not give with hindsight from move and target (KataGo)
    temperature: float = 1.0  # moves are drawn with probability visits^(1/temperature)
    temperature_plies: int = 30  # after so many plies the most visited move is played; puct only
    move_choice: str = "visits"  # at temperature 0: visits | lcb (highest lower confidence bound, KataGo); not gumbel
    lcb_stdevs: float = 5.0  # the bound lies so many standard errors below the mean, by Student's quantile (KataGo)
    lcb_least_share: float = 0.15  # of the most visited action's visits that an action needs for it (KataGo)
    reuse: bool = False  # keep the subtree of the move that was played; puct only
    proven_results: bool = False  # wins, draws and losses proven by the tree bind values, move and target (MCTS-Solver)
    cache: int = 1 << 18  # positions whose evaluation an actor remembers; 0: none
    considered_actions: int = 16  # m, actions that gumbel considers at the root
    gumbel_scale: float = 1.0  # scale of the Gumbel draw; 0 when playing for strength
    gumbel_interior: str = "improved"  # improved: deterministic, as in the paper; puct
    value_scale: float = 0.1  # c_scale of sigma(q) = (c_visit + max visits) * c_scale * q, q in [0, 1] when rescaled
    maxvisit_init: float = 50.0  # c_visit
    rescale_values: bool = True  # completed values of a node stretched to [0, 1] (mctx's default)
    c_uct: float = 1.4  # exploration constant of mcts


@dataclass
class SelfPlayConfig:
    """How games are made, apart from the search."""

    random_plies: int = 0  # each game begins with 0 to so many uniformly random plies, which are not learned from
    policy_plies: float = 0.0  # then so many on average (exponential) drawn from the network's policy, not learned from
    policy_temperature: float = 1.0  # of these draws (KataGo, cpp/program/playsettings.h: policyInitAreaTemperature)
    cheap_share: float = 0.0  # of the searches that are cheap and not learned from (KataGo 0.75; Wu 2019, section 3.1)
    cheap_simulations: int = 8  # of these, without noise (KataGo: a sixth of a full search)
    decided_value: float = 1.0  # root value that decides a game: beyond it searches shrink (KataGo 0.9); 1: none
    decided_plies: int = 3  # that must agree on it (KataGo, reduceVisitsThresholdLookback)
    decided_weight: float = 0.1  # of the rows of a game wholly decided (KataGo, reducedVisitsWeight)
    resign_errors: float = 0.0  # share of games not lost that resigning may give away (AlphaGo Zero 0.05); 0: never
    never_resign_share: float = 0.1  # of the games, which are played to the end to know that share (AlphaGo Zero)


@dataclass
class ReplayConfig:
    """What is remembered and how often it is learned from."""

    window: str = "power"  # power: grows with the rows seen (KataGo, python/shuffle.py); fixed: always `capacity`
    capacity: int = 500_000  # rows kept at most
    minimum: int = 10_000  # rows before the first step; with `power` also the smallest window
    window_exponent: float = 0.65  # of the power law
    window_factor: float = 0.4  # rows that the window grows by for each new row, at first
    samples_per_position: float = 2.0  # how often a position is learned from
    surprise_weight: float = 0.0  # share of a game's draws that goes by KL(policy || prior) (KataGo: 0.5); 0: none
    value_surprise_weight: float = 0.0  # and by how far the searches' next values were from the network's (0.1)
    url: str = ""  # redis://, rediss:// or unix:// of your server; empty: an own one in the run directory
    actor_url: str = ""  # as actors reach your server, where that differs: another user, another address
    megabytes: int = 4096  # games that the server keeps at most, whatever `capacity` says


@dataclass
class NetworkConfig:
    """The residual tower with a policy and a value head (AlphaGo Zero, Methods)."""

    filters: int = 64  # channels of the tower
    blocks: int = 5  # residual blocks of two 3x3 convolutions
    policy_filters: int = 2  # channels of the policy head before its linear layer
    value_filters: int = 1  # channels of the value head before its linear layers
    value_hidden: int = 64  # width of the value head's hidden layer


@dataclass
class LearnerConfig:
    """How the network is trained.

    Of the targets, policy and value are what self-play asks for.  The others only teach the tower, in the learner:
    short_term (what the searches of the next plies say), soft_policy, reply (the opponent's policy), moves_left; and
    where the game gives them, ownership and score.
    """

    enabled: bool = True  # false: self-play only, the limiter is off too
    batch_size: int = 256  # rows of a gradient step
    targets: list[str] = field(default_factory=lambda: ["policy", "value"])  # what is learned
    optimizer: str = "adamw"  # sgd | adam | adamw
    learning_rate: float = 1e-3  # after the warm-up, at the head of the schedule
    momentum: float = 0.9  # sgd only
    weight_decay: float = 1e-4  # c of c * |theta|^2; decoupled with adamw
    value_weight: float = 1.0  # of (z - v)^2 beside the policy's cross entropy
    root_value_share: float = 0.0  # r of the value's label (1 - r) z + r q, q what the search said (lc0: q_ratio)
    short_term_weight: float = 0.6  # of each short-term value: what the searches of the next plies say (KataGo)
    soft_policy_weight: float = 8.0  # of the policy flattened to pi^(1/4) (KataGo)
    reply_weight: float = 0.15  # of the policy of the opponent's next search (KataGo)
    moves_left_weight: float = 1.0  # of how many plies are left (lc0)
    ownership_weight: float = 1.5  # of who owns which cell at the end (KataGo)
    score_weight: float = 0.0015  # of the points at the end (KataGo)
    blunder_gap: float = 0.0  # deblunder: z stops where a move loses more than this (lc0's rescorer: 0.1); 0: never
    blunder_width: float = 0.06  # of the transition around that gap (lc0: deblunder-q-blunder-width)
    warmup_steps: int = 100  # the learning rate rises linearly over them
    schedule: str = "constant"  # constant | cosine (to 5 % at `schedule_steps`) | step (tenth at each third of them)
    schedule_steps: int = 20_000  # length of the schedule in steps
    max_grad_norm: float = 4.0  # gradients are clipped to it; 0: not
    ema_decay: float = 0.99  # of the published average, per step, after a warm-up
    publish_every: int = 100  # steps between publications
    precision: str = "auto"  # fp32 | bf16 (autocast); auto: bf16 where the processor or GPU computes in it
    device: str = "cpu"  # cpu | cuda
    threads: int = 0  # of torch; 0: all cores in one process, cores - actors on a cluster
    prefetch: int = 2  # mini-batches prepared ahead by a thread
    symmetries: bool = True  # a random symmetry of the game for every sampled row
    max_bad_steps: int = 5  # non-finite steps in a row before the last checkpoint is loaded again


@dataclass
class StrengthConfig:
    """How the strength is measured while training."""

    enabled: bool = True  # false: not at all while training
    simulations: int = 64  # of the search that is measured
    positions: int = 300  # of the committed set, the same ones every time
    minutes: float = 5.0  # between measurements; every minute for the first five
    final: bool = True  # the full table and the picture at the end


@dataclass
class ClusterConfig:
    """Ray, for `shusaku train`; the address to join is RAY_ADDRESS, without it Ray is started here."""

    dashboard: bool = True  # start Ray's dashboard and metrics with it, where Ray is started here
    nice: int = 5  # actors run at this lower priority, so that learning on the same cores comes first


@dataclass
class BenchConfig:
    """How `shusaku bench` measures."""

    seconds: float = 10.0  # how long one measurement lasts


@dataclass
class PlayerConfig:
    """One of the two players of `shusaku match`: a checkpoint, or an engine."""

    checkpoint: str = ""  # RUN_DIR | RUN_DIR/checkpoints/STEP | FILE | random (an untrained network)
    engine: str = ""  # gtp: a program, see command; mcts: plain UCT with random rollouts; random: a random mover
    command: str = ""  # of an engine over gtp, program and arguments
    options: dict[str, Any] = field(default_factory=dict)  # gtp commands after its start: {level: 1} sends `level 1`
    search: SearchConfig = field(default_factory=SearchConfig)  # as in section search; else as the run


@dataclass
class MatchConfig:
    """How `shusaku match` plays; every opening is played twice, with sides swapped."""

    opening_plies: int = 4  # random legal ones that a pair of games begins with
    move_seconds: float = 60.0  # that an engine may take for a move
    start_seconds: float = 60.0  # and for an answer before its first game
    engines: int = 0  # processes of an engine, each with a game of its own; 0: four a core, of which one a core thinks
    file: str = ""  # of the games that ended, one JSON object a line


@dataclass
class Config:
    """The whole tree."""

    experiment: str = ""  # the preset it came from
    game: GameConfig = field(default_factory=GameConfig)
    run: RunConfig = field(default_factory=RunConfig)
    actors: ActorsConfig = field(default_factory=ActorsConfig)
    inference: InferenceConfig = field(default_factory=InferenceConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    self_play: SelfPlayConfig = field(default_factory=SelfPlayConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    strength: StrengthConfig = field(default_factory=StrengthConfig)
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    bench: BenchConfig = field(default_factory=BenchConfig)
    match: MatchConfig = field(default_factory=MatchConfig)
    first: PlayerConfig = field(default_factory=PlayerConfig)
    second: PlayerConfig = field(default_factory=PlayerConfig)
    games: int = 400  # of a match, an even number
    checkpoint: str = ""  # RUN_DIR | RUN_DIR/checkpoints/STEP | FILE | random, for evaluate and bench


def config_hash(config: Config) -> str:
    """Names the settings that decide what a record means: game, search and self-play."""
    parts = [asdict(part) for part in (config.game, config.search, config.self_play)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def check(config: Config) -> None:
    """Raises UsageError naming value, rule and way out for the first setting that cannot work."""
    for key, value, rule in [*_finite(config), *_rules(config)]:
        if not rule[0]:
            shown = str(value).lower() if isinstance(value, bool) else value
            shown = f"[{','.join(map(str, value))}]" if isinstance(value, list) else shown
            raise UsageError(f"{key}={shown}: {rule[1]}")


def _finite(config: Any, prefix: str = "") -> list[tuple[str, Any, tuple[bool, str]]]:
    rules: list[tuple[str, Any, tuple[bool, str]]] = []
    for item in fields(config):
        value, key = getattr(config, item.name), f"{prefix}{item.name}"
        if is_dataclass(value):
            rules += _finite(value, f"{key}.")
        elif isinstance(value, float):
            rules.append((key, value, (isfinite(value), "must be a finite number")))
    return rules


def _rules(c: Config) -> list[tuple[str, Any, tuple[bool, str]]]:
    def at_least(key: str, low: float) -> tuple[str, Any, tuple[bool, str]]:
        value = _get(c, key)
        return key, value, (value >= low, f"must be at least {low:g}")

    def one_of(key: str, *names: str) -> tuple[str, Any, tuple[bool, str]]:
        value = _get(c, key)
        return key, value, (value in names, f"must be one of {', '.join(names)}")

    def share(key: str) -> tuple[str, Any, tuple[bool, str]]:
        value = _get(c, key)
        return key, value, (0 <= value <= 1, "must lie between 0 and 1")

    def rule(key: str, holds: bool, text: str) -> tuple[str, Any, tuple[bool, str]]:
        return key, _get(c, key), (holds, text)

    def target_rules(names: list[str]) -> list[tuple[str, Any, tuple[bool, str]]]:
        unknown = next((name for name in names if name not in TARGETS), "")
        near = nearest(unknown, TARGETS)
        return [
            rule("learner.targets", not unknown,
                 f"there is no target {unknown}; nearest: {near}; there are {', '.join(TARGETS)}"),
            rule("learner.targets", {"policy", "value"} <= set(names),
                 "policy and value must be among them, for the search asks for both"),
            rule("learner.targets", len(set(names)) == len(names), "names a target twice"),
        ]

    def search_rules(key: str) -> list[tuple[str, Any, tuple[bool, str]]]:
        s = _get(c, key)
        return [
            one_of(f"{key}.policy", "puct", "gumbel", "mcts", "policy_only"),
            one_of(f"{key}.move_choice", "visits", "lcb"),
            rule(f"{key}.move_choice", s.move_choice == "visits" or s.policy in ("puct", "mcts"),
                 f"{s.policy} has its own choice; use {key}.move_choice=visits"),
            at_least(f"{key}.lcb_stdevs", 0), share(f"{key}.lcb_least_share"),
            rule(f"{key}.proven_results", not (s.proven_results and s.policy == "policy_only"),
                 "policy_only grows no tree that could prove anything; leave it out"),
            at_least(f"{key}.simulations", 1),
            rule(f"{key}.simulations", s.simulations <= 1 << 20, "must be at most 1048576"),
            at_least(f"{key}.c_puct", 0), at_least(f"{key}.c_uct", 0), at_least(f"{key}.fpu_reduction", 0),
            at_least(f"{key}.root_fpu_reduction", 0), at_least(f"{key}.c_puct_log", 0),
            rule(f"{key}.c_puct_base", s.c_puct_base > 0, f"must be above 0; {key}.c_puct_log=0 switches growth off"),
            at_least(f"{key}.dirichlet_total", 0),
            rule(f"{key}.root_policy_temperature", s.root_policy_temperature > 0, "must be above 0; 1 changes nothing"),
            rule(f"{key}.root_policy_temperature_early", s.root_policy_temperature_early > 0,
                 "must be above 0; 1 changes nothing"),
            at_least(f"{key}.root_policy_temperature_half_life", 0),
            rule(f"{key}.root_policy_temperature_early",
                 s.root_policy_temperature_early == 1 or s.root_policy_temperature_half_life > 0,
                 f"has no effect without one; give {key}.root_policy_temperature_half_life"),
            at_least(f"{key}.forced_playouts", 0),
            *(rule(f"{key}.{name}", s.policy == "puct" or not on,
                   f"works at the root of puct only, not of {s.policy}; leave it out or take puct")
              for name, on in (("forced_playouts", s.forced_playouts > 0), ("prune_policy", s.prune_policy),
                               ("root_policy_temperature", s.root_policy_temperature != 1),
                               ("root_policy_temperature_half_life", s.root_policy_temperature_half_life > 0))),
            rule(f"{key}.dirichlet_alpha", s.dirichlet_alpha > 0,
                 f"must be above 0; {key}.noise=false switches noise off"),
            share(f"{key}.dirichlet_fraction"), at_least(f"{key}.temperature", 0),
            at_least(f"{key}.temperature_plies", 0),
            at_least(f"{key}.cache", 0),
            rule(f"{key}.cache", s.cache <= 1 << 28, "must be at most 268435456 positions"),
            at_least(f"{key}.considered_actions", 1), at_least(f"{key}.gumbel_scale", 0),
            one_of(f"{key}.gumbel_interior", "improved", "puct"),
            rule(f"{key}.value_scale", s.value_scale > 0, "must be above 0"), at_least(f"{key}.maxvisit_init", 0),
        ]

    def player_rules(key: str) -> list[tuple[str, Any, tuple[bool, str]]]:
        p = _get(c, key)
        return [
            rule(f"{key}.engine", p.engine in ("", "gtp", "mcts", "random"),
                 f"there are gtp, mcts, random; a network is {key}.checkpoint=RUN_DIR"),
            rule(f"{key}.engine", not (p.engine and p.checkpoint),
                 f"{key}.checkpoint={p.checkpoint} names a player already; leave one of them out"),
            rule(f"{key}.command", bool(p.command.strip()) or p.engine != "gtp",
                 f'must name a program: {key}.command="gnugo --mode gtp"'),
            rule(f"{key}.command", not p.command or p.engine == "gtp", f"is for {key}.engine=gtp; add it"),
            rule(f"{key}.options", not p.options or p.engine == "gtp", f"are for {key}.engine=gtp; add it"),
            *search_rules(f"{key}.search"),
        ]

    s, p, r, n = c.search, c.self_play, c.replay, c.learner
    uses_cheap = p.cheap_share > 0 or p.decided_value < 1
    return [
        rule("run.dir", c.run.dir.strip() != "", "must name a directory, such as runs/first"),
        rule("run.name", re.fullmatch("([a-z0-9][a-z0-9-]{0,63})?", c.run.name) is not None,
             "must be made of a-z, 0-9 and -, 64 at most, and not begin with -"),
        at_least("run.minutes", 0), one_of("run.resume", "auto", "never"), at_least("run.seed", 0),
        at_least("run.checkpoint_seconds", 0), at_least("run.keep_checkpoints", 1),
        at_least("actors.count", 0),
        rule("actors.count", c.actors.count <= 4096, "more than 4096 actors are not supported; ask for fewer"),
        rule("actors.cpus", c.actors.cpus > 0, "must be above 0, for example 0.1 to oversubscribe on purpose"),
        at_least("actors.games_per_actor", 1),
        rule("actors.games_per_actor", c.actors.games_per_actor <= 65536, "must be at most 65536"),
        one_of("inference.runtime", "auto", "openvino", "torch", "uniform", "pseudo_random"),
        one_of("inference.placement", "auto", "actor", "server"), at_least("inference.servers", 1),
        rule("inference.deadline_ms", 0 <= c.inference.deadline_ms <= 1000, "must lie between 0 and 1000"),
        rule("inference.placement", not (c.inference.placement == "actor" and c.inference.device == "cuda"),
             "one actor cannot fill a GPU; with inference.device=cuda use inference.placement=server"),
        one_of("inference.precision", "auto", "fp32", "bf16"),
        one_of("inference.device", "cpu", "cuda"), one_of("learner.device", "cpu", "cuda"),
        rule("inference.runtime", not (c.inference.runtime == "openvino" and c.inference.device == "cuda"),
             "openvino runs on the CPU; with inference.device=cuda use inference.runtime=torch"),
        *search_rules("search"),
        rule("search.reuse", not (s.reuse and s.policy != "puct"),
             f"search.policy={s.policy} starts every search afresh; use search=puct or search.reuse=false"),
        rule("search.noise", not (s.noise and s.policy == "policy_only"),
             "policy_only plays what the network says; use search.noise=false or search=puct"),
        rule("search.noise", not (s.noise and s.policy == "gumbel"),
             "gumbel explores by its own draw, noise would spoil it; use search.noise=false or search=puct"),
        rule("search.considered_actions", s.policy != "gumbel" or s.considered_actions <= s.simulations,
             f"must not exceed search.simulations={s.simulations}, or no halving begins; lower it or raise them"),
        rule("search.policy", s.policy != "mcts" or not n.enabled,
             "plain UCT uses no network, so nothing can be learned; use search=puct or search=gumbel"),
        rule("search.policy", s.policy != "policy_only" or not n.enabled,
             "its target is the network's own policy, so nothing can be learned; use search=puct or search=gumbel"),
        at_least("self_play.random_plies", 0), at_least("self_play.policy_plies", 0),
        rule("self_play.policy_temperature", p.policy_temperature > 0, "must be above 0"),
        rule("self_play.cheap_share", 0 <= p.cheap_share < 1,
             "must be at least 0 and below 1, for cheap searches are not learned from"),
        at_least("self_play.cheap_simulations", 1),
        rule("self_play.cheap_simulations", p.cheap_simulations < s.simulations or not uses_cheap,
             f"must be fewer than search.simulations={s.simulations}, or they are not cheap"),
        rule("self_play.decided_value", 0 < p.decided_value <= 1, "must lie above 0 and be at most 1"),
        at_least("self_play.decided_plies", 1),
        rule("self_play.decided_weight", 0 < p.decided_weight <= 1, "must lie above 0 and be at most 1"),
        rule("self_play.resign_errors", 0 <= p.resign_errors <= 0.5, "must lie between 0 and 0.5"),
        rule("self_play.never_resign_share", 0 < p.never_resign_share <= 1 or p.resign_errors == 0,
             "must lie above 0 and be at most 1: without games played to the end nobody knows when to resign"),
        one_of("replay.window", "power", "fixed"), at_least("replay.capacity", 1), at_least("replay.minimum", 1),
        rule("replay.minimum", r.minimum <= r.capacity,
             f"must not exceed replay.capacity={r.capacity}, or the first step never comes"),
        rule("replay.window_exponent", 0 < r.window_exponent <= 1, "must lie above 0 and be at most 1"),
        rule("replay.window_factor", 0 < r.window_factor <= 1, "must lie above 0 and be at most 1"),
        rule("replay.samples_per_position", r.samples_per_position > 0, "must be above 0"),
        share("replay.surprise_weight"), share("replay.value_surprise_weight"),
        rule("replay.value_surprise_weight", r.surprise_weight + r.value_surprise_weight <= 1,
             f"must be at most 1 together with replay.surprise_weight={r.surprise_weight:g}"),
        rule("replay.url", r.url == "" or r.url.startswith(("redis://", "rediss://", "unix://")),
             "must begin with redis://, rediss:// or unix://"),
        rule("replay.actor_url", r.actor_url == "" or r.actor_url.startswith(("redis://", "rediss://", "unix://")),
             "must begin with redis://, rediss:// or unix://"),
        rule("replay.actor_url", r.actor_url == "" or r.url != "",
             "is for a server of yours; give its replay.url as well"),
        at_least("replay.megabytes", 1),
        rule("cluster.nice", 0 <= c.cluster.nice <= 19, "must lie between 0 and 19"),
        at_least("network.filters", 1), rule("network.filters", c.network.filters <= 4096, "must be at most 4096"),
        at_least("network.blocks", 0), rule("network.blocks", c.network.blocks <= 256, "must be at most 256"),
        at_least("network.policy_filters", 1), at_least("network.value_filters", 1),
        at_least("network.value_hidden", 1),
        *target_rules(n.targets), at_least("learner.batch_size", 2),
        rule("learner.batch_size", n.batch_size <= r.capacity,
             f"must not exceed replay.capacity={r.capacity}; raise the capacity or lower the batch size"),
        one_of("learner.optimizer", "sgd", "adam", "adamw"),
        rule("learner.learning_rate", n.learning_rate > 0, "must be above 0"),
        rule("learner.momentum", 0 <= n.momentum < 1, "must be at least 0 and below 1"),
        at_least("learner.weight_decay", 0), at_least("learner.value_weight", 0),
        at_least("learner.short_term_weight", 0), at_least("learner.soft_policy_weight", 0),
        at_least("learner.reply_weight", 0), at_least("learner.moves_left_weight", 0),
        at_least("learner.ownership_weight", 0), at_least("learner.score_weight", 0),
        share("learner.root_value_share"), at_least("learner.blunder_gap", 0), at_least("learner.blunder_width", 0),
        rule("learner.blunder_width", n.blunder_gap == 0 or n.blunder_width <= 2 * n.blunder_gap,
             f"must be at most twice learner.blunder_gap={n.blunder_gap:g}, or moves that lose nothing are blunders"),
        at_least("learner.warmup_steps", 0),
        one_of("learner.schedule", "constant", "cosine", "step"), at_least("learner.schedule_steps", 1),
        at_least("learner.max_grad_norm", 0),
        rule("learner.ema_decay", 0 <= n.ema_decay < 1, "must be at least 0 and below 1"),
        at_least("learner.publish_every", 1), one_of("learner.precision", "auto", "fp32", "bf16"),
        at_least("learner.threads", 0), at_least("learner.prefetch", 0), at_least("learner.max_bad_steps", 1),
        at_least("strength.simulations", 1), at_least("strength.positions", 1),
        rule("strength.minutes", c.strength.minutes > 0, "must be above 0; strength.enabled=false switches it off"),
        rule("bench.seconds", 0 < c.bench.seconds <= 3600, "must lie above 0 and be at most 3600"),
        at_least("match.opening_plies", 0),
        rule("match.move_seconds", c.match.move_seconds > 0, "must be above 0"),
        rule("match.start_seconds", c.match.start_seconds > 0, "must be above 0"),
        rule("match.engines", 0 <= c.match.engines <= 256, "must lie between 0 and 256"),
        rule("games", c.games >= 2 and c.games % 2 == 0,
             "must be an even number from 2 on, for every opening is played twice, with sides swapped"),
        rule("games", c.games <= 100_000, "must be at most 100000"),
        *player_rules("first"), *player_rules("second"),
    ]


def _get(config: Any, key: str) -> Any:
    for name in key.split("."):
        config = getattr(config, name)
    return config
