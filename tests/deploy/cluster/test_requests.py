"""What a driver makes of `shusaku scale` and `shusaku stop`, without Ray and without workers."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shusaku.common.config.schema import Config
from shusaku.deploy.cluster import driver as driver_module
from shusaku.deploy.cluster.actor_totals import ActorTotals
from shusaku.deploy.cluster.driver import ClusterRun
from shusaku.deploy.cluster.open_games import OpenGamesNews
from shusaku.deploy.commands import train as train_module
from shusaku.replay.stream.client import ReplayUnavailable


class Replay:
    """What the driver asks the replay server about requests."""

    def __init__(self, actors: int) -> None:
        self.actors, self.is_asked, self.is_stopped, self.is_away = actors, False, False, False

    def set_actors(self, actors: int, *, by_user: bool = True) -> None:
        self.actors, self.is_asked = actors, self.is_asked or by_user

    def has_user_set_actors(self) -> bool:
        return self.is_asked

    def desired_actors(self) -> int:
        return self.actors

    def is_run_stop_requested(self) -> bool:
        if self.is_away:
            raise ReplayUnavailable("no answer in time")
        return self.is_stopped

    def actor_metrics(self) -> dict[int, Any]:
        return {}

    counters = quarantined = actor_metrics


@pytest.fixture
def run() -> Any:
    """A driver between two rounds, of four actors whose number it chooses by itself."""
    run: Any = ClusterRun.__new__(ClusterRun)
    run.config, run.actors, run.lines = Config(), 4, []
    run.console = SimpleNamespace(log=run.lines.append)
    run.replay = Replay(4)
    run.store = SimpleNamespace(check_health=lambda: True, control=run.replay, trouble="")
    run.places, run.watch = SimpleNamespace(most=8), SimpleNamespace(want=lambda actors: None)
    run.supervisor = SimpleNamespace(scale=lambda role, count: None)
    run.totals, run._open_games = ActorTotals(), OpenGamesNews()
    run.session, run.signals = SimpleNamespace(failure=""), SimpleNamespace(should_stop=lambda: False)
    run.was_asked_to_stop, run._asked_actors, run.first_game_seconds = False, 0, None
    run._start_check, run._checked = None, float("-inf")
    run._auto_count = object()
    run._put_status = run.reconcile = run.show = lambda: None
    return run


# --- scale -----------------------------------------------------------------------------------------------------------


def test_the_number_that_play_already_ends_auto_too(run: Any) -> None:
    run._check_replay()
    assert run._auto_count is not None, "nobody has asked"
    run._asked_actors = 6  # by actors.count=auto, not delivered yet
    run.replay.set_actors(4)
    run._check_replay()
    assert (run._auto_count, run.actors, run.replay.actors) == (None, 4, 4)


def test_what_auto_chose_does_not_end_it(run: Any) -> None:
    run._asked_actors = run.actors = 5
    run._check_replay()
    assert run._auto_count is not None
    assert run.replay.actors == run.actors == 5


def test_a_request_over_http_ends_auto_too(run: Any) -> None:
    run.control = SimpleNamespace(take_actors=lambda: 4)
    run.was_asked_to_stop = True  # the round ends after the requests
    run.tick()
    assert (run._auto_count, run.actors) == (None, 4)


def test_a_run_on_finished_games_starts_no_actor(run: Any) -> None:
    run.config.dataset.records = "games.sgf"
    run.actors, run._auto_count = 0, None
    run.replay.set_actors(3)
    run._check_replay()
    assert (run.actors, run.most_actors) == (0, 0)
    run.config.dataset.records = ""
    run._check_replay()
    assert (run.actors, run.most_actors) == (3, 8)


# --- stop ------------------------------------------------------------------------------------------------------------


def test_a_stop_is_heard_during_the_final_measurement(run: Any) -> None:
    assert run._may_go_on()
    run.replay.is_stopped, run.replay.is_away, run._checked = True, True, float("-inf")
    assert run._may_go_on(), "a server that does not answer ends nothing"
    run.replay.is_away, run._checked = False, float("-inf")
    assert not run._may_go_on()


def test_a_stop_is_heard_before_a_run_goes_on_in_a_larger_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stage:
        """That asks for a larger network, unless it has heard a request."""

        actors, layout = 1, SimpleNamespace(games=1, placement="actor", actors=1)
        game = SimpleNamespace(name="tic_tac_toe")
        has_to_grow = True

        def __init__(self, *arguments: object, **more: object) -> None:
            self.is_over = False

        def hear_stop(self) -> None:
            self.has_to_grow = not wish

        def finish(self) -> dict[str, Any]:
            return {"steps": 1}

        def start(self) -> None:
            """Nothing is started."""

        train = end_workers = raise_if_ray_has_ended = close = start

    class Session:
        how_to_log_in = ""

        def __init__(self, *arguments: object, **more: object) -> None:
            """Starts nothing."""

        def __enter__(self) -> "Session":
            return self

        def __exit__(self, *exception: object) -> None:
            """Ends nothing."""

    monkeypatch.setattr(driver_module, "ClusterRun", Stage)
    monkeypatch.setattr(train_module, "RaySession", Session)
    for name in ("settle_games", "settle_precision"):
        monkeypatch.setattr(train_module, name, lambda config, *_: (config, None))
    config = Config()
    config.run.dir, config.game.name = str(tmp_path / "run"), "tic_tac_toe"
    for wish in (False, True):
        assert train_module._run_stage(config) == ({"steps": 1}, not wish)
