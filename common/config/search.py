"""How a move is searched: one dataclass for each search policy, which holds exactly the settings that the policy reads.

The defaults here are the only ones.  The C++ core (common/core/search/options.h) has the same names and no defaults.
Values are those of AlphaZero (2018) and Gumbel AlphaZero (2022) unless the comment says otherwise.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from shusaku.common.config.rule import Limits, Rule, limit_rules, number, one_of, raise_first

AUTO = -1  # of expand_after
MOST_SOLVED = 28  # empty cells, of the game that solves the most; the core knows how many each game solves


@dataclass
class SearchConfig:
    """How a move is searched.  Every policy reads these settings."""

    policy: str = ""  # puct | gumbel | mcts (plain UCT: rollouts, no network) | policy_only (no search) | alphago
    simulations: int = 64  # a search


@dataclass
class AveragingConfig:
    """How often the network sees a position."""

    average_symmetries: bool = False  # evaluations are means over all symmetries: for play, not for self-play (KataGo)


@dataclass
class EvaluationConfig(AveragingConfig):
    """How evaluations of the network are shared between positions."""

    cache: int = 1 << 18  # positions whose evaluation an actor remembers; 0: none
    symmetric_cache: bool = False  # a position and its mirror images are evaluated, and remembered, as one of them
    symmetries: bool = True  # self-play evaluates through a random symmetry of the game (AlphaGo Zero; AlphaZero: no)


@dataclass
class TreeConfig:
    """What a tree knows besides visits and values."""

    proven_results: bool = False  # wins, draws and losses proven by the tree bind values, move and target (MCTS-Solver)
    solved_empties: int = 0  # leaves with at most so many empty cells are solved, where the board fills up; 0: none


@dataclass
class ScoreConfig:
    """What a value is made of."""

    score_share: float = 0.0  # of values that are points: a player keeps its lead, and fights when behind; for play


@dataclass
class PriorConfig:
    """How strongly the prior of the network guides a search."""

    c_puct: float = 1.5  # exploration constant of puct (and of gumbel's puct interior)


@dataclass
class MoveChoiceConfig:
    """Which action is played at temperature 0."""

    move_choice: str = "visits"  # at temperature 0: visits | lcb (highest lower confidence bound, KataGo)
    lcb_stdevs: float = 5.0  # the bound lies so many standard errors below the mean, by Student's quantile (KataGo)
    lcb_least_share: float = 0.15  # of the most visited action's visits that an action needs for it (KataGo)


@dataclass
class TemperatureConfig:
    """How moves are drawn at random."""

    temperature: float = 1.0  # moves are drawn with probability visits^(1/temperature)
    temperature_half_life: float = 0.0  # plies half-way to the final one (KataGo: the board's side); 0: it stays
    temperature_final: float = 0.0  # in the end (KataGo 0.15); 0: the most visited move is played
    temperature_plies: int = 30  # from this ply on the temperature is the final one (AlphaGo Zero)


@dataclass
class ExplorationConfig(TemperatureConfig):
    """How self-play explores: noise, temperature and forced playouts at the root, and moves drawn at random."""

    noise: bool = True  # Dirichlet noise on the root prior
    dirichlet_alpha: float = 1.0  # 0: by the game, about 10 / number of legal moves (AlphaZero: 0.3 chess, 0.03 Go)
    dirichlet_total: float = 0.0  # instead of alpha: alphas adding up to this, half of it by the prior (KataGo 10.83)
    dirichlet_fraction: float = 0.25  # share of the noise in the root prior
    root_policy_temperature: float = 1.0  # flattens the root prior before the noise (KataGo 1.1)
    root_policy_temperature_early: float = 1.0  # the same at ply 0, if there is a half-life (KataGo 1.25)
    root_policy_temperature_half_life: float = 0.0  # plies (KataGo: the board's side); 0: no early one
    forced_playouts: float = 0.0  # k: a visited root action gets at least sqrt(k * P * N) visits (KataGo 2)
    target_temperature: float = 1.0  # of the policy to learn, visits^(1/this); 0: the most visited; -1: the move's own
    prune_policy: bool = False  # takes visits that PUCT would not give with hindsight from move and target (KataGo)


@dataclass
class PuctConfig(
    ExplorationConfig, MoveChoiceConfig, PriorConfig, TreeConfig, ScoreConfig, EvaluationConfig, SearchConfig,
):
    """UCT guided by the prior (AlphaZero)."""

    policy: str = "puct"
    c_puct_log: float = 0.0  # c = c_puct + this * log((N + c_puct_base) / c_puct_base) (AlphaZero 1, KataGo 0.45)
    c_puct_base: float = 19652.0  # where that growth sets in (AlphaZero; KataGo 500, lc0 38739)
    fpu: str = "parent"  # value of an unvisited child: parent | zero, a draw (AlphaGo Zero) | loss (AlphaZero)
    fpu_reduction: float = 0.2  # fpu=parent: parent's value - this * sqrt(visited prior) (KataGo, lc0)
    root_fpu_reduction: float = 0.0  # the same at the root (KataGo: 0 where noise explores)
    reuse: bool = False  # keep the subtree of the move that was played; its visits come on top of `simulations`
    leaves: int = 1  # of a game that are evaluated together: for play, never for self-play
    graph: bool = False  # positions with the same future are one node (KataGo, docs/GraphSearch.md)


@dataclass
class GumbelConfig(PriorConfig, TreeConfig, ScoreConfig, EvaluationConfig, SearchConfig):
    """Sequential halving at the root, whose own draw explores (Gumbel AlphaZero)."""

    policy: str = "gumbel"
    considered_actions: int = 16  # m, actions that are considered at the root
    gumbel_scale: float = 1.0  # scale of the Gumbel draw; 0 when playing for strength
    gumbel_interior: str = "improved"  # improved: deterministic, as in the paper; puct
    value_scale: float = 0.1  # c_scale of sigma(q) = (c_visit + max visits) * c_scale * q, q in [0, 1] when rescaled
    maxvisit_init: float = 50.0  # c_visit
    rescale_values: bool = True  # completed values of a node stretched to [0, 1] (mctx's default)


@dataclass
class RolloutPolicyConfig:
    """How games are played to their end from a leaf."""

    rollout: str = ""  # file of a rollout policy, which `shusaku rollout` writes (AlphaGo); empty: uniformly at random


@dataclass
class MctsConfig(TemperatureConfig, MoveChoiceConfig, TreeConfig, RolloutPolicyConfig, SearchConfig):
    """Plain UCT with rollouts and no network (Kocsis and Szepesvari 2006)."""

    policy: str = "mcts"
    c_uct: float = 1.4  # exploration constant


@dataclass
class PolicyOnlyConfig(TemperatureConfig, EvaluationConfig, SearchConfig):
    """The network's policy without any search (Silver et al. 2016)."""

    policy: str = "policy_only"


@dataclass
class AlphaGoConfig(AveragingConfig, RolloutPolicyConfig, SearchConfig):
    """AlphaGo's search, APV-MCTS, for play (Silver et al. 2016, Methods and Extended Data Table 5)."""

    policy: str = "alphago"
    c_alphago: float = 5.0  # exploration constant of alphago (AlphaGo: c_puct)
    rollout_share: float = 0.5  # lambda: a leaf is worth (1 - lambda) value network + lambda rollouts; 0: no rollouts
    expand_after: int = 40  # a leaf with more rollouts gets children (n_thr); auto (-1): as the network keeps up
    value_after: int = 0  # rollouts of a leaf before the value network is asked about it, where rollouts cost less
    prior_power: float = 0.67  # beta: the prior is the policy network's p^beta, normalised
    virtual_loss: int = 3  # games that a path counts as lost while it is rolled out, so that other threads leave it
    resign_below: float = -0.8  # a player whose every visited move is worth less resigns; -1: never


POLICIES: dict[str, type[SearchConfig]] = {
    "puct": PuctConfig, "gumbel": GumbelConfig, "mcts": MctsConfig, "policy_only": PolicyOnlyConfig,
    "alphago": AlphaGoConfig,
}

# Every setting of every policy.
DEFAULTS: dict[str, Any] = {
    field.name: field.default for policy in POLICIES.values() for field in fields(policy)
} | {"policy": "puct"}
# What the C++ core is told of a setting that the policy does not read.
UNREAD: dict[str, Any] = DEFAULTS | {"noise": False}

_NO_EXPLORATION = {
    "noise": False, "temperature": 0.0, "temperature_half_life": 0.0, "temperature_final": 0.0, "temperature_plies": 0,
    "gumbel_scale": 0.0, "reuse": False, "forced_playouts": 0.0, "prune_policy": False, "root_policy_temperature": 1.0,
    "root_policy_temperature_early": 1.0, "root_policy_temperature_half_life": 0.0,
}


def make_search(policy: str, /, **settings: Any) -> SearchConfig:
    """The search of this policy, with those of the settings that the policy reads; KeyError on an unknown policy."""
    return replace_read(POLICIES[policy](), **settings)


def replace_read(search: SearchConfig, /, **settings: Any) -> SearchConfig:
    """`search` with those of the settings that its policy reads."""
    read = {name: value for name, value in settings.items() if name in vars(search) and name != "policy"}
    return replace(search, **read)


def migrate_search(tree: dict[str, Any]) -> dict[str, Any]:
    """A saved configuration with only those settings of the search that its policy reads: older files have all."""
    search = tree.get("search")
    if not isinstance(search, dict) or search.get("policy") not in POLICIES:
        return tree
    return tree | {"search": {name: value for name, value in search.items()
                              if name not in DEFAULTS or search["policy"] in policies_with(name)}}


def change_search(search: SearchConfig, settings: Mapping[str, Any], key: str) -> SearchConfig:
    """`search` with all of these settings, which may name another policy; UsageError on one that it does not read."""
    policy = settings.get("policy", search.policy)
    raise_first([*value_rules(settings, key), *unread_rules(policy, settings, key)])
    return replace_read(make_search(policy, **vars(search)), **settings)


def without_exploration(search: SearchConfig) -> SearchConfig:
    """`search` as it plays for strength: nothing is drawn at random or explored for the sake of learning."""
    return replace_read(search, **_NO_EXPLORATION)


def rows_a_step(search: SearchConfig, num_symmetries: int) -> int:
    """How many rows of the network one step of one search asks for at most."""
    leaves = search.leaves if isinstance(search, PuctConfig) else 1
    return leaves * num_symmetries if isinstance(search, AveragingConfig) and search.average_symmetries else leaves


def all_settings(search: SearchConfig) -> dict[str, Any]:
    """Every setting of every policy, with the value that this search works with."""
    return UNREAD | vars(search)


def policies_with(setting: str) -> list[str]:
    """The policies that read this setting."""
    return [name for name, policy in POLICIES.items() if setting in policy.__dataclass_fields__]


def unread_rules(policy: str, settings: Mapping[str, Any], key: str) -> Iterator[Rule]:
    """The policy must read each setting that asks for anything.  `key`: search | first.search | second.search."""
    for name, value in settings.items():
        readers = policies_with(name)
        asks = value is not False and value != UNREAD[name]
        yield (f"{key}.{name}", value, policy in readers or not asks,
               f"{policy} does not read it; leave it out or use {key}={'|'.join(readers)}")


def value_rules(settings: Mapping[str, Any], key: str) -> Iterator[Rule]:
    """What the value of each of these settings must be, whatever the policy."""
    return limit_rules(settings, _LIMITS, f"{key}.")


def search_rules(search: SearchConfig, key: str) -> list[Rule]:
    """What this search must hold to."""
    rules = [*value_rules(vars(search), key)]
    if isinstance(search, PuctConfig):
        rules.append((f"{key}.root_policy_temperature_early", search.root_policy_temperature_early,
            search.root_policy_temperature_early == 1 or search.root_policy_temperature_half_life > 0,
            f"has no effect without a half-life; give {key}.root_policy_temperature_half_life"))
    if isinstance(search, AlphaGoConfig):
        rules.append((f"{key}.expand_after", "auto" if search.expand_after == AUTO else search.expand_after,
            search.expand_after != AUTO or search.rollout_share > 0,
            f"weighs networks against rollouts, of which {key}.rollout_share=0 has none; give a number"))
        rules.append((f"{key}.value_after", search.value_after,
            search.expand_after == AUTO or search.value_after <= search.expand_after,
            f"a leaf has children after {key}.expand_after={search.expand_after} rollouts, and is never asked about "
            "then; give at most that"))
    return rules


_LIMITS: Limits = [
    (one_of(*POLICIES), ["policy"]),
    (one_of("visits", "lcb"), ["move_choice"]),
    (one_of("improved", "puct"), ["gumbel_interior"]),
    (one_of("parent", "zero", "loss"), ["fpu"]),
    (number(at_least=0), [
        "c_puct", "c_puct_log", "c_uct", "c_alphago", "prior_power", "fpu_reduction", "root_fpu_reduction",
        "lcb_stdevs", "temperature",
        "temperature_half_life", "temperature_final", "temperature_plies", "dirichlet_total", "forced_playouts",
        "root_policy_temperature_half_life", "gumbel_scale", "maxvisit_init", "value_after",
    ]),
    (number(at_least=0, at_most=1), ["lcb_least_share", "dirichlet_fraction"]),
    (number(at_least=0, at_most=0.5), ["score_share"]),
    (number("; solving takes seconds beyond", at_least=0, at_most=MOST_SOLVED), ["solved_empties"]),
    (number("; 0: the value network alone, 1: rollouts alone", at_least=0, at_most=1), ["rollout_share"]),
    ((lambda value: value == AUTO or 1 <= value <= 1 << 20, "must be at least 1 and at most 1048576, or auto"),
     ["expand_after"]),
    (number(at_least=0, at_most=1000), ["virtual_loss"]),
    (number("; -1: never", at_least=-1, at_most=1), ["resign_below"]),
    (number(at_least=0, at_most=1 << 28), ["cache"]),
    (number(at_least=1), ["considered_actions"]),
    (number(at_least=1, at_most=64), ["leaves"]),
    (number(at_least=1, at_most=1 << 20), ["simulations"]),
    (number(above=0), ["value_scale"]),
    (number("; {prefix}c_puct_log=0 switches growth off", above=0), ["c_puct_base"]),
    (number("; 0: by the game, {prefix}noise=false switches noise off", at_least=0), ["dirichlet_alpha"]),
    ((lambda value: value == -1 or value >= 0, "must be at least 0, or -1: that of the move"), ["target_temperature"]),
    (number("; 1 changes nothing", above=0), ["root_policy_temperature", "root_policy_temperature_early"]),
]
