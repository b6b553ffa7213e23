"""Which node and how many threads each rank of a learner gets."""

from shusaku.deploy.cluster.rank_places import RankPlace, rank_places


def test_on_gpus_ray_chooses_by_the_gpu_that_a_rank_claims() -> None:
    places = rank_places({"a": 8, "b": 8}, "", 3, on_gpus=True, actors=4, cpus_per_actor=1)
    assert places == (RankPlace("", 0), RankPlace("", 0), RankPlace("", 0))


def test_on_one_node_the_ranks_share_what_the_actors_leave() -> None:
    places = rank_places({"a": 8}, "a", 2, on_gpus=False, actors=2, cpus_per_actor=1)
    assert places == (RankPlace("a", 3), RankPlace("a", 3))
    crowded = rank_places({"a": 2}, "a", 2, on_gpus=False, actors=2, cpus_per_actor=1)
    assert crowded == (RankPlace("a", 1), RankPlace("a", 1)), "a rank has a thread, whatever the actors take"


def test_further_ranks_go_where_the_fewest_share_the_cores() -> None:
    places = rank_places({"a": 4, "b": 4, "c": 16}, "a", 4, on_gpus=False, actors=3, cpus_per_actor=1)
    assert [place.node for place in places] == ["a", "c", "c", "c"]
    assert [place.threads for place in places] == [3, 5, 5, 5], "the actors are spread evenly, one a node"
    even = rank_places({"a": 4, "b": 4}, "a", 2, on_gpus=False, actors=0, cpus_per_actor=1)
    assert [place.node for place in even] == ["a", "b"]


def test_asked_for_threads_are_kept() -> None:
    places = rank_places({"a": 8, "b": 2}, "a", 2, on_gpus=False, actors=8, cpus_per_actor=0.5, threads=2)
    assert [place.threads for place in places] == [2, 2]
