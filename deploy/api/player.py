"""A network that has learned, as a player: what `import shusaku` gives to programs of others."""

from dataclasses import dataclass, replace
from pathlib import Path

from shusaku.actors.arena.strength import strength_search
from shusaku.actors.evaluators.factory import make_evaluator
from shusaku.common._core import Game, Position
from shusaku.common.config.schema import Config
from shusaku.common.config.search import rows_a_step
from shusaku.common.errors import UsageError
from shusaku.common.external.entry import trust
from shusaku.common.search import search_positions
from shusaku.deploy.run.calibration import with_scales
from shusaku.deploy.run.chosen_weights import ChosenWeights, choose_weights


@dataclass(frozen=True)
class Choice:
    """What a search of a position concluded."""

    action: int  # in [0, num_actions), for Position.play
    move: str  # the same as text, such as "e2e4"
    policy: dict[str, float]  # what the search recommends: move -> share of all legal moves; they sum to 1
    value: float  # expected outcome in [-1, 1], for the player to move


class Player:
    """Plays the game of a checkpoint for strength: nothing is drawn at random."""

    def __init__(self, chosen: ChosenWeights, config: Config) -> None:
        """Use `load`."""
        self.game: Game = chosen.game
        self.version, self.step = chosen.weights.version, chosen.weights.step
        self.simulations = chosen.search.simulations  # of a search, unless a call says otherwise
        self._search = chosen.search
        size = rows_a_step(chosen.search, chosen.game.num_symmetries)
        self._evaluator = make_evaluator(chosen.game, config.inference, chosen.network, size)
        self._evaluator.load(with_scales(config.inference, chosen.game, chosen.network, chosen.weights))

    def choose(self, position: Position, simulations: int = 0) -> Choice:
        """Move, policy and value by a search of so many simulations; 0: as the run was searched.

        UsageError if the game is over.  The position stays as it is.
        """
        if simulations < 0:
            raise UsageError(f"simulations={simulations}: must be at least 1, or 0 for those of the run")
        if position.is_terminal:
            raise UsageError("the game is over in this position, so there is no move to choose")
        search = strength_search(self._search, simulations or self.simulations)
        [result] = search_positions(self.game, [position], search, self._evaluator)
        policy = {position.to_move(int(action)): float(share)
                  for action, share in zip(result.actions, result.policy, strict=True)}
        return Choice(int(result.action), position.to_move(int(result.action)), policy, float(result.value))


def load(checkpoint: str | Path, *, simulations: int = 0, entry: str = "", game: str = "") -> Player:
    """The player of a run directory, of one of its checkpoints, or of a weights file.

    "shipped" is the network that comes with this program for `game`: connect_four, or go on 9x9.

    `entry`, "module:Class", names the class of a Python game: a file names one too, but its word is not taken for it.
    UsageError if there is nothing to load, ResumeError if there are only damaged checkpoints.
    """
    if entry:
        trust(entry)
    config = Config(checkpoint=str(checkpoint))
    chosen = choose_weights(config, game)
    if simulations:
        chosen = replace(chosen, search=replace(chosen.search, simulations=simulations))
    return Player(chosen, config)
