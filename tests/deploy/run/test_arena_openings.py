"""Openings that end the game are found before anything is started, under the name of their setting."""

from pathlib import Path

import pytest

from shusaku.common.errors import UsageError
from shusaku.deploy.cli.main import main
from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.run.arena_openings import check_openings

TIC_TAC_TOE = "experiment=tic_tac_toe"


@pytest.mark.parametrize("words", [["gating=win_rate", "gate.opening_plies=9"], ["rater.opening_plies=9"]])
@pytest.mark.parametrize("command", ["local", "train"])
def test_no_run_begins_with_them(
    command: str, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, TIC_TAC_TOE, f"run.dir={tmp_path / 'run'}", *words]) == 2
    assert f"{words[-1]}: tic_tac_toe was over within them" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("words", [
    ["gate.opening_plies=9"], ["gating=win_rate"], ["rater.enabled=false", "rater.opening_plies=9"],
])
def test_what_is_not_played_is_not_asked(words: list[str]) -> None:
    check_openings(compose([TIC_TAC_TOE, *words]))


def test_python_callers_are_told_too() -> None:
    with pytest.raises(UsageError, match=r"^gate\.opening_plies=9: "):
        check_openings(compose([TIC_TAC_TOE, "gating=win_rate", "gate.opening_plies=9"]))
