"""Where actors are placed: on made-up nodes, one after the other."""

from collections import Counter

import pytest

from shusaku.deploy.cluster.room import Node, Room, with_label

HEAD, GPU, FIRST, SECOND = Node("head", 4), Node("gpu", 4, gpus=1), Node("first", 2), Node("second", 2)


def placed(room: Room, actors: int, taken: Counter[str] | None = None) -> list[str | None]:
    taken = Counter(taken)
    places = []
    for _ in range(actors):
        places.append(room.place(taken))
        taken[places[-1] or ""] += 1
    return places


def test_nodes_without_other_work_come_first_and_are_filled_evenly() -> None:
    room = Room((HEAD, GPU, FIRST, SECOND), 1.0, "head")
    assert room.most == 12
    places = placed(room, 13)
    assert places[:4] == ["first", "second", "first", "second"]
    assert Counter(places[4:12]) == {"head": 4, "gpu": 4}
    assert places[12] is None, "it waits for a node"


def test_with_an_autoscaler_the_youngest_actors_are_alone_on_their_nodes() -> None:
    """`scale` down ends the actors of the highest numbers: whole nodes are left without any."""
    room = Room((HEAD, FIRST, SECOND), 1.0, "head", growing_cpus=8)
    places = placed(room, 8)
    assert places[0] == places[1] != places[2] == places[3]
    assert places[4:] == ["head"] * 4


def test_a_node_that_was_cut_off_is_avoided() -> None:
    room = Room((FIRST, SECOND), 1.0, "head")
    assert room.place({}, avoided={"first"}) == "second"
    assert room.place({"second": 2}, avoided={"first"}) is None


@pytest.mark.parametrize(("cpus", "most"), [(1.0, 3), (0.1, 30), (1 / 3, 9), (3.0, 1), (4.0, 0)])
def test_an_actor_has_its_cpus_on_one_node(cpus: float, most: int) -> None:
    assert Room((Node("a", 3),), cpus, "head").most == most


def test_labels_choose_nodes() -> None:
    labelled = Node("a", 1, labels={"pool": "cpu"})
    assert with_label((labelled, HEAD), "pool:cpu") == (labelled,)
    assert with_label((labelled, HEAD), "") == (labelled, HEAD)
