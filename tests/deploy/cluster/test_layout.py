"""What fits, what is refused, and that the refusal names the numbers."""

from dataclasses import replace

import pytest

from shusaku.actors.pipelined_self_play import group_games
from shusaku.common.config.schema import Config
from shusaku.common.errors import UsageError
from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.cluster.layout import (
    FEWEST_GAMES,
    LARGEST_BATCH,
    actor_seed,
    batch_buckets,
    gpu_batch_sizes,
    layout_of,
    without_secrets,
)
from shusaku.deploy.cluster.room import Node


def config(**settings: object) -> Config:
    return compose([f"{key.replace('__', '.')}={value}" for key, value in settings.items()])


def nodes(*cpus: float) -> list[Node]:
    return [Node(f"node {number}", of_one) for number, of_one in enumerate(cpus)]


def test_one_actor_a_cpu_unless_told_otherwise() -> None:
    assert layout_of(config(), nodes(2), 0).actors == 2
    assert layout_of(config(actors__cpus=0.5), nodes(2), 0).actors == 4
    assert layout_of(config(actors__cpus=0.1, actors__count=16), nodes(2), 0).actors == 16


def test_more_than_fit_are_refused_with_the_numbers() -> None:
    with pytest.raises(UsageError, match=r"actors.count=3: with actors.cpus=1 they need 3 CPUs, and Ray has 2; ask for "
                                         r"actors.count=2 at most"):
        layout_of(config(actors__count=3), nodes(2), 0)
    with pytest.raises(UsageError, match=r"actors.cpus=4: no node of Ray has so many CPUs"):
        layout_of(config(actors__cpus=4), nodes(2), 0)


def test_an_actor_has_its_cpus_on_one_node() -> None:
    assert layout_of(config(actors__cpus=3), nodes(4, 4, 7), 0).actors == 4
    with pytest.raises(UsageError, match=r"no node of Ray has so many CPUs"):
        layout_of(config(actors__cpus=8), nodes(4, 4), 0)


def test_an_autoscaler_may_bring_more_than_is_there() -> None:
    assert layout_of(config(actors__count=3), nodes(0), 0, growing_cpus=3).actors == 3
    assert layout_of(config(), nodes(0), 0, growing_cpus=3).actors == 1, "more come as they are needed"
    with pytest.raises(UsageError, match=r"actors.count=4: .* the autoscaler may bring 3; ask for actors.count=3"):
        layout_of(config(actors__count=4), nodes(0), 0, growing_cpus=3)


def test_actors_play_where_the_label_is() -> None:
    labelled = [*nodes(8), Node("pool", 4, labels={"pool": "cpu"})]
    assert layout_of(config(actors__where="pool:cpu"), labelled, 0).actors == 4
    with pytest.raises(UsageError, match=r"actors.where=pool:gpu: no node of Ray has this label; there are: pool:cpu"):
        layout_of(config(actors__where="pool:gpu"), labelled, 0)
    assert layout_of(config(actors__where="pool:gpu"), labelled, 0, growing_cpus=2).actors == 1, "its nodes may come"


def test_gpus_that_are_not_there_are_refused() -> None:
    asked = config(inference__device="cuda", learner__device="cuda", inference__servers=2,
                   inference__gpus_per_server=1, learner__gpus=1)
    with pytest.raises(UsageError, match=r"2 inference servers with 1 GPU each and a learner with 1 do not fit on "):
        layout_of(asked, nodes(8), 1)
    layout = layout_of(asked, nodes(8), 3)
    assert layout.placement == "server"
    assert layout.sizes[-1] == 256


def test_on_a_cpu_the_network_is_in_the_actor() -> None:
    assert layout_of(config(), nodes(2), 0).placement == "actor"
    assert layout_of(config(inference__placement="server"), nodes(2), 0).placement == "server"


def test_ladder_holds_the_largest_batch() -> None:
    assert batch_buckets(1) == [8]
    assert batch_buckets(64) == [8, 16, 32, 64]
    assert batch_buckets(65)[-1] == 128


@pytest.mark.parametrize("largest", [1, 8, 9, 64, 130, 256, 1000, 1024])
def test_batches_of_a_gpu_waste_little(largest: int) -> None:
    sizes = gpu_batch_sizes(largest)
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == max(8, largest)
    assert len(sizes) < 100, "each is a captured graph"
    for rows in range(1, largest + 1):
        size = next(size for size in sizes if size >= rows)
        assert size - rows <= 0.06 * size or size == 8


def test_no_two_lives_share_a_seed() -> None:
    seeds = {actor_seed(1, epoch, actor, life) for epoch in range(4) for actor in range(20) for life in range(4)}
    assert len(seeds) == 4 * 20 * 4
    assert all(0 <= seed < 2**64 for seed in seeds)


def test_no_secret_travels_to_the_workers() -> None:
    asked = config(replay__url="redis://me:hush@host:1/0")
    travels = without_secrets(asked)
    assert "hush" not in str(vars(travels)) + str(travels.replay)
    assert type(travels) is Config
    assert asked.replay.url.endswith("host:1/0")
    assert replace(travels.replay, url=asked.replay.url) == asked.replay


@pytest.mark.parametrize(("actors", "servers", "games"), [(16, 1, 204), (16, 2, 408), (4, 1, 768), (5, 1, 768),
                                                       (1, 1, 3072), (4000, 1, 16)])
def test_beside_a_server_auto_keeps_three_full_batches_in_flight(actors: int, servers: int, games: int) -> None:
    asked = config(actors__games_per_actor=0, actors__count=actors, inference__placement="server",
                   inference__servers=servers)
    layout = layout_of(asked, nodes(actors), 0)
    assert layout.games == games
    group = group_games(games)[0]
    assert games == len(group_games(games)) * group, "all requests have one size"
    assert LARGEST_BATCH - LARGEST_BATCH // group * group < LARGEST_BATCH // group, "and fill a batch"
    if games > FEWEST_GAMES:
        assert 3 * LARGEST_BATCH * servers * 0.98 < games * actors < 4 * LARGEST_BATCH * servers
    assert layout_of(config(actors__games_per_actor=48, inference__placement="server"), nodes(2), 0).games == 48


def test_one_actor_of_many_servers_asks_for_whole_batches() -> None:
    """It may have 16 requests in flight, and none is larger than a batch."""
    asked = config(actors__games_per_actor=0, actors__count=1, inference__placement="server", inference__servers=6)
    assert layout_of(asked, nodes(1), 0).games == 16 * LARGEST_BATCH


def test_a_run_that_goes_on_waits_for_a_node_that_is_away() -> None:
    """A driver that is started again while a node is lost is not refused; a new run with too many actors is."""
    asked = config(actors__count=6, actors__cpus=1.0)
    with pytest.raises(UsageError, match="they need 6 CPUs, and Ray has 2"):
        layout_of(asked, nodes(2), 0)
    layout = layout_of(asked, nodes(2), 0, nodes_may_return=True)
    assert layout.actors == 6
    assert layout_of(config(actors__count=0, actors__cpus=4.0), nodes(2), 0, nodes_may_return=True).actors == 1
    labelled = config(actors__count=2, actors__cpus=1.0, actors__where="pool:players")
    assert layout_of(labelled, nodes(2), 0, nodes_may_return=True).actors == 2
