"""From the settings `first.…` and `second.…` of a match to its game and its two players."""

import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shusaku.actors.arena.players import Player, RandomPlayer, SearchPlayer
from shusaku.actors.evaluators.dummies import UniformEvaluator
from shusaku.actors.evaluators.factory import make_bucketed_evaluator
from shusaku.actors.opponents.player import EnginePlayer
from shusaku.actors.opponents.session import MOVE_LIMIT, EngineSettings
from shusaku.common._core import Game
from shusaku.common.config.rules import ENGINES
from shusaku.common.config.schema import Config, NetworkConfig, PlayerConfig
from shusaku.common.config.search import MctsConfig, SearchConfig, change_search, replace_read, rows_a_step
from shusaku.common.errors import UsageError
from shusaku.common.external.configured_game import configured_game
from shusaku.common.masking import mask_text, mask_tree
from shusaku.common.network.weights import random_weights
from shusaku.common.search import Evaluate
from shusaku.deploy.run.calibration import with_scales
from shusaku.deploy.run.chosen_weights import ChosenWeights, check_heads, check_searcher, find_weights
from shusaku.deploy.run.composed_config import asked_keys, asked_search

KEYS = ("first", "second")
TREE_BYTES = 1 << 30  # that the trees of one player take at most
GAMES_AT_ONCE = 512  # without engines; more games a batch gain nothing
SPRT_AT_ONCE = 64  # so that few games are begun which a decision makes useless
ENGINES_A_CORE = 4  # so that a network that meets them still has a batch


@dataclass(frozen=True)
class Seat:
    """One player, and its description."""

    player: Player
    kind: str  # checkpoint | mcts | random | gtp | uci | usi
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
    chosen = _find_all_weights(config)
    game = _common_game(config, chosen)
    threads = config.actors.count or len(os.sched_getaffinity(0))
    searches = {
        key: _search_of(config, key, kind, chosen) for key, kind in zip(KEYS, kinds, strict=True)
        if kind in ("checkpoint", "mcts")
    }
    for key, search in searches.items():
        check_searcher(game, search, f"{key}.search")
        if key in chosen:
            source = f"{key}.checkpoint={_player_config(config, key).checkpoint}"
            check_heads(chosen[key].weights, search, source, f"{key}.search.policy")
    at_once = min([config.games, GAMES_AT_ONCE, *(_that_fit(game, search) for search in searches.values())])
    if config.match.sprt:
        at_once = min(at_once, SPRT_AT_ONCE)
    if not ENGINES.keys().isdisjoint(kinds):
        at_once = min(at_once, config.match.engines or ENGINES_A_CORE * threads)
    maker = _SeatMaker(config, game, chosen, searches, threads, at_once, should_stop)
    seats: list[Seat] = []
    try:
        for key, kind in zip(KEYS, kinds, strict=True):
            seats.append(maker.seat(key, kind))
    except BaseException:
        for seat in seats:
            seat.player.close()
        raise
    notes = tuple(note for found in chosen.values() for note in found.notes)
    return MatchParts(game, (seats[0], seats[1]), at_once, notes)


def kind_of(config: Config, key: str) -> str:
    """What Seat.kind is; UsageError if no player is named, or a network that would not be asked."""
    player = _player_config(config, key)
    is_mcts = player.search.get("policy") == "mcts"
    if player.checkpoint:
        if is_mcts:
            raise UsageError(f"{key}.search.policy=mcts: plain UCT asks no network; leave it or "
                             f"{key}.checkpoint={player.checkpoint} out")
        return "checkpoint"
    if player.engine or is_mcts:
        return player.engine or "mcts"
    raise UsageError(f"{key}: no player; name {key}.checkpoint=RUN_DIR|FILE|shipped|random or "
                     f"{key}.engine={'|'.join(ENGINES)}|mcts|random")


def _find_all_weights(config: Config) -> dict[str, ChosenWeights]:
    """Of the players that need some; `shipped` is the network of the other one's game."""
    names = {key: _player_config(config, key).checkpoint for key in KEYS}
    chosen: dict[str, ChosenWeights] = {}
    for key in sorted(KEYS, key=lambda key: names[key] == "shipped"):
        if names[key] not in ("", "random"):
            game = next((found.game.name for found in chosen.values()), "")
            chosen[key] = find_weights(config, f"{key}.checkpoint", names[key], game)
    return chosen


def _common_game(config: Config, chosen: dict[str, ChosenWeights]) -> Game:
    """Of the checkpoints, or the one that `game=` names."""
    if not chosen:
        return configured_game(config.game)
    (key, found), *others = chosen.items()
    for other, weights in others:
        if (weights.game.name, weights.game.params) != (found.game.name, found.game.params):
            raise UsageError(f"{key}.checkpoint plays {game_text(found.game)}, {other}.checkpoint plays "
                             f"{game_text(weights.game)}: two players need one game; name two checkpoints of the same")
    asked = asked_keys(config)
    given = {name: value for name, value in config.game.params.items() if f"game.{name}" in asked}
    own = found.game.params
    if ("game" in asked and config.game.name != found.game.name) or any(own.get(n) != v for n, v in given.items()):
        raise UsageError(f"{key}.checkpoint plays {game_text(found.game)}, which is not the game that was asked for; "
                         "leave game= out, or name another checkpoint")
    return found.game


@dataclass(frozen=True)
class _SeatMaker:
    """What the seats have in common."""

    config: Config
    game: Game
    chosen: dict[str, ChosenWeights]
    searches: dict[str, SearchConfig]
    threads: int
    at_once: int
    should_stop: Callable[[], bool]

    def seat(self, key: str, kind: str) -> Seat:
        if kind == "checkpoint":
            return self._network(key)
        if kind == "mcts":
            return self._mcts(key)
        return self._engine(key) if kind in ENGINES else Seat(RandomPlayer(seed=self._seed(key)), "random", {})

    def _network(self, key: str) -> Seat:
        config, name = self.config, _player_config(self.config, key).checkpoint
        found, search = self.chosen.get(key), self.searches[key]
        if found is None:  # untrained: of the size of the other one
            like = next(iter(self.chosen.values()), None)
            network: NetworkConfig = like.network if like else config.network
            weights = random_weights(self.game, network, config.run.seed, version=1)
        else:
            network, weights = found.network, found.weights
        games = -(-self.at_once // self.threads)  # of a thread at most
        most = min(config.actors.games, games * rows_a_step(search, self.game.num_symmetries))
        precision = _player_config(config, key).precision or config.inference.precision
        inference = replace(config.inference, precision=precision)
        weights = with_scales(inference, self.game, network, weights)
        evaluators = []
        for _ in range(self.threads):
            evaluator = make_bucketed_evaluator(self.game, inference, network, most)
            evaluator.load(weights)
            evaluators.append(evaluator)
        what = "untrained" if name == "random" else f"version {weights.version}, step {weights.step:,}"
        metadata = {"version": weights.version, "step": weights.step, "precision": evaluators[0].precision}
        text = f"{what}; {search.policy}, {search.simulations:,} simulations; {metadata['precision']}"
        return self._search_seat(key, "checkpoint", name, evaluators, text, metadata)

    def _mcts(self, key: str) -> Seat:
        never_asked = [UniformEvaluator(self.game, 1) for _ in range(self.threads)]
        search = self.searches[key]
        assert isinstance(search, MctsConfig)
        text = f"{search.simulations:,} {f'rollouts by {search.rollout}' if search.rollout else 'random rollouts'} a move"
        return self._search_seat(key, "mcts", "plain UCT", never_asked, text, {})

    def _search_seat(
        self, key: str, kind: str, name: str, evaluators: Sequence[Evaluate], detail: str, metadata: dict[str, Any]
    ) -> Seat:
        search = self.searches[key]
        player = SearchPlayer(name, self.game, search, evaluators, games_at_once=self.at_once, seed=self._seed(key),
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
