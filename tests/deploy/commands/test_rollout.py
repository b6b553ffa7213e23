"""`shusaku rollout`: a file that plays, learned from a record log; one line if it cannot be made or does not fit."""

import json
from pathlib import Path

import pytest
from labelled_games import random_game

from shusaku.common._core import Game, Rollouts, describe_rollout
from shusaku.common.codec import encode_record
from shusaku.deploy.cli.main import main
from shusaku.replay.record_log import RecordLog

GO = ("game=go", "game.size=9", "game.max_plies=40")


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("games") / "log"
    log = RecordLog(directory)
    log.append([encode_record(random_game(Game("go", {"size": 9, "max_plies": 40}), seed)) for seed in range(120)])
    log.close()
    return directory


def test_it_writes_a_file_that_a_search_plays_by(
    games: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "go.rollout"
    command = ["rollout", f"dataset.records={games}", f"file={file}", "rollout.passes=2", *GO]
    assert main([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    found = describe_rollout(file.read_bytes())
    assert (found["game"], found["board"], len(found["keys"])) == ("go", "9x9", told["weights"])
    assert told["games"] > 90
    assert [row["positions"] for row in told["passes"]] == [told["passes"][0]["positions"]] * 2
    assert told["unseen_positions"] > 0
    assert 0 < told["unseen_top1"] <= told["unseen_top5"] <= 1
    assert f"top-1 {told['unseen_top1']:.4f}" in found["note"]
    first = file.read_bytes()
    assert main(command) == 0
    assert file.read_bytes() == first
    assert "unseen games:" in capsys.readouterr().out
    Rollouts(Game("go", {"size": 9}), str(file))

    match = ["match", "first.engine=mcts", f"first.search.rollout={file}", "second.engine=mcts", "games=2",
             "first.search.simulations=4", "second.search.simulations=4", *GO]
    assert main([*match, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["games"] == 2


def test_what_cannot_be_learned_is_refused(games: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records, file = f"dataset.records={games}", f"file={tmp_path}/x.rollout"
    for words, problem in (
        ((records, f"file={tmp_path}/none/x", *GO), "there is no directory"),
        ((records, *GO), "rollout: file= is missing"),
        ((file, *GO), "rollout: dataset.records= is missing"),
        ((records, file, "game=go", "game.size=13"), "holds another game"),
        ((records, f"file={tmp_path}/none/x", *GO), "name a file that can be written"),
        ((records, file, *GO, "rollout.passes=0"), "rollout.passes=0: must be at least 1"),
    ):
        assert main(["rollout", *words]) == 2
        error = capsys.readouterr().err
        assert problem in error
        assert error.count("\n") == 1
    assert not (tmp_path / "x.rollout").exists()


def test_a_file_of_another_board_is_refused_by_every_command(
    games: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "go.rollout"
    assert main(["rollout", f"dataset.records={games}", f"file={file}", "rollout.passes=1", *GO]) == 0
    capsys.readouterr()
    mcts = ("first.engine=mcts", f"first.search.rollout={file}", "second.engine=mcts", "games=2")
    for command in (
        ("match", *mcts, "game=go", "game.size=13"),
        ("match", "first.search=alphago", "first.search.rollout_share=1", f"first.search.rollout={file}",
         "second.engine=random", "games=2", "game=go", "game.size=13"),
        ("match", *mcts, "game=tic_tac_toe"),
    ):
        assert main([*command]) == 2, command
        error = capsys.readouterr().err
        assert f"rollout={file}" in error
        assert error.count("\n") == 1
