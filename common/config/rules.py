"""What a configuration must satisfy before anything starts: each rule names the setting, its value and the way out."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from operator import attrgetter

from shusaku.common.config.rule import Limits, Rule, limit_rules, matches, number, one_of, raise_first
from shusaku.common.config.schema import MOST_THREADS, Config, PlayerConfig, SelfPlayConfig, leaves, self_play_search
from shusaku.common.config.search import (
    MOST_SOLVED,
    EvaluationConfig,
    PolicyOnlyConfig,
    PuctConfig,
    ScoreConfig,
    TreeConfig,
    search_rules,
    value_rules,
)
from shusaku.common.config.stages import check_first, read_stages
from shusaku.common.suggestions import nearest

# The names of `common.network.targets`, which needs torch.
TARGETS = ("policy", "value", "win_draw_loss", "short_term", "soft_policy", "reply", "moves_left", "ownership", "score")
TRACKERS = ("mlflow", "wandb")  # as TRACKERS of `deploy.run.trackers`
PUBLISHED_HEADS = ("ownership", "score")  # as HEADS of `common.network.tower`, which needs numpy
LISTENERS = ("memory", "tcp")  # what an inference server may listen for besides Ray calls
# Protocols of programs, and a command that speaks each.
ENGINES = {"gtp": "gnugo --mode gtp", "uci": "stockfish", "usi": "fairy-stockfish"}
PRECISIONS = ("auto", "fp32", "bf16", "fp16", "int8")


_Condition = tuple[str, bool, str]  # a setting, whether it works together with the others, and what it must be

_LIMITS: Limits = [
    (matches(r".*\S.*", "must name a directory, such as runs/first"), ["run.dir"]),
    (matches("([a-z0-9][a-z0-9-]{0,63})?", "must be made of a-z, 0-9 and -, 64 at most, and not begin with -"),
     ["run.name"]),
    (matches(r"((rediss?|unix)://\S*)?", "must begin with redis://, rediss:// or unix:// and hold no blank"),
     ["replay.url", "replay.actor_url"]),
    (matches(r"([\w./-]+:[\w.-]+)?", "must be LABEL:VALUE, a label of nodes of Ray"), ["actors.where"]),
    (matches(r"[A-Za-z0-9.:-]+", "must be an address or a name of this machine, such as 127.0.0.1"), ["view.host"]),
    (one_of("auto", "never"), ["run.resume"]),
    (one_of("none", "win_rate"), ["gating"]),
    (one_of("none", "tls"), ["replay.encryption", "inference.encryption"]),
    (one_of("one", "all"), ["value.rows"]),
    (one_of("auto", "actor", "server"), ["inference.placement"]),
    (one_of("auto", "openvino", "torch", "uniform", "pseudo_random", "simulated_gpu"), ["inference.runtime"]),
    (one_of(*PRECISIONS), ["inference.precision"]),
    (one_of("auto", "eager", "compiled"), ["inference.gpu_program", "learner.gpu_program"]),
    (one_of("", *PRECISIONS), ["first.precision", "second.precision"]),
    (one_of("auto", "fp32", "bf16"), ["learner.precision"]),
    (one_of("auto", "cpu", "cuda"), ["inference.device", "learner.device"]),
    (one_of("power", "fixed"), ["replay.window"]),
    (one_of("planes", "moves"), ["replay.keep"]),
    (one_of("linear", "planes"), ["network.policy_head"]),
    (one_of("residual", "plain"), ["network.tower"]),
    (one_of("reject", "draw"), ["records.unknown"]),
    (one_of("sgd", "adam", "adamw", "muon"), ["learner.optimizer"]),
    (one_of("squared", "cross_entropy"), ["learner.value_loss"]),
    (one_of("rules", "search"), ["learner.cut_off_value"]),
    (number("; solving takes seconds beyond", at_least=0, at_most=MOST_SOLVED), ["learner.solved_empties"]),
    (one_of("constant", "cosine", "step", "cooldown"), ["learner.schedule"]),
    (number(at_least=0), [
        "run.minutes", "run.evaluations", "run.seed", "run.checkpoint_seconds", "run.keep_every_minutes",
        "actors.snapshot_minutes",
        "learner.weight_decay", "learner.value_weight", "learner.short_term_weight", "learner.soft_policy_weight",
        "learner.reply_weight",
        "learner.win_draw_loss_weight", "learner.moves_left_weight",
        "learner.ownership_weight", "learner.score_weight", "learner.blunder_gap",
        "learner.blunder_width", "learner.warmup_steps", "learner.steps", "learner.max_grad_norm", "learner.threads",
        "learner.prefetch", "match.opening_plies", "rater.opening_plies", "rater.fill", "gate.opening_plies",
        "gate.simulations", "records.games", "records.moves", "records.skip_plies",
        "first.nodes", "first.depth", "first.movetime_ms",
        "second.nodes", "second.depth", "second.movetime_ms", "first.seconds", "second.seconds",
    ]),
    (number("; -1: the newest checkpoint", at_least=-1), ["resume_from"]),
    (number(at_least=0, at_most=1),
     ["replay.surprise_weight", "replay.value_surprise_weight", "learner.root_value_share"]),
    (number(at_least=0, below=1), ["learner.momentum", "learner.ema_decay", "learner.value_lambda"]),
    (number(at_least=0, at_most=0.5), ["replay.test_share"]),
    (number(at_least=0, at_most=19), ["cluster.nice"]),
    (number(at_least=30), ["cluster.stuck_seconds"]),
    (number(at_least=0), ["cluster.autoscaler_cpus"]),
    (number(", a port; 0 takes any free one", at_least=0, at_most=65535), ["run.http_port", "view.port"]),
    (number(at_least=0, at_most=4096), ["network.squeeze"]),
    (number(at_least=0, at_most=256), ["network.blocks", "match.engines"]),
    (number(at_least=0, at_most=MOST_THREADS), ["engine.threads"]),
    (number(at_least=1, at_most=64), ["engine.leaves"]),
    (number(at_least=1, at_most=1 << 20), ["engine.megabytes"]),
    (number("; 0: as the run was searched", at_least=0, at_most=1 << 20), ["engine.simulations"]),
    (number(at_least=0, at_most=60_000), ["engine.lag_ms"]),
    (number(at_least=1, at_most=256), ["engine.positions"]),
    (number("; -1: never", at_least=-1, at_most=0), ["engine.resign_value"]),
    (number(at_least=0, at_most=10), ["play.temperature", "value.temperature"]),
    (number(at_least=0, at_most=1000), ["inference.deadline_ms"]),
    (number("; auto: one for each GPU that serves", at_least=0, at_most=256), ["inference.servers"]),
    (number(", a share of one GPU; auto: as many as there are allow", at_least=0, at_most=1),
     ["inference.gpus_per_server", "learner.gpus"]),
    (number("; more actors are not supported", at_least=0, at_most=4096), ["actors.count"]),
    (number("; auto measures at the start", at_least=0, at_most=65536), ["actors.games_per_actor"]),
    (number(at_least=1), [
        "run.keep_checkpoints", "replay.capacity", "replay.minimum", "replay.megabytes",
        "network.policy_filters", "network.value_filters", "network.value_hidden", "learner.schedule_steps",
        "learner.publish_every", "learner.max_bad_steps", "rater.simulations", "gate.every", "strength.simulations",
        "strength.positions", "engine.resign_moves", "value.last_switch", "reinforce.games", "reinforce.pool_every",
        "reinforce.max_lag",
    ]),
    (number(at_least=1, at_most=4096), ["network.filters"]),
    (number(at_least=2), ["learner.batch_size"]),
    (number(at_least=1, at_most=256), ["learner.ranks"]),
    (number(at_least=2, at_most=10000), ["rater.games", "gate.games"]),
    (number(", a share of the points", at_least=0, below=1), ["gate.score"]),
    (number(", a share of the time", above=0, at_most=1), ["rater.share", "gate.share"]),
    (number(above=0), [
        "run.max_outage_minutes", "inference.simulated_gpu_batch_ms", "replay.samples_per_position",
        "learner.learning_rate", "match.move_seconds", "match.start_seconds",
    ]),
    (number(at_least=0), ["inference.simulated_gpu_row_us", "inference.simulated_gpu_batches"]),
    (number(", for example 0.1 to oversubscribe on purpose", above=0), ["actors.cpus"]),
    (number("; strength.enabled=false switches it off", above=0), ["strength.minutes"]),
    (number(above=0, at_most=1), ["replay.window_exponent", "replay.window_factor", "learner.cooldown_share"]),
    (number(above=0, at_most=3600), ["bench.seconds"]),
    (number(above=0), ["dataset.minutes"]),
    (number(at_least=1, at_most=10_000_000), ["dataset.positions"]),
    (number(at_least=1, at_most=1000), ["rollout.passes"]),
    (number(above=0, at_most=10), ["rollout.rate"]),
    (number(at_least=1), ["rollout.least_seen"]),
    (number(above=0, at_most=1000), ["records.weight"]),
]
_SELF_PLAY_LIMITS: Limits = [
    (number(at_least=0), ["random_plies", "policy_plies", "fork_plies", "komi_stdev"]),
    (number(at_least=0, at_most=0.5), ["resign_errors"]),
    (number(", because some games have to begin anew", at_least=0, below=1), ["fork_share"]),
    (number(", because cheap searches are not learned from", at_least=0, below=1), ["cheap_share"]),
    (number(at_least=1), ["cheap_simulations", "decided_plies"]),
    (number(above=0), ["policy_temperature"]),
    (number(above=0, at_most=1), ["decided_value", "decided_weight"]),
    (number("; -1: as search.solved_empties", at_least=-1, at_most=MOST_SOLVED), ["solved_empties"]),
    (number(at_least=0, at_most=1), ["solved_weight"]),
]


def check(config: Config) -> None:
    """Raises UsageError naming value, rule and way out for the first setting that cannot work."""
    conditions = [*_conditions(config), *_player_conditions(config, "first"), *_player_conditions(config, "second")]
    raise_first([
        *limit_rules(dict(leaves(config)), _LIMITS), *_rules(config, conditions),
        *value_rules(config.first.search, "first.search"), *value_rules(config.second.search, "second.search"),
    ])
    if not names_players(config):  # else nothing is learned, and the searches are known when their runs are read
        check_self_play(config)


def names_players(config: Config) -> bool:
    """Whether the command plays with networks of runs, from which parts of the searches then come."""
    names = (config.checkpoint, config.engine.policy, config.engine.value)
    return any(names) or config.first != PlayerConfig() or config.second != PlayerConfig()


def check_self_play(config: Config) -> None:
    """The rules of self-play, which `check` leaves out if the configuration names players."""
    raise_first([
        *search_rules(config.search, "search"), *limit_rules(vars(config.self_play), _SELF_PLAY_LIMITS, "self_play."),
        *_rules(config, _self_play_conditions(config)),
    ])


def _rules(config: Config, conditions: Iterable[_Condition]) -> Iterator[Rule]:
    for key, holds, text in conditions:
        yield key, attrgetter(key)(config), holds, text


def _conditions(config: Config) -> Iterator[_Condition]:
    inference, replay, learner = config.inference, config.replay, config.learner
    targets, is_on_gpu = learner.targets, inference.is_on_gpu
    unknown = next((name for name in targets if name not in TARGETS), "")
    yield ("inference.placement", not (inference.placement == "actor" and is_on_gpu),
           "one actor cannot fill a GPU; with inference.device=cuda use inference.placement=server")
    yield ("inference.runtime", not (inference.runtime == "openvino" and is_on_gpu),
           "openvino runs on the CPU; with inference.device=cuda use inference.runtime=torch")
    yield ("inference.listen", _are_some_of(inference.listen, LISTENERS),
           f"must be made of {', '.join(LISTENERS)}, each once; [] leaves Ray calls alone, which cost more")
    yield ("replay.minimum", replay.minimum <= replay.capacity,
           f"must not exceed replay.capacity={replay.capacity}, or the first step never comes")
    yield ("replay.value_surprise_weight", replay.surprise_weight + replay.value_surprise_weight <= 1,
           f"must be at most 1 together with replay.surprise_weight={replay.surprise_weight:g}")
    yield ("replay.actor_url", replay.actor_url == "" or replay.url != "",
           "is for a server of yours; give its replay.url or replay.url_file as well")
    yield ("replay.encryption", not (replay.encryption == "tls" and replay.url),
           "is for the run's own server; yours is encrypted if replay.url begins with rediss://, so leave this out")
    yield ("run.trackers", _are_some_of(config.run.trackers, TRACKERS),
           f"must be made of {', '.join(TRACKERS)}, each once")
    growing = _growth_problem(config)
    yield "run.grow", not growing, growing
    yield ("run.grow", not (config.run.grow and config.reinforce.enabled),
           "the pool of policy gradient holds policies of one size; leave it out")
    yield ("run.grow", not config.run.grow or config.gating == "none",
           f"gating={config.gating} compares networks of one size; use gating=none")
    yield ("learner.targets", not unknown,
           f"there is no target {unknown}; nearest: {nearest(unknown, TARGETS)}; there are {', '.join(TARGETS)}")
    yield ("learner.targets", not {"policy", "value"}.isdisjoint(targets),
           "policy or value must be among them, because only these two are played with")
    yield "learner.targets", len(set(targets)) == len(targets), "names a target twice"
    yield ("learner.start", not (learner.start and config.reinforce.enabled),
           "policy gradient begins with the policy that policy.from= names; leave learner.start out")
    plays = not (config.dataset.records or config.reinforce.enabled)
    yield ("learner.ranks", learner.ranks == 1 or plays,
           "several ranks share rows of games that come in; use learner.ranks=1 for policy gradient and finished games")
    yield ("learner.batch_size", learner.batch_size % learner.ranks == 0 and learner.batch_size >= 2 * learner.ranks,
           f"must be a multiple of learner.ranks={learner.ranks}, at least two rows for each")
    heads = learner.publish_heads
    yield ("learner.publish_heads", _are_some_of(heads, PUBLISHED_HEADS),
           f"must be made of {', '.join(PUBLISHED_HEADS)}, each once; policy and value are always published")
    yield ("learner.publish_heads", set(heads) <= set(targets),
           "must be among learner.targets, or they are never learned; add them there")
    yield ("replay.test_share", not (replay.test_share and config.dataset.records),
           "is for games that are played; those of dataset.records have parts that are not learned from, leave it out")
    yield ("replay.test_share", not (replay.test_share and config.reinforce.enabled),
           "policy gradient learns from each game once and keeps none; leave it out")
    yield ("learner.batch_size", learner.batch_size <= replay.capacity,
           f"must not exceed replay.capacity={replay.capacity}; raise the capacity or lower the batch size")
    yield ("learner.blunder_width", learner.blunder_gap == 0 or learner.blunder_width <= 2 * learner.blunder_gap,
           f"must be at most twice learner.blunder_gap={learner.blunder_gap:g}, or what loses nothing is a blunder")
    yield ("learner.schedule_drops", all(drop < later for drop, later in pairwise([0, *learner.schedule_drops])),
           "must be steps above 0, each later than the one before")
    yield ("games", config.games >= 2 and config.games % 2 == 0,
           "must be an even number from 2 on, because every opening is played twice, with sides swapped")
    yield ("network.policy_head", config.network.tower == "residual" or config.network.policy_head == "linear",
           "network.tower=plain has a policy head of its own, one filter for each action of a cell; leave it out")
    yield ("network.squeeze", config.network.tower == "residual" or not config.network.squeeze,
           "network.tower=plain has no residual blocks; leave it out")
    yield "games", config.games <= 100_000, "must be at most 100000"
    for key, games in (("rater.games", config.rater.games), ("gate.games", config.gate.games)):
        yield (key, games % 2 == 0, "must be an even number, because every opening is played twice, with sides swapped")
    unknown = next((name for name in config.rater.anchors if not re.fullmatch(r"random|uct_[1-9]\d{0,6}", name)), "")
    yield ("rater.anchors", bool(config.rater.anchors) and not unknown,
           "must name random or uct_N, plain UCT with N rollouts, the weakest first; for example [random,uct_100]")
    yield ("match.sprt", not config.match.sprt or _is_test(config.match.sprt),
           "must be [elo0,elo1,alpha,beta] with elo0 below elo1, both from -1000 to 1000, and alpha and beta, the "
           "shares of wrong decisions, from 0.001 to 0.4; for example [0,20,0.05,0.05]")


def _growth_problem(config: Config) -> str:
    """What is wrong with `run.grow`; empty: nothing."""
    try:
        check_first(read_stages(config.run.grow), config.network.filters, config.network.blocks)
    except ValueError as error:
        return str(error)
    return ""


def _are_some_of(names: Sequence[str], choices: Sequence[str]) -> bool:
    """Whether all are among the choices, and none is there twice."""
    return set(names) <= set(choices) and len(set(names)) == len(names)


def _is_test(sprt: list[float]) -> bool:
    if len(sprt) != 4:
        return False
    elo0, elo1, alpha, beta = sprt
    return -1000 <= elo0 < elo1 <= 1000 and all(0.001 <= share <= 0.4 for share in (alpha, beta))


def _self_play_conditions(config: Config) -> Iterator[_Condition]:
    search, play = config.search, config.self_play
    # Whether the network that learns plays, and its searches are what is learned.
    plays = not (config.dataset.records or config.value.enabled or config.reinforce.enabled)
    asked = {"policy"} if search.policy == "policy_only" else {"policy", "value"}
    yield ("learner.targets", not plays or not config.learner.enabled or asked <= set(config.learner.targets),
           f"{' and '.join(sorted(asked))} must be among them, because the search asks for "
           f"{'both' if len(asked) > 1 else 'it'}; one of them alone is learned from finished games: dataset.records=")
    if isinstance(search, PuctConfig):
        yield ("search.reuse", not (search.reuse and search.graph),
               "a graph cannot be cut where the move was played; use search.reuse=false or search.graph=false")
        yield ("search.leaves", search.leaves == 1,
               "self-play selects one leaf a game at a time, because paths that wait would distort the visits that are "
               "learned; use search.leaves=1 (evaluate and match know more)")
    if isinstance(search, EvaluationConfig):
        yield ("search.average_symmetries", not search.average_symmetries,
               "self-play samples one symmetry for every leaf; use search.average_symmetries=false (evaluate and match "
               "know the mean)")
    if isinstance(search, ScoreConfig):
        yield ("search.score_share", search.score_share == 0,
               "self-play learns who wins, so its values are no points; use search.score_share=0 (match and the "
               "engines play for points)")
    if config.value.enabled:
        yield from _value_conditions(config)
    if config.reinforce.enabled:
        yield from _reinforce_conditions(config)
    for policy, reason in (("mcts", "plain UCT uses no network"),
                           ("policy_only", "its target is the network's own policy")):
        yield ("search.policy", search.policy != policy or not config.learner.enabled or not plays,
               f"{reason}, so nothing can be learned; use search=puct or search=gumbel, or learner.enabled=false, or "
               "dataset.records=DIR to learn from finished games")
    yield ("search.policy", search.policy != "alphago",
           "searches one position at a time, for play; use another search, or name a player for match, gtp, uci, usi, "
           "view or analyse")
    yield ("self_play.komi_stdev", play.komi_stdev == 0 or config.game.name == "go",
           f"{config.game.name} has no komi; leave it out")
    yield ("self_play.solved_empties", play.solved_empties <= 0 or isinstance(search, TreeConfig),
           f"search={search.policy} solves no endings; leave it out")
    games = self_play_search(search, play)
    solves = isinstance(games, TreeConfig) and games.solved_empties > 0 and games.proven_results
    yield ("self_play.solved_weight", play.solved_weight == 1 or solves,
           "no ending of self-play is solved for sure without self_play.solved_empties=N (or -1 and "
           "search.solved_empties=N) and search.proven_results=true; leave it out")
    has_cheap = play.cheap_share > 0 or play.decided_value < 1
    yield ("self_play.cheap_simulations", play.cheap_simulations < search.simulations or not has_cheap,
           f"must be fewer than search.simulations={search.simulations}, or they are not cheap")
    yield ("self_play.never_resign_share", 0 < play.never_resign_share <= 1 or play.resign_errors == 0,
           "must be above 0 and at most 1: without games played to the end it is unknown when to resign")


def _reinforce_conditions(config: Config) -> Iterator[_Condition]:
    search, learner = config.search, config.learner
    yield ("reinforce.enabled", not config.dataset.records,
           f"plays games, and dataset.records={config.dataset.records} learns from finished ones; use one of the two")
    yield ("learner.enabled", learner.enabled,
           "must be true, because the games of policy gradient are played by what is learned; or use "
           "reinforce.enabled=false")
    yield ("learner.targets", learner.targets == ["policy"],
           "must be [policy], because policy gradient learns nothing else")
    yield ("search.policy", search.policy == "policy_only",
           "policy gradient is for moves drawn from the policy itself; use search=policy_only")
    if isinstance(search, PolicyOnlyConfig):
        always = search.temperature_plies == 0 or search.temperature == 1
        yield ("search.temperature_final", search.temperature_final == 1 and always,
               "moves must be drawn at temperature 1 to the end, or the gradient is that of another policy; use "
               "search.temperature=1 search.temperature_final=1")
    changed = next((f"self_play.{name}" for name, value in vars(SelfPlayConfig()).items()
                    if getattr(config.self_play, name) != value), "")
    if changed:
        yield changed, False, "changes no games of policy gradient; leave it out, or use reinforce.enabled=false"
    yield ("actors.games_per_actor", config.actors.games_per_actor % 2 == 0,
           "must be even, because the policy that learns plays both colours equally often")
    yield ("learner.publish_every", learner.publish_every == 1,
           "must be 1: every update plays the next games, and the gradient is that of the policy that played them")
    yield ("learner.ema_decay", learner.ema_decay == 0,
           "must be 0: the games must be played by the policy that is changed, not by an average")
    yield ("learner.prefetch", learner.prefetch == 0,
           "must be 0, because games that are taken ahead would be older when they are learned from")
    yield ("replay.test_share", config.replay.test_share == 0,
           "must be 0, because every game of policy gradient is learned from once")
    yield ("learner.solved_empties", learner.solved_empties == 0,
           "policy gradient learns from how its games ended; leave it out")
    yield ("learner.symmetries", not learner.symmetries,
           "must be false: the gradient is that of the moves as they were drawn")
    yield ("inference.placement", config.inference.placement != "server",
           "an actor of policy gradient evaluates two policies by itself; use inference.placement=actor")
    yield ("inference.device", not config.inference.is_on_gpu,
           "an actor of policy gradient evaluates two policies by itself; use inference.device=cpu")
    yield "gating", config.gating == "none", "each version plays the next games of policy gradient; use gating=none"


def _value_conditions(config: Config) -> Iterator[_Condition]:
    for key in ("supervised", "reinforced"):
        yield (f"value.{key}", bool(getattr(config.value, key)),
               "must name the run, checkpoint or file of a policy, such as runs/imitation; games for a value network "
               "are played by two policies that were learned before")
    yield ("value.enabled", not config.dataset.records,
           f"makes games, and dataset.records={config.dataset.records} learns from finished ones; use one of the two")
    yield ("learner.targets", "value" in config.learner.targets,
           "value must be among them, because value.enabled=true makes games for it")
    yield ("search.policy", config.search.policy == "policy_only",
           "games for a value network are played without a search; use search=policy_only")
    if isinstance(config.search, PolicyOnlyConfig):
        yield ("search.temperature_final", config.search.temperature_final > 0,
               "must be above 0: games for a value network differ because their moves are drawn; use 1")
    unsearched = "games for a value network have no searches, whose values it takes"
    yield "learner.root_value_share", config.learner.root_value_share == 0, f"{unsearched}; use 0"
    yield ("learner.targets", "short_term" not in config.learner.targets, f"{unsearched}; leave short_term out")
    yield "learner.cut_off_value", config.learner.cut_off_value != "search", f"{unsearched}; leave it out"
    changed = next((f"self_play.{name}" for name, value in vars(SelfPlayConfig()).items()
                    if getattr(config.self_play, name) != value), "")
    if changed:
        yield changed, False, "changes no games for a value network; leave it out, or use value.enabled=false"
    yield ("inference.placement", config.inference.placement != "server",
           "games for a value network are evaluated by their actors; use inference.placement=actor")
    yield ("inference.device", not config.inference.is_on_gpu,
           "games for a value network are evaluated by their actors; use inference.device=cpu")
    for key, is_off in (("strength.enabled", not config.strength.enabled), ("rater.enabled", not config.rater.enabled),
                        ("gating", config.gating == "none")):
        yield key, is_off, f"a value network plays no games; use {key}={'none' if key == 'gating' else 'false'}"


def _player_conditions(config: Config, key: str) -> Iterator[_Condition]:
    player: PlayerConfig = getattr(config, key)
    engine, is_program = player.engine, player.engine in ENGINES
    programs = f"{key}.engine={'|'.join(ENGINES)}; add it"
    yield (f"{key}.engine", engine in ("", *ENGINES, "mcts", "random"),
           f"there are {', '.join(ENGINES)}, mcts, random; a network is {key}.checkpoint=RUN_DIR")
    yield (f"{key}.engine", not (engine and player.checkpoint),
           f"{key}.checkpoint={player.checkpoint} names a player already; leave one of them out")
    yield (f"{key}.command", bool(player.command.strip()) or not is_program,
           f'must name a program: {key}.command="{ENGINES.get(engine)}"')
    yield f"{key}.command", not player.command or is_program, f"is for {programs}"
    yield f"{key}.options", not player.options or is_program, f"are for {programs}"
    for name in ("policy", "value", "rollout"):
        network = getattr(player, name)
        yield (f"{key}.{name}", not (network and engine),
               f"is of {key}.search=alphago, and {key}.engine={engine} names a player already; leave one of them out")
    yield (f"{key}.seconds", not (player.seconds and engine),
           f"is of a search of ours on one tree, and {key}.engine={engine} has none; leave it out")
    yield (f"{key}.precision", not (player.precision and engine),
           f"is of a network, and {key}.engine={engine} has none; leave it out")
    given = [name for name in ("nodes", "depth", "movetime_ms") if getattr(player, name)]
    hint = f"a gtp engine is told by {key}.options or its command" if engine == "gtp" else "leave it out"
    for name in given:
        yield f"{key}.{name}", engine in ("uci", "usi"), f"is for {key}.engine=uci|usi; {hint}"
    for name in given[1:]:
        yield (f"{key}.{name}", False, f"and {key}.{given[0]}={getattr(player, given[0])} are two limits of one move; "
               "leave one of them out")
    seconds = config.match.move_seconds
    yield (f"{key}.movetime_ms", player.movetime_ms < 1000 * seconds,
           f"must be less than match.move_seconds={seconds:g}, or every move comes too late")
