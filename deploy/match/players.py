"""From the settings `first.…` and `second.…` of a match to its game and its two players."""

import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shusaku.actors.analysis.analysis import Analysis, Limits
from shusaku.actors.arena.analysis_player import AnalysisPlayer
from shusaku.actors.arena.players import Player, RandomPlayer, SearchPlayer
from shusaku.actors.evaluators.dummies import UniformEvaluator
from shusaku.actors.evaluators.factory import BUCKET_SIZES, make_bucketed_evaluator
from shusaku.actors.evaluators.score_share import score_heads, score_share_of, share_score
from shusaku.actors.opponents.player import EnginePlayer
from shusaku.actors.opponents.session import MOVE_LIMIT, EngineSettings
from shusaku.common._core import Game
from shusaku.common.config.rule import raise_first
from shusaku.common.config.rules import ENGINES
from shusaku.common.config.schema import Config, PlayerConfig
from shusaku.common.config.search import (
    AlphaGoConfig,
    MctsConfig,
    PuctConfig,
    SearchConfig,
    change_search,
    replace_read,
    rows_a_step,
    search_rules,
)
from shusaku.common.errors import UsageError
from shusaku.common.external.configured_game import configured_game
from shusaku.common.masking import mask_text, mask_tree
from shusaku.common.network.weights import random_weights
from shusaku.common.search import Evaluate
from shusaku.deploy.run.alphago_networks import AlphaGoNetworks, find_networks, make_evaluators, same_rules
from shusaku.deploy.run.calibration import with_scales
from shusaku.deploy.run.chosen_weights import ChosenWeights, check_heads, check_searcher, find_weights
from shusaku.deploy.run.composed_config import asked_keys, asked_search

KEYS = ("first", "second")
TREE_BYTES = 1 << 30  # that the trees of one player take at most
GAMES_AT_ONCE = 512  # without engines; more games a batch gain nothing
SPRT_AT_ONCE = 64  # so that few games are begun which a decision makes useless
LEAVES = 16  # of one tree that are evaluated together at most
SIZES = (1, 4, 16)  # of their batches
ENGINES_A_CORE = 4  # so that a network that meets them still has a batch


@dataclass(frozen=True)
class Seat:
    """One player, and its description."""

    player: Player
    kind: str  # checkpoint | alphago | mcts | random | gtp | uci | usi
    metadata: dict[str, Any]  # for the JSON report
    detail: str = ""  # weights and search, or the command

    def __str__(self) -> str:
        """Name and detail; an engine tells its name only when it has started."""
        return f"{self.player.name} ({self.detail})" if self.detail else self.player.name


@dataclass(frozen=True)
class MatchParts:
    """What `shusaku match` plays with."""

    game: Game
    seats: tuple[Seat, Seat]
    games_at_once: int
    notes: tuple[str, ...]


def make_parts(config: Config, should_stop: Callable[[], bool]) -> MatchParts:
    """UsageError where a player is missing, cannot be had, or plays another game than the other one."""
    kinds = [kind_of(config, key) for key in KEYS]
    chosen = _find_all_weights(config, kinds)
    networks = {key: find_networks(config, key, _alphago_search(config, key))
                for key, kind in zip(KEYS, kinds, strict=True) if kind == "alphago"}
    game = _common_game(config, chosen, networks)
    threads = config.actors.count or len(os.sched_getaffinity(0))
    searches = {
        key: _search_of(config, key, kind, chosen) for key, kind in zip(KEYS, kinds, strict=True)
        if kind in ("checkpoint", "mcts", "alphago")
    }
    for key, search in searches.items():
        check_searcher(game, search, f"{key}.search")
        if key in chosen:
            source = f"{key}.checkpoint={_player_config(config, key).checkpoint}"
            check_heads(chosen[key].weights, search, source, f"{key}.search.policy")
    at_once = min([config.games, GAMES_AT_ONCE, *(_that_fit(game, search) for search in searches.values())])
    if any(_keeps_tree(config, key, search) for key, search in searches.items()):
        at_once = min(at_once, threads)
    if config.match.sprt:
        at_once = min(at_once, SPRT_AT_ONCE)
    if not ENGINES.keys().isdisjoint(kinds):
        at_once = min(at_once, config.match.engines or ENGINES_A_CORE * threads)
    maker = _SeatMaker(config, game, chosen, networks, searches, threads, at_once, should_stop)
    seats: list[Seat] = []
    try:
        for key, kind in zip(KEYS, kinds, strict=True):
            seats.append(maker.seat(key, kind))
    except BaseException:
        for seat in seats:
            seat.player.close()
        raise
    notes = [note for found in chosen.values() for note in found.notes]
    notes += [note for found in networks.values() for note in found.notes]
    return MatchParts(game, (seats[0], seats[1]), at_once, tuple(notes))


def kind_of(config: Config, key: str) -> str:
    """What Seat.kind is; UsageError if no player is named, or a network that would not be asked."""
    player = _player_config(config, key)
    policy = player.search.get("policy")
    if not player.engine and _plays_alphago(config, player):
        if policy not in (None, "alphago"):
            raise UsageError(f"{key}.search.policy={policy}: asks one network, {key}.checkpoint; with {key}.policy and "
                             f"{key}.value use {key}.search=alphago")
        return "alphago"
    is_mcts = policy == "mcts"
    if player.checkpoint:
        if is_mcts:
            raise UsageError(f"{key}.search.policy=mcts: plain UCT asks no network; leave it or "
                             f"{key}.checkpoint={player.checkpoint} out")
        return "checkpoint"
    if player.engine not in ("", "mcts") and player.search:
        name, value = next(iter(player.search.items()))
        raise UsageError(f"{key}.search.{name}={value}: is of a search of ours, and {key}.engine={player.engine} has "
                         "none; leave it out")
    if player.engine or is_mcts:
        return player.engine or "mcts"
    raise UsageError(f"{key}: no player; name {key}.checkpoint=RUN_DIR|FILE|shipped|random or "
                     f"{key}.engine={'|'.join(ENGINES)}|mcts|random")


def _plays_alphago(config: Config, player: PlayerConfig) -> bool:
    """Whether it has networks for that search, or is told to use it, by its own settings or by those for both."""
    policy = player.search.get("policy")
    is_for_both = isinstance(config.search, AlphaGoConfig) and not asked_keys(config).isdisjoint(
        ("search", "search.policy"))
    has_own = bool(player.policy or player.value or player.rollout)
    return has_own or policy == "alphago" or (policy is None and is_for_both)


def _alphago_search(config: Config, key: str) -> AlphaGoConfig:
    """Its own settings on those of section search."""
    player = _player_config(config, key)
    rollout = {"rollout": player.rollout} if player.rollout else {}
    search = change_search(replace_read(AlphaGoConfig(), **asked_search(config)),
                           {**player.search, **rollout, "policy": "alphago"}, f"{key}.search")
    assert isinstance(search, AlphaGoConfig)
    raise_first(search_rules(search, f"{key}.search"))
    return search


def _keeps_tree(config: Config, key: str, search: SearchConfig) -> bool:
    """Whether the player is an AnalysisPlayer: UsageError for a time limit of a search that cannot have one."""
    seconds = _player_config(config, key).seconds
    if seconds and not isinstance(search, AlphaGoConfig | PuctConfig):
        raise UsageError(f"{key}.seconds={seconds:g}: {search.policy} makes a fixed number of simulations; use "
                         f"{key}.search=puct|alphago, or {key}.search.simulations")
    return bool(seconds) or isinstance(search, AlphaGoConfig)


def _find_all_weights(config: Config, kinds: Sequence[str]) -> dict[str, ChosenWeights]:
    """Of the players that need some; `shipped` is the network of the other one's game."""
    names = {key: "" if kind == "alphago" else _player_config(config, key).checkpoint
             for key, kind in zip(KEYS, kinds, strict=True)}
    chosen: dict[str, ChosenWeights] = {}
    for key in sorted(KEYS, key=lambda key: names[key] == "shipped"):
        if names[key] not in ("", "random"):
            game = next((found.game.name for found in chosen.values()), "")
            chosen[key] = find_weights(config, f"{key}.checkpoint", names[key], game)
    return chosen


def _common_game(config: Config, chosen: dict[str, ChosenWeights], networks: dict[str, AlphaGoNetworks]) -> Game:
    """Of the networks, which may see other planes each, or the one that `game=` names."""
    games = {f"{key}.checkpoint": found.game for key, found in chosen.items()}
    games |= {key: found.game for key, found in networks.items() if found.policy or found.value}
    if not games:
        return configured_game(config.game)
    (key, own), *others = games.items()
    for other, game in others:
        if not same_rules(own, game):
            raise UsageError(f"{key} plays {game_text(own)}, {other} plays {game_text(game)}: two players need one "
                             "game; name two checkpoints of the same")
    asked = asked_keys(config)
    given = {name: value for name, value in config.game.params.items() if f"game.{name}" in asked and name != "planes"}
    if ("game" in asked and config.game.name != own.name) or any(own.params.get(n) != v for n, v in given.items()):
        raise UsageError(f"{key} plays {game_text(own)}, which is not the game that was asked for; leave game= out, or "
                         "name another checkpoint")
    return own


@dataclass(frozen=True)
class _SeatMaker:
    """What the seats have in common."""

    config: Config
    game: Game
    chosen: dict[str, ChosenWeights]
    networks: dict[str, AlphaGoNetworks]  # of the players that have two
    searches: dict[str, SearchConfig]
    threads: int
    at_once: int
    should_stop: Callable[[], bool]

    def seat(self, key: str, kind: str) -> Seat:
        if kind == "checkpoint":
            return self._network(key)
        if kind == "alphago":
            return self._alphago(key)
        if kind == "mcts":
            return self._mcts(key)
        return self._engine(key) if kind in ENGINES else Seat(RandomPlayer(seed=self._seed(key)), "random", {})

    def _network(self, key: str) -> Seat:
        config, name = self.config, _player_config(self.config, key).checkpoint
        found, search = self.chosen.get(key), self.searches[key]
        if found is None:  # untrained: of the size of the other one
            like = next(iter(self.chosen.values()), None)
            game, network = self.game, like.network if like else config.network
            weights = random_weights(game, network, config.run.seed, version=1)
        else:
            game, network, weights = found.game, found.network, found.weights
        games = -(-self.at_once // self.threads)  # of a thread at most
        most = min(config.actors.games, games * rows_a_step(search, game.num_symmetries))
        keeps_tree = _keeps_tree(config, key, search)
        if keeps_tree:
            most = LEAVES * rows_a_step(replace_read(search, leaves=1), game.num_symmetries)
        precision = _player_config(config, key).precision or config.inference.precision
        inference = replace(config.inference, precision=precision)
        weights = with_scales(inference, game, network, weights)
        heads = score_heads(weights, inference, search, f"{key}.search")
        made = []
        for _ in range(self.at_once if keeps_tree else self.threads):
            evaluator = make_bucketed_evaluator(game, inference, network, most, heads=heads,
                                                sizes=SIZES if keeps_tree else BUCKET_SIZES)
            evaluator.load(weights)
            made.append(evaluator)
        evaluators = share_score(made, game, search)
        what = "untrained" if name == "random" else f"version {weights.version}, step {weights.step:,}"
        metadata = {"version": weights.version, "step": weights.step, "precision": made[0].precision}
        text = f"{what}; {search.policy}, {self._limit(key)}; {metadata['precision']}"
        if share := score_share_of(search):
            metadata["score_share"] = share
            text += f"; {share:g} of its values are points"
        if keeps_tree:
            return self._tree_seat(key, "checkpoint", name, game, evaluators, text, metadata)
        return self._search_seat(key, "checkpoint", name, game, evaluators, text, metadata)

    def _alphago(self, key: str) -> Seat:
        config, networks, search = self.config, self.networks[key], self.searches[key]
        assert isinstance(search, AlphaGoConfig)
        precision = _player_config(config, key).precision or config.inference.precision
        evaluators = make_evaluators(networks, search, replace(config.inference, precision=precision),
                                     count=self.at_once, leaves=LEAVES, sizes=SIZES)
        rollouts = f"rollouts{f' by {search.rollout}' if search.rollout else ''}, share {search.rollout_share:g}"
        text = f"{networks}; alphago, {rollouts}, {self._limit(key)}"
        game = networks.game if networks.policy or networks.value else self.game
        return self._tree_seat(key, "alphago", "alphago", game, evaluators, text, {})

    def _limit(self, key: str) -> str:
        seconds = _player_config(self.config, key).seconds
        return f"{seconds:g} s of processor time" if seconds else f"{self.searches[key].simulations:,} simulations"

    def _tree_seat(
        self, key: str, kind: str, name: str, game: Game, evaluators: Sequence[Evaluate], detail: str,
        metadata: dict[str, Any],
    ) -> Seat:
        search, seconds = self.searches[key], _player_config(self.config, key).seconds
        analyses = [Analysis(game, [evaluator], search, leaves=LEAVES, seed=self._seed(key))
                    for evaluator in evaluators]
        limits = Limits(processor_seconds=seconds) if seconds else Limits(search.simulations)
        player = AnalysisPlayer(name, game, analyses, limits, should_stop=self.should_stop)
        spent = {"seconds": seconds} if seconds else {"simulations": search.simulations}
        return Seat(player, kind, {**metadata, "policy": search.policy, **spent}, detail)

    def _mcts(self, key: str) -> Seat:
        never_asked = [UniformEvaluator(self.game, 1) for _ in range(self.threads)]
        search = self.searches[key]
        assert isinstance(search, MctsConfig)
        rollouts = f"rollouts by {search.rollout}" if search.rollout else "random rollouts"
        text = f"{search.simulations:,} {rollouts} a move"
        return self._search_seat(key, "mcts", "plain UCT", self.game, never_asked, text, {})

    def _search_seat(
        self, key: str, kind: str, name: str, game: Game, evaluators: Sequence[Evaluate], detail: str,
        metadata: dict[str, Any],
    ) -> Seat:
        search = self.searches[key]
        player = SearchPlayer(name, game, search, evaluators, games_at_once=self.at_once, seed=self._seed(key),
                              should_stop=self.should_stop)
        return Seat(player, kind, {**metadata, "policy": search.policy, "simulations": search.simulations}, detail)

    def _engine(self, key: str) -> Seat:
        settings, match = _player_config(self.config, key), self.config.match
        try:
            command = tuple(shlex.split(settings.command))
        except ValueError as error:
            raise UsageError(f"{key}.command={settings.command}: {error}; close every quotation mark") from None
        limit = _move_limit(settings)
        player = EnginePlayer(
            key, self.game,
            EngineSettings(command, settings.options, match.start_seconds, match.move_seconds, settings.engine, limit),
            threads=self.threads, should_stop=self.should_stop,
        )
        shown = mask_text(settings.command)
        metadata: dict[str, Any] = {"command": shown, "options": mask_tree(dict(settings.options))}
        if settings.engine == "gtp":
            return Seat(player, "gtp", metadata, shown)
        name, count = limit
        what = f"{count:,} ms" if name == "movetime_ms" else f"{name} {count:,}"
        return Seat(player, settings.engine, {**metadata, name: count}, f"{shown}; {what} a move")

    def _seed(self, key: str) -> int:
        return 2 * self.config.run.seed + KEYS.index(key) + 1


def game_text(game: Game) -> str:
    """`go size=9 komi=7.0`."""
    return " ".join([game.name, *(f"{name}={value}" for name, value in game.params.items())])


def _search_of(config: Config, key: str, kind: str, chosen: dict[str, ChosenWeights]) -> SearchConfig:
    """As its run was searched, or as the other's for an untrained network, but for what the command line says."""
    settings = _player_config(config, key).search
    if kind == "alphago":
        return _alphago_search(config, key)
    if kind == "mcts":  # section search is for both players, so the other one may read what plain UCT does not
        search = replace_read(MctsConfig(), **asked_search(config))
        return change_search(search, {**settings, "policy": "mcts"}, f"{key}.search")
    like = chosen.get(key) or next(iter(chosen.values()), None)
    return change_search(like.search if like else config.search, settings, f"{key}.search")


def _that_fit(game: Game, search: SearchConfig) -> int:
    """Games whose trees stay below TREE_BYTES together: 16 bytes an edge and 32 a node (common/core/search/tree.h)."""
    return max(1, TREE_BYTES // (search.simulations * (16 * game.max_legal_actions + 32)))


def _player_config(config: Config, key: str) -> PlayerConfig:
    return config.first if key == "first" else config.second


def _move_limit(player: PlayerConfig) -> tuple[str, int]:
    """Of the three the one that is given; config_rules allows no second one."""
    limits = {"nodes": player.nodes, "depth": player.depth, "movetime_ms": player.movetime_ms}
    return next(((name, count) for name, count in limits.items() if count), MOVE_LIMIT)
