"""What a learner without actors is made of: a buffer of finished games, and a meter of those kept aside."""

from shusaku.common._core import Game
from shusaku.common.config.schema import Config
from shusaku.common.network.row_labels import row_labels
from shusaku.learner.unseen_games import UnseenGames, UnseenMeter
from shusaku.replay.dataset import Dataset
from shusaku.replay.dataset_buffer import DatasetBuffer


def open_dataset(config: Config, game: Game, *, threads: int) -> tuple[DatasetBuffer, UnseenMeter]:
    """Reads `dataset.records`; UsageError if nothing can be learned from it."""
    settings, learner = config.dataset, config.learner
    dataset = Dataset(settings.records, game)
    buffer = DatasetBuffer(
        game, dataset, capacity=config.replay.capacity, batch_size=learner.batch_size, seed=config.run.seed,
        symmetries=learner.symmetries, labels=row_labels(game, learner), threads=threads,
        packed=learner.is_on_gpu)
    unseen = UnseenGames.of_part(game, config.network, dataset["validation"], settings.positions)
    return buffer, UnseenMeter(unseen, settings.minutes * 60)
