"""The URL of a replay server in a private file or in the environment, and where it must not appear."""

import json
from pathlib import Path

import pytest

from shusaku.common.config.schema import ReplayConfig
from shusaku.common.errors import UsageError
from shusaku.deploy.cli.main import main
from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.commands import submit
from shusaku.deploy.run.replay_urls import VARIABLE, with_urls
from shusaku.deploy.run.run_directory import RunDirectory

URL = "redis://user:pw-1@host:6379/0"


def private(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_file_holds_the_url(tmp_path: Path) -> None:
    file = private(tmp_path / "url", f"{URL}\n")
    other = private(tmp_path / "actors", "redis://actor:pw-2@host\n", 0o400)
    config = compose(["game=tic_tac_toe", f"replay.url_file={file}", f"replay.actor_url_file={other}"])
    assert (config.replay.url, config.replay.actor_url) == (URL, "redis://actor:pw-2@host")
    assert config.unresolved["replay"]["url"] == config.unresolved["replay"]["actor_url"] == ""
    assert compose(["game=tic_tac_toe"]).replay.url == ""


def test_the_environment_holds_it_unless_something_else_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, URL)
    assert compose(["game=tic_tac_toe"]).replay.url == URL
    assert compose(["game=tic_tac_toe", "replay.url=redis://other"]).replay.url == "redis://other"
    file = private(tmp_path / "url", "redis://third")
    assert compose(["game=tic_tac_toe", f"replay.url_file={file}"]).replay.url == "redis://third"


@pytest.mark.parametrize(("mode", "text", "words"), [
    (0o644, URL, "other users may read it (mode 644)"), (0o640, URL, "other users may read it (mode 640)"),
    (0o600, "", "must hold one URL"), (0o600, f"{URL} {URL}", "must hold one URL"),
    (0o600, "x" * 5000, "must hold one URL"),
    (0o600, "\xff\xfe", "must begin with redis://"), (0o600, "http://user:pw-1@host", "must begin with redis://"),
])
def test_what_a_file_may_not_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: int, text: str, words: str
) -> None:
    file = private(tmp_path / "url", text, mode)
    assert main(["train", "game=tic_tac_toe", f"replay.url_file={file}"]) == 2
    [line] = capsys.readouterr().err.strip().splitlines()
    assert words in line
    assert "pw-1" not in line


def test_a_file_that_is_missing_or_one_too_many(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"replay.url_file=/no/such: cannot be read"):
        with_urls(ReplayConfig(url_file="/no/such"))
    with pytest.raises(UsageError, match=r"replay.url names the server already"):
        with_urls(ReplayConfig(url=URL, url_file=str(tmp_path)))
    with pytest.raises(UsageError, match=r"replay.url_file=.*: cannot be read"):
        with_urls(ReplayConfig(url_file=str(tmp_path)))


SPELLINGS = [f"replay.url={URL}", "replay.url='redis://host/0?password=pw-1'",
             "replay.url='unix:///s?db=0&pass%77ord=pw-1'"]


@pytest.mark.parametrize("word", [*SPELLINGS, "FILE", "ENVIRONMENT"])
def test_no_file_and_no_output_shows_a_password(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [word]
    if word == "FILE":
        words = [f"replay.url_file={private(tmp_path / 'url', URL)}"]
    elif word == "ENVIRONMENT":
        words = []
        monkeypatch.setenv(VARIABLE, URL)
    small = ["game=tic_tac_toe", "run.dir=run", *words]
    for argv in (["local", *small, "--cfg", "job"], ["local", *small, "--info", "config"], ["status", *small],
                 ["local", *small, "--multirun", "--cfg", "job"], ["local", *small, "run.minutes=-1"],
                 ["local", *small, "replay.url=redis://host/0?password=pw-1"],  # without quotes
                 ["local", *small, "replay.urls=redis://u:pw-1@host"], ["replay.url=redis://u:pw-1@host"]):
        main(argv)
    with RunDirectory(compose(small)) as directory:
        assert directory.path.exists()
    with RunDirectory(compose(["config=run/config.yaml", *small])):
        starts = (tmp_path / "run" / "starts.jsonl").read_text().splitlines()
    assert len(starts) == 2
    assert all(json.loads(line)["overrides"] for line in starts)
    output = capsys.readouterr()
    assert "pw-1" not in output.out + output.err
    for file in (tmp_path / "run").rglob("*"):
        assert file.is_dir() or b"pw-1" not in file.read_bytes(), file
    swept = compose_multirun(["game=tic_tac_toe", f"replay.url='{URL}','redis://b'"])
    assert all("pw-1" not in directory for directory in swept)


def compose_multirun(words: list[str]) -> list[str]:
    from shusaku.deploy.cli.overrides import compose_jobs

    return [job.config.run.dir for job in compose_jobs(words)]


@pytest.mark.parametrize("word", [*SPELLINGS, "first.command=engine --password=pw-1"])
def test_a_job_has_no_password_on_its_command_line(
    word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["submit", "--", "train", word]) == 2
    [line] = capsys.readouterr().err.strip().splitlines()
    assert "pw-1" not in line
    assert f"replay.url_file=FILE, or set {VARIABLE}" in line
    monkeypatch.setenv(VARIABLE, URL)
    assert submit._passed_on() == {VARIABLE: URL}
    assert "pw-1" not in submit.entrypoint(["train", "game=tic_tac_toe"], "", is_here=True)
