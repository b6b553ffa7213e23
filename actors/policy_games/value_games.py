"""Games for a value network: two policies that never change play them, and one position of each is learned from."""

from collections.abc import Sequence

from shusaku.actors.evaluators.evaluator import Evaluator, Runtime
from shusaku.actors.evaluators.factory import make_evaluator
from shusaku.actors.evaluators.network import NetworkEvaluator
from shusaku.actors.self_play import ActorIdentity, SelfPlay
from shusaku.common._core import Game, GameBatch
from shusaku.common.config.schema import Config, InferenceConfig, SelfPlayConfig, ValueConfig
from shusaku.common.config.search import SearchConfig
from shusaku.common.messages import GameRecord, Leaves, Weights
from shusaku.common.network.weights import network_config
from shusaku.common.stage_timer import StageTimer

VERSION = 0  # of the rows: neither network is a version of the run


class ValueGames(SelfPlay):
    """Plays a batch of parallel games of two policies; see `common/core/search/value_games.h` for their law.

    There are twice as many games as the networks take positions at once, so that every batch is full: one of the two
    networks always has so many games that wait for it.  Everything else is as in `SelfPlay`.
    """

    def __init__(
        self, game: Game, search: SearchConfig, value: ValueConfig, policies: Sequence[Evaluator], *,
        policy_game: Game, batch: int, seed: int, identity: ActorIdentity, config_hash: str = "",
        timer: StageTimer | None = None,
    ) -> None:
        """`game`: of the run, whose records these are; `policy_game`: the same one with the planes of the policies.

        `search`: policy_only, how moves are drawn; `policies`: the supervised and the reinforced one, with weights;
        `batch`: positions that each network takes at once; `timer`: shared with the policies.
        """
        self._record_game, self._value, self._max_leaves = game, value, batch
        self._policies = policies
        self._runtimes = [_runtime(policy, batch) for policy in policies]
        super().__init__(policy_game, search, SelfPlayConfig(), policies[0], games=2 * batch, seed=seed,
                         identity=identity, config_hash=config_hash, timer=timer)
        self._name, self._params = game.name, dict(game.params)

    @property
    def description(self) -> str:
        """What evaluates both policies, as text for the user."""
        texts = [policy.description for policy in self._policies]
        return texts[0] if texts[0] == texts[1] else f"{texts[0]} and {texts[1]}"

    def step(self) -> list[GameRecord]:
        """One batch of one of the two networks; the games that ended."""
        batch, charge = self._batch, self.timer.charge
        network = batch.choose_network()
        runtime = self._runtimes[network]
        if runtime is not None:
            return self._step_attached(runtime, VERSION)
        leaves = Leaves(*batch.select(VERSION))
        charge("select")
        answer = self._policies[network](leaves)
        charge("network")
        batch.expand_and_backup(answer.logits, answer.values, VERSION)
        charge("expand")
        return self._take_finished()

    def _games(self, seed: int, resign_value: float) -> GameBatch:
        batch = GameBatch.for_value_network(
            self._game, self._options, self.size, seed, max_leaves=self._max_leaves,
            last_switch=self._value.last_switch, temperature=self._value.temperature,
            learns_all=self._value.rows == "all")
        for network, runtime in enumerate(self._runtimes):
            if runtime is not None:
                batch.attach(runtime.inputs, runtime.policy, runtime.values, network)
        return batch


def make_value_games(
    config: Config, game: Game, policies: Sequence[Weights], *, seed: int, identity: ActorIdentity, config_hash: str,
) -> ValueGames:
    """The player of one actor, with evaluators of its own for the supervised and the reinforced policy."""
    batch, timer = config.actors.games, StageTimer()
    policy_game = game_of(game, policies[0])
    evaluators = [evaluator_of(policy_game, config.inference, weights, batch, timer) for weights in policies]
    return ValueGames(game, config.search, config.value, evaluators, policy_game=policy_game, batch=batch, seed=seed,
                      identity=identity, config_hash=config_hash, timer=timer)


def game_of(game: Game, policy: Weights) -> Game:
    """The game as this policy sees it: `game` unless its planes are others."""
    own = Game(policy.game, policy.params)
    return game if (own.name, own.params) == (game.name, game.params) else own


def evaluator_of(
    game: Game, inference: InferenceConfig, weights: Weights, size: int, timer: StageTimer | None = None
) -> Evaluator:
    """An evaluator of these weights, for `size` positions at once."""
    network = network_config(weights)
    evaluator = make_evaluator(game, inference, network, size, timer)
    evaluator.load(weights)
    return evaluator


def _runtime(evaluate: Evaluator, rows: int) -> Runtime | None:
    """The runtime of a plain network evaluator, if its batch holds so many rows."""
    return evaluate.runtime if type(evaluate) is NetworkEvaluator and evaluate.size >= rows else None
