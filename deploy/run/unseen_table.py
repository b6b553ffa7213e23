"""What a run without actors says of the games that it learns from, and of those that it never learned from."""

from shusaku.common._core import Game
from shusaku.common.config.schema import Config
from shusaku.common.messages import Weights
from shusaku.deploy.run.text_table import text_table
from shusaku.learner.unseen_games import UnseenGames
from shusaku.replay.buffer import ReplayStats
from shusaku.replay.dataset import Dataset

FINAL_FACTOR = 2  # positions of the last measurement, for each of dataset.positions
_COLUMNS = {"top_1": "top-1", "top_5": "top-5", "policy_loss": "-log p", "value_loss": "(z - v)^2"}


def describe_dataset(config: Config, stats: ReplayStats | None = None) -> str:
    """What is learned from."""
    games = f"{stats.games:,} games of {stats.inserted:,} rows" if stats else "the games"
    return f"{games} of {config.dataset.records}, no actors"


def measure_test_games(config: Config, game: Game, weights: Weights) -> dict[str, float]:
    """The weights on the part for test, which nothing else has looked at."""
    part = Dataset(config.dataset.records, game)["test"]
    return UnseenGames.of_part(game, config.network, part, FINAL_FACTOR * config.dataset.positions).measure(weights)


def unseen_table(measured: dict[str, dict[str, float]]) -> str:
    """Lines of equal columns, one for each part of the dataset."""
    columns = [name for name in _COLUMNS if any(name in result for result in measured.values())]
    header = ["games not learned from", "positions", *(_COLUMNS[name] for name in columns)]
    rows = [[part, f"{result['positions']:,.0f}", *(_number(name, result[name]) for name in columns)]
            for part, result in measured.items()]
    return "\n".join(text_table([header], rows))


def _number(name: str, value: float) -> str:
    return f"{value:.1%}" if name.startswith("top_") else f"{value:.4f}"
