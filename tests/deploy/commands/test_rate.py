"""`shusaku rate`: reads a run's games, plays what is missing, and refuses what is no run."""

import json
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from shusaku.actors.arena.entrants import rating_search
from shusaku.actors.arena.rating_log import Meeting, Moment, append_meeting, read_meetings
from shusaku.deploy.cli import main as cli
from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.commands.rate import _as_rated

SMALL = [
    "experiment=tic_tac_toe", "actors.count=1", "actors.games_per_actor=8", "search.simulations=4",
    "search.considered_actions=4", "replay.minimum=100", "replay.capacity=3000", "learner.batch_size=16",
    "learner.publish_every=4", "learner.threads=1", "network.filters=4", "network.blocks=1", "strength.enabled=false",
    "strength.final=false", "rater.enabled=false", "inference.runtime=torch",
]
RATED = ["rater.opening_plies=2", "rater.anchors=[random,uct_10]", "actors.count=1", "inference.runtime=torch"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("runs") / "run"
    assert cli.main(["local", *SMALL, f"run.dir={directory}", "run.evaluations=3000"]) == 0
    return directory


def test_missing_games_are_played_once(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["rate", f"run.dir={trained}", *RATED]
    assert cli.main(command) == 2
    assert "random, which has 0 Elo, has played no game; rater.fill=20 plays some" in capsys.readouterr().err
    assert cli.main([*command, "rater.fill=4", "--json"]) == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    names = [player["name"] for player in report["players"]]
    assert {"random", "uct_10"} < set(names)
    assert any(name.startswith("version ") for name in names)
    assert all(player["low"] <= player["elo"] <= player["high"] for player in report["players"])
    assert (trained / "elo.png").read_bytes().startswith(b"\x89PNG")
    meetings = read_meetings(trained)
    assert all(sum(map(len, meeting.points)) + meeting.repeated == 4 for meeting in meetings)
    assert cli.main([*command, "rater.fill=4"]) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines()[0].split() == ["player", "Elo", "95", "%", "games", "score", "step", "minutes"]
    assert "plain UCT" in captured.out or "uct_10" in captured.out
    assert "against" not in captured.err
    assert len(read_meetings(trained)) == len(meetings)


def test_versions_of_other_searches_are_other_players(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    for name in ("ratings.jsonl", "elo.json", "elo.png"):
        (run / name).unlink(missing_ok=True)
    command = ["rate", f"run.dir={run}", *RATED, "rater.fill=2"]
    assert cli.main([*command, "rater.simulations=2"]) == 0
    weaker = len(read_meetings(run, 2))
    assert weaker
    assert not read_meetings(run, 4)
    assert cli.main(command) == 0
    assert len(read_meetings(run, 4)) == weaker
    games = sum(len(pair) for meeting in read_meetings(run, 4) for pair in meeting.points)
    capsys.readouterr()
    assert cli.main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["games"] == games


def test_a_run_is_rated_by_the_settings_of_its_rater() -> None:
    """With other simulations, anchors or openings its versions would be other players, and Elo have another zero."""
    saved = {"rater": {"simulations": 200, "anchors": ["uct_10", "uct_100"], "opening_plies": 2, "fill": 0, "gone": 1}}
    config = _as_rated(compose(["rater.opening_plies=3", "rater.fill=20"]), saved)
    rater = config.rater
    assert (rater.simulations, rater.anchors, rater.opening_plies, rater.fill) == (200, ["uct_10", "uct_100"], 3, 20)
    assert _as_rated(compose([]), {}).rater == compose([]).rater


def test_games_in_which_an_engine_fails_do_not_count(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(trained, tmp_path / "run")
    command = ["rate", f"run.dir={tmp_path / 'run'}", *RATED, "rater.fill=4"]
    assert cli.main([*command, "second.engine=gtp", engine("--fault", "crash:2")]) == 0
    said = capsys.readouterr().err
    assert "faults in 2 pairs of games, which do not count; the first: " in said
    assert "the engine has had enough" in said
    assert not engines_of(tmp_path / "run")
    assert cli.main([*command, "second.engine=gtp", engine()]) == 0
    assert "do not count" not in capsys.readouterr().err
    assert list(engines_of(tmp_path / "run").values()) == [4]


def engine(*arguments: str) -> str:
    fake = Path(__file__).parents[2] / "fixtures" / "fake_gtp_engine.py"
    return f"second.command='{shlex.join([sys.executable, str(fake), *arguments])}'"


def engines_of(run: Path) -> dict[str, int]:
    """Games of each engine."""
    return {meeting.second: sum(map(len, meeting.points)) for meeting in read_meetings(run)
            if "fake_gtp_engine" in meeting.second}


def test_versions_are_searched_as_while_training() -> None:
    """Otherwise one name would stand for two players."""
    for simulations, expected in ((4, 4), (200, 64)):
        config = compose(["experiment=tic_tac_toe", f"search.simulations={simulations}"])
        assert rating_search(config.search, config.rater).simulations == expected


def test_players_that_no_games_connect_are_named(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    append_meeting(trained, Meeting("version 1", "random", ((1.0, 0.0),), Moment(0, 0.0)), 4)
    append_meeting(trained, Meeting("version 90", "version 91", ((1.0, 0.0),), Moment(0, 0.0)), 4)
    assert cli.main(["rate", f"run.dir={trained}", *RATED]) == 0
    assert "no games connect them with random: version 90, version 91" in capsys.readouterr().out


@pytest.mark.parametrize(("argv", "reason"), [
    (["run.dir=no/such/run"], "run.dir=no/such/run: holds no run"),
    (["rater.anchors=[gnugo]"], "rater.anchors=[gnugo]: must name random or uct_N"),
    (["rater.games=7"], "rater.games=7: must be an even number"),
    (["rater.fill=-1"], "rater.fill=-1: must be at least 0"),
    (["rater.share=0"], "rater.share=0.0: must be above 0"),
])
def test_wrong_words_are_one_line(argv: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["rate", *argv]) == 2
    captured = capsys.readouterr()
    assert len(captured.err.splitlines()) == 1
    assert reason in captured.err


@pytest.mark.parametrize(("setting", "reason"), [
    ("gating=always", "gating=always: must be one of none, win_rate"),
    ("gate.games=5", "gate.games=5: must be an even number"),
    ("gate.score=1", "gate.score=1.0: must be at least 0 and below 1"),
    ("gate.every=0", "gate.every=0: must be at least 1"),
])
def test_wrong_settings_of_the_gate(setting: str, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["local", "experiment=tic_tac_toe", setting]) == 2
    assert reason in capsys.readouterr().err
