"""Open games outlive their actors: real actors that are killed, scaled down and stopped in the middle of long games."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_process import START_S, ClusterProcess

from shusaku.common.messages import GameRecord
from shusaku.common.open_game_codec import decode_open_game
from shusaku.deploy.cluster.open_games import OpenGamesNews
from shusaku.replay.stream.client import connect
from shusaku.replay.stream.keys import RunKeys

COLUMNS = ("actions", "policy_actions", "policy_shares", "root_values", "raw_values", "versions", "kind", "row_weight")
GAMES = 4  # of an actor
PLIES = 8  # of a saved game that no other game begins with
# A game of about 30 plies, each of 32 simulations of 20 ms.
LONG = ("experiment=connect_four", "search.simulations=32", "inference.runtime=simulated_gpu", "search.cache=0",
        "inference.simulated_gpu_batch_ms=20", "learner.enabled=false", f"actors.games_per_actor={GAMES}",
        "actors.snapshot_minutes=0.03")


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[list[ClusterProcess]]:
    started: list[ClusterProcess] = []
    yield started
    for run in started:
        run.close()


def begin(runs: list[ClusterProcess], directory: Path) -> ClusterProcess:
    runs.append(ClusterProcess(directory, *LONG, "actors.count=2", "actors.cpus=0.5"))
    return runs[-1]


def saved(run: ClusterProcess, actor: int) -> dict[str, GameRecord]:
    """The open games of an actor that the server keeps, as they were saved last."""
    client: Any = connect(run.url, 5.0)
    games = client.hgetall(RunKeys.of(run.run_id).open_games(actor))
    return {name.decode(): decode_open_game(name.decode(), data).record for name, data in games.items() if b"." in name}


def until_long(run: ClusterProcess, actor: int) -> None:
    """Every open game of the actor is saved, and begins like no other game."""
    run.until(lambda _: (found := saved(run, actor)) and len(found) == GAMES and all(
        len(record) >= PLIES for record in found.values()), 90, "long games")


def begins_with(record: GameRecord, begun: GameRecord) -> bool:
    """Whether the first plies of the record are this game, number by number."""
    return len(record) >= len(begun) and all(
        getattr(record, name)[: len(getattr(begun, name))].tobytes() == getattr(begun, name).tobytes()
        for name in COLUMNS)


def is_continued(begun: GameRecord, record: GameRecord) -> bool:
    """Whether the record is the end of this game."""
    return len(record) > len(begun) and begins_with(record, begun)


def until_each_has_ended_once(run: ClusterProcess, games: list[GameRecord], seconds: float = 90) -> list[GameRecord]:
    """The records that go on with these games."""
    def ends() -> list[list[GameRecord]]:
        records = list(run.records().values())
        return [[record for record in records if is_continued(game, record)] for game in games]

    run.until(lambda _: all(ends()), seconds, "the ends of all games that were saved")
    assert [len(found) for found in ends()] == [1] * len(games), "each ends once"
    run.check_games()
    return [found[0] for found in ends()]


def restored(state: dict[str, Any]) -> int:
    return int(state["status"]["restored_games"])


@pytest.mark.faults
@pytest.mark.timeout(480)
def test_games_outlive_kill_9_scale_down_and_stop(runs: list[ClusterProcess], tmp_path: Path) -> None:
    """No game is lost or ends twice; at most the plies since the last save are played again."""
    run = begin(runs, tmp_path / "run")
    run.until(lambda s: s["alive_actors"] == 2, START_S, "two actors")
    until_long(run, 0)
    run.hurt("self_play 0")
    killed = time.monotonic()
    games = list(saved(run, 0).values())  # as they are now: some may just have ended
    assert games
    run.until(lambda s: restored(s) >= len(games), 20, "a successor that goes on with them")
    assert time.monotonic() - killed < 15
    ended = until_each_has_ended_once(run, games)
    assert {record.game_id[1:3] for record in ended} == {(0, 1)}
    assert f"{len(games)} open games go on from where they were saved" in run.text

    until_long(run, 1)
    before = saved(run, 1)
    assert run.command("scale", "1").returncode == 0
    run.until(lambda s: "self_play 1" not in s["processes"] and s["alive_actors"] == 1, 30, "one actor")
    down = saved(run, 1)
    assert down  # several games may have ended since, and those that followed them have no search yet
    run.until(lambda _: all(any(begins_with(record, game) for record in [*down.values(), *run.records().values()])
                            for game in before.values()), 30, "each of its games, ended or saved again at its end")
    assert run.command("scale", "2").returncode == 0
    run.until(lambda s: restored(s) >= len(games) + len(down), 30, "the same actor again")
    until_each_has_ended_once(run, list(down.values()))

    until_long(run, 0)
    until_long(run, 1)
    begun = time.monotonic()
    assert run.stop() == 143
    assert time.monotonic() - begun < 25
    run.until_nothing_is_left(30)
    again = begin(runs, tmp_path / "run")
    state = again.until(lambda s: s["alive_actors"] == 2 and restored(s) >= GAMES, START_S, "the games of before")
    assert state["status"]["dropped_games"] == 0
    again.check_games()
    assert again.stop() == 143


def test_what_the_driver_says_of_open_games() -> None:
    news = OpenGamesNews()
    assert news.take({}, []) == []
    reason = "7 open games were dropped: config: they were played under other settings"
    actors = [{"pid": 1, "dropped": ""}, {"pid": 2, "dropped": reason}]
    assert news.take({"restored_games": 64}, actors) == ["64 open games go on from where they were saved", reason]
    assert news.take({"restored_games": 64}, actors) == []
    assert news.take({"restored_games": 70}, [{"pid": 3, "dropped": reason}]) == [
        "6 open games go on from where they were saved", reason]
