"""The networks of `search=alphago`: a policy and a value network, or one checkpoint with both heads."""

from collections.abc import Sequence
from dataclasses import dataclass

from shusaku.actors.evaluators.factory import make_bucketed_evaluator
from shusaku.actors.evaluators.two_networks import TwoNetworks
from shusaku.common._core import Game, Rollouts
from shusaku.common.config.schema import Config, InferenceConfig
from shusaku.common.config.search import AlphaGoConfig, rows_a_step
from shusaku.common.errors import UsageError
from shusaku.common.external.configured_game import configured_game
from shusaku.common.messages import without_planes
from shusaku.common.network.tower import has_head
from shusaku.common.search import Evaluate
from shusaku.deploy.run.calibration import with_scales
from shusaku.deploy.run.chosen_weights import ChosenWeights, find_weights

VALUE_PLANES = {"alphago": "alphago_value"}  # planes of a policy network -> of a value network that sees one more


@dataclass(frozen=True)
class AlphaGoNetworks:
    """What one player asks; None: nothing of that kind."""

    game: Game  # whose planes hold those of both
    policy: ChosenWeights | None
    value: ChosenWeights | None

    @property
    def notes(self) -> tuple[str, ...]:
        """Lines for the user."""
        return tuple(note for found in (self.policy, self.value) if found is not None for note in found.notes)

    def __str__(self) -> str:
        """What each is, for the user."""
        parts = [f"{name} version {found.weights.version}, step {found.weights.step:,}"
                 for name, found in (("policy", self.policy), ("value", self.value)) if found is not None]
        return "; ".join(parts) or "no network"


def find_networks(config: Config, key: str, search: AlphaGoConfig, default_game: str = "") -> AlphaGoNetworks:
    """Those of the player `key`, `first` or `second`; of engines, whose settings lie in `engine`, if it is empty.

    `default_game`: whose shipped network is meant unless the user, or the other network, names a game.

    UsageError if one is missing that the search asks, or named in vain, or if the two do not go together.
    """
    player = config.second if key == "second" else config.first
    policy, value, checkpoint = ((player.policy, player.value, player.checkpoint) if key else
                                 (config.engine.policy, config.engine.value, config.checkpoint))
    section, share = key or "engine", "search.rollout_share" if not key else f"{key}.search.rollout_share"
    asks_value = search.rollout_share < 1
    if value and not asks_value:
        raise UsageError(f"{section}.value={value}: {share}=1 asks no value network; leave one of them out")
    if asks_value and not (value or checkpoint):
        raise UsageError(f"{share}={search.rollout_share:g}: asks a value network; name {section}.value=RUN_DIR|FILE, "
                         f"or use {share}=1")
    both = f"{key}.checkpoint" if key else "checkpoint"
    sources = [(f"{section}.policy", policy) if policy else (both, checkpoint)]
    if asks_value:
        sources.append((f"{section}.value", value) if value else (both, checkpoint))
    found: dict[str, ChosenWeights] = {}
    for source, name in sources:
        if name and name not in found:
            game_of_other = next((other.game.name for other in found.values()), default_game)
            found[name] = find_weights(config, source, name, game_of_other)
    first, second = found.get(policy or checkpoint), found.get(value or checkpoint) if asks_value else None
    for (source, name), network, head in zip(sources, (first, second), ("policy", "value"), strict=False):
        if network is not None and not has_head(network.weights.tensors, head):
            raise UsageError(f"{source}={name}: this network has no {head}; name one that has as {section}.{head}, or "
                             f"train it with {head} among learner.targets")
    if first is not None and second is not None:
        _check_pair(first.game, second.game, *("=".join(source) for source in sources))
    game = second.game if second is not None else first.game if first is not None else configured_game(config.game)
    check_rollout(game, search.rollout)
    return AlphaGoNetworks(game, first, second)


def make_evaluators(
    networks: AlphaGoNetworks, search: AlphaGoConfig, inference: InferenceConfig, *, count: int, leaves: int,
    sizes: Sequence[int],
) -> list[TwoNetworks]:
    """As many as `count`, each for one thread; `leaves`: of a batch at most."""
    rows = leaves * rows_a_step(search, networks.game.num_symmetries)

    def make(found: ChosenWeights | None) -> Evaluate | None:
        if found is None:
            return None
        weights = with_scales(inference, found.game, found.network, found.weights)
        evaluator = make_bucketed_evaluator(found.game, inference, found.network, rows, sizes=sizes)
        evaluator.load(weights)
        return evaluator

    policy, value = networks.policy, networks.value
    seen = None if policy is None or policy.game.params == networks.game.params else policy.game
    made: list[TwoNetworks] = []
    for _ in range(count):
        first = make(policy)
        made.append(TwoNetworks(first, first if value is policy else make(value), policy_game=seen))
    return made


def same_rules(one: Game, other: Game) -> bool:
    """Whether they are one game, whatever planes their networks see."""
    return one.name == other.name and without_planes(one.params) == without_planes(other.params)


def check_rollout(game: Game, file: str) -> None:
    """UsageError if this is no rollout policy of the game and its board; an empty name is the uniform one."""
    try:
        Rollouts(game, file)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _check_pair(policy: Game, value: Game, policy_source: str, value_source: str) -> None:
    if not same_rules(policy, value):
        raise UsageError(f"{value_source}: plays {_text(value)}, and {policy_source} plays {_text(policy)}; name two "
                         "networks of one game")
    own, others = policy.params.get("planes"), value.params.get("planes")
    if own != others and VALUE_PLANES.get(str(own)) != others:
        raise UsageError(f"{policy_source}: sees game.planes={own}, and {value_source} sees game.planes={others}; name "
                         "two networks of the same planes, or of alphago and alphago_value")


def _text(game: Game) -> str:
    return " ".join([game.name, *(f"{name}={value}" for name, value in game.params.items())])

