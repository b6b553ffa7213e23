"""The loop of an actor: what it loads, when it pauses, what it hands over, why it ends."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import msgpack
import pytest

from shusaku.actors.actor_loop import CHECK_GAMES, CHECK_SECONDS, ActorLoop
from shusaku.actors.open_games import OpenGames
from shusaku.common.messages import Control, GameRecord, Weights


def weights(version: int) -> Weights:
    return Weights(version, version * 10, {}, {}, "tic_tac_toe", {})


def record(number: int) -> GameRecord:
    return cast(GameRecord, number)  # nobody looks inside


class Player:
    """Ends one game a step."""

    resign_value = -0.75

    def __init__(self) -> None:
        self.steps = 0

    def step(self) -> list[GameRecord]:
        time.sleep(0.001)
        self.steps += 1
        return [record(self.steps)]

    def counters(self) -> dict[str, int]:
        return {"games": self.steps, "simulations": 8 * self.steps}


class Writer:
    def __init__(self, room: int = 10**9) -> None:
        self.control = Control(epoch=3)
        self.metrics = b""
        self.failures = 0
        self.room = room
        self.taken: list[GameRecord] = []

    def put_all(self, games: Iterable[GameRecord]) -> int:
        taken = list(games)[: max(0, self.room)]
        self.room -= len(taken)
        self.taken += taken
        return len(taken)


class Running:
    def __init__(self, loop: ActorLoop) -> None:
        self.loop, self.answer = loop, ""
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        self.answer = self.loop.run()

    def end(self) -> str:
        self.loop.stop()
        self.thread.join(5)
        assert not self.thread.is_alive()
        return self.answer


def until(condition: Callable[[], Any], seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.fixture
def parts() -> Iterator[tuple[Player, Writer, deque[int], Running]]:
    player, writer, loaded = Player(), Writer(), deque[int]()
    running = Running(ActorLoop(player, writer, lambda w: loaded.append(w.version), epoch=3, runtime=lambda: "none"))
    yield player, writer, loaded, running
    running.end()


Parts = tuple[Player, Writer, deque[int], Running]


def test_nothing_is_played_before_the_first_weights(parts: Parts) -> None:
    player, _, loaded, running = parts
    time.sleep(0.15)
    assert player.steps == 0
    running.loop.offer(weights(4))
    until(lambda: player.steps > 3)
    assert list(loaded) == [4]


def test_weights_never_go_back_and_only_the_newest_offer_is_loaded(parts: Parts) -> None:
    player, _, loaded, running = parts
    for version in (5, 7, 6):
        running.loop.offer(weights(version))
    until(lambda: player.steps > 3)
    running.loop.offer(weights(2))
    running.loop.offer(weights(8))
    until(lambda: loaded[-1] == 8)
    assert list(loaded) in ([7, 8], [5, 7, 8])


def test_a_throttled_actor_pauses_where_it_stands_and_goes_on(parts: Parts) -> None:
    player, writer, _, running = parts
    running.loop.offer(weights(1))
    until(lambda: player.steps > 3)
    writer.control = Control(throttle=True, epoch=3)
    time.sleep(0.1)
    before = player.steps
    time.sleep(0.3)
    assert player.steps == before
    writer.control = Control(epoch=3)
    until(lambda: player.steps > before + 3)
    assert writer.taken == list(range(1, len(writer.taken) + 1)), "no game lost, none twice, in order"


def test_a_full_queue_stops_playing_and_loses_nothing(parts: Parts) -> None:
    player, writer, _, running = parts
    writer.room = 5
    running.loop.offer(weights(1))
    until(lambda: len(writer.taken) == 5)
    time.sleep(0.2)
    before = player.steps
    assert 6 <= before <= CHECK_GAMES, "the games between two checks wait in the actor"
    time.sleep(0.2)
    assert player.steps == before, "and no more are made"
    writer.room = 10**9
    until(lambda: player.steps > before + 3)
    running.end()
    assert writer.taken == list(range(1, player.steps + 1))


class Saves:
    """Counts how often open games could have been saved."""

    def __init__(self) -> None:
        self.offers = 0

    def restore(self) -> bool:
        return True

    def save_if_due(self) -> None:
        self.offers += 1

    def save(self) -> None:
        pass

    def metrics(self) -> dict[str, int | float | str]:
        return {}


def test_an_actor_that_only_pauses_saves_its_open_games() -> None:
    """Else they are dropped after a few actors that ended before they played: saves alone show that games are sound."""
    player, writer, saves = Player(), Writer(), Saves()
    writer.control = Control(throttle=True, epoch=3)
    running = Running(ActorLoop(player, writer, lambda w: None, epoch=3, open_games=cast(OpenGames, saves)))
    running.loop.set_ready()
    until(lambda: saves.offers > 1)
    running.end()
    assert player.steps == 0


class Clocked:
    """A player whose steps take as long as it is told, on a clock of its own; it may break down."""

    resign_value = -1.0

    def __init__(self, seconds: float, breaks_at: int = 10**9) -> None:
        self.now, self.seconds, self.breaks_at, self.steps = 0.0, seconds, breaks_at, 0

    def step(self) -> list[GameRecord]:
        self.now += self.seconds
        self.steps += 1
        if self.steps == self.breaks_at:
            raise RuntimeError("the network is gone")
        return [record(self.steps)]

    def counters(self) -> dict[str, int]:
        return {}


class Looking(Writer):
    """Keeps how many games came before each look at the control, and stops the actor at the last of them."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.looks, self.games_before = looks, list[int]()

    @property
    def control(self) -> Control:
        self.games_before.append(len(self.taken))
        return Control(stop=len(self.games_before) > self.looks, epoch=3)

    @control.setter
    def control(self, control: Control) -> None:
        pass


@pytest.mark.parametrize(
    ("seconds", "games"),
    [(CHECK_SECONDS * 0.3, 4), (CHECK_SECONDS * 3, 1), (0.0, CHECK_GAMES)],
    ids=["fast", "slow", "many"],
)
def test_between_two_looks_pass_a_tenth_of_a_second_or_a_step_or_many_games(seconds: float, games: int) -> None:
    player, writer = Clocked(seconds), Looking(looks=3)
    loop = ActorLoop(player, writer, lambda w: None, epoch=3, clock=lambda: player.now)
    loop.set_ready()
    loop.run()
    assert writer.games_before == [0, games, 2 * games, 3 * games]


def test_games_that_have_ended_are_handed_over_when_a_step_breaks_down() -> None:
    player, writer = Clocked(CHECK_SECONDS / 8, breaks_at=4), Writer()
    loop = ActorLoop(player, writer, lambda w: None, epoch=3, clock=lambda: player.now)
    loop.set_ready()
    with pytest.raises(RuntimeError, match="gone"):
        loop.run()
    assert writer.taken == [1, 2, 3]


def test_ends_when_the_run_is_stopped(parts: Parts) -> None:
    _, writer, _, running = parts
    writer.control = Control(stop=True, epoch=3)
    running.thread.join(5)
    assert "the run was stopped" in running.answer


def test_ends_when_another_driver_has_taken_over(parts: Parts) -> None:
    _, writer, _, running = parts
    writer.control = Control(stop=True, epoch=4)
    running.thread.join(5)
    assert running.answer == "another driver took over (epoch 4, mine is 3)"


def test_says_what_it_does_with_its_time(parts: Parts) -> None:
    player, writer, _, running = parts
    writer.failures = 2
    running.loop.offer(weights(1))
    until(lambda: player.steps > 3)
    writer.control = Control(throttle=True, epoch=3)
    until(lambda: writer.metrics and msgpack.unpackb(writer.metrics)["paused_ms"] > 300)
    figures = msgpack.unpackb(writer.metrics)
    assert figures["version"] == 1
    assert figures["simulations"] == 8 * figures["games"] > 0
    assert figures["playing_ms"] < 3000
    assert figures["wait_us"] > 300_000  # the pauses, in the parts that the shares are made of
    assert figures["pid"] > 0
    assert figures["send_failures"] == 2
    assert figures["resign_value"] == player.resign_value
    assert len(writer.metrics) < 4096
