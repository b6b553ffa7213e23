"""What the benches know of games for a value network: one row a game, both policies, the network's share."""

import pytest

from shusaku.common.external.configured_game import configured_game
from shusaku.deploy.bench.game_sizes import game_sizes
from shusaku.deploy.bench.selfplay import measure_selfplay
from shusaku.deploy.cli.overrides import compose

SETTINGS = [
    "experiment=alphago_9x9_value", "game.size=5", "value.last_switch=12", "value.supervised=random",
    "value.reinforced=random", "network.filters=8", "network.blocks=1", "actors.count=1",
    "actors.games_per_actor=16", "bench.seconds=1.5",
]


def test_a_game_has_one_row_of_its_whole_record() -> None:
    config = compose(SETTINGS)
    rows, stored = game_sizes(config, configured_game(config.game))
    assert rows == 1
    assert 23 * 12 < stored < 23 * 100 + 500, "23 bytes a ply, and a header"


@pytest.mark.timeout(180)
def test_self_play_is_measured_with_both_policies() -> None:
    result = measure_selfplay(compose(SETTINGS))
    assert result["games_per_s"] == result["rows_per_s"] > 0
    assert result["evaluations_per_s"] > 5 * result["games_per_s"], "an evaluation a move"
    assert 0 < result["of_raw"] < 2
    assert result["cache_hit_rate"] == 0
