"""Every file of a run directory may be missing, empty, cut or spoilt: the run goes on, or says why not.

The directories are made once, by both wirings in this process; a case is a copy of one with one damaged file.
"""

import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from runs_in_process import GAMES, WIRINGS, Cluster, Local, config_of

from shusaku.common.checked_json import read_checked_json
from shusaku.common.errors import ResumeError, UsageError
from shusaku.common.json_lines import read_json_lines
from shusaku.common.messages import Metrics
from shusaku.common.metrics import MetricsSink, read_metrics
from shusaku.common.network.weights import load_weights
from shusaku.deploy.commands.control import status
from shusaku.deploy.run.chosen_weights import find_weights
from shusaku.deploy.run.healing import LOST_SECONDS
from shusaku.deploy.run.run_identity import RunIdentity
from shusaku.learner.checkpoints import load_latest

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
GOLDEN = sorted((FIXTURES / "golden_runs").glob("*.tar.gz"))


def missing(data: bytes) -> bytes | None:
    return None


def flip(data: bytes) -> bytes:
    spoilt = bytearray(data)
    if spoilt:
        spoilt[len(spoilt) // 2] ^= 1
    return bytes(spoilt)


def cut(data: bytes) -> bytes:
    """The first half; never at the end of a line, which nobody could notice."""
    half = len(data) // 2
    return data[: half - 2] if b"\n" in data[half - 1 : half + 1] else data[:half]


def spoil(data: bytes) -> bytes:
    """A byte in the middle that is no UTF-8, and another one than before."""
    half = len(data) // 2
    return data[:half] + (b"\xfe" if data[half : half + 1] == b"\xff" else b"\xff") + data[half + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "missing": missing,
    "empty": lambda data: b"",
    "cut": cut,
    "one bit": flip,
    "one bad byte": spoil,
    "zeros at the end": lambda data: data + b"\0" * 100,
}
QUICK = ("local", "one bad byte")
# What the run itself never reads again, or makes anew at each start: nothing has to be said.
UNREAD = ("lock", "tensorboard", "redis/redis.conf", "redis/password", "redis/socket", "redis/server.log", "redis/lock",
          "control.json")
HOLDING_GAMES = ("records", "redis/appendonlydir")
# A damage that leaves a file which could have been written so.
UNNOTICED = {("starts.jsonl", "cut"), ("starts.jsonl", "one bit"), ("metrics.jsonl", "one bit"),
             ("versions.jsonl", "one bit"), ("redis/appendonlydir/appendonly.aof.1.base.rdb", "empty")}


def make(wiring: str, directory: Path) -> Path:
    """A run of two starts with two checkpoints."""
    for _ in range(2):
        run = WIRINGS[wiring]("connect_four", directory)
        run.play_and_learn(200)
        run.close()
    seconds = json.loads((directory / "progress.json").read_text())["seconds"]
    sink = MetricsSink(directory)
    for share in (0.3, 1.0):
        sink.write(Metrics(8, seconds * share, "replay", {"rows": 1}))
    sink.close()
    return directory


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The run directory of a wiring, made when it is asked for first."""
    made: dict[str, Path] = {}

    def of(wiring: str) -> Path:
        if wiring not in made:
            made[wiring] = make(wiring, tmp_path_factory.mktemp("whole") / wiring)
        return made[wiring]

    return of


def files_of(directory: Path) -> list[str]:
    """Relative paths, of the newest checkpoint only."""
    newest = max((directory / "checkpoints").iterdir()).name
    paths = [path.relative_to(directory) for path in sorted(directory.rglob("*")) if path.is_file()]
    return [str(path) for path in paths if path.parts[0] != "checkpoints" or path.parts[1] == newest]


@pytest.fixture(autouse=True)
def no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking git is a large part of the time that a start takes here."""
    monkeypatch.setattr("shusaku.deploy.run.run_directory._git_revision", str)


def rows_of(run: Local | Cluster) -> int:
    return run.buffer.stats().rows


def open_run(wiring: str, directory: Path) -> tuple[Local | Cluster | None, str]:
    """The run, or why it is refused."""
    try:
        return WIRINGS[wiring]("connect_four", directory), ""
    except (UsageError, ResumeError) as error:
        return None, str(error)


def check_goes_on(wiring: str, directory: Path, file: str, damage: str) -> None:
    """The run goes on from the newest checkpoint that is whole, and a line names the file, or refuses by its name."""
    found = load_latest(directory / "checkpoints")
    assert found is not None
    before = json.loads((directory.parent / "before.json").read_text())
    is_checkpoint = file.startswith("checkpoints")
    assert (found.checkpoint.step == before["step"]) != is_checkpoint
    chosen = find_weights(config_of("evaluate", directory), "checkpoint", str(directory))
    assert chosen.weights.step == found.checkpoint.step
    run, refusal = open_run(wiring, directory)
    if run is None:
        assert Path(file).name in refusal
        assert any(way in refusal for way in ("put a good copy", "move ", "keep what can be read")), refusal
        assert file.startswith(HOLDING_GAMES), refusal
        return
    try:
        assert run.training.learner.step_count == found.checkpoint.step
        rows = rows_of(run)
        if file.startswith(HOLDING_GAMES) and rows < before["rows"]:
            gone = [line for line in run.lines if "not in the record log any more" in line or " has lost " in line]
            assert len(gone) == 1, run.lines
            assert f"{run.lost_games:,}" in gone[0]
            assert 0 < run.lost_games <= before["games"]
        else:
            assert run.lost_games == 0, run.lines
            assert is_checkpoint or rows == before["rows"], run.lines
            name = Path(file).parts[1] if is_checkpoint else Path(file).name
            is_said = any(name in line for line in run.lines)
            is_silent = file.startswith((*UNREAD, *HOLDING_GAMES)) or (file, damage) in UNNOTICED
            if (file, damage) == ("metrics.jsonl", "cut"):  # so does a kill, and it may cost so many seconds
                is_silent = before["seconds"] < LOST_SECONDS
            assert is_said or is_silent, run.lines
        run.play_and_learn(60)
        assert run.training.learner.step_count > found.checkpoint.step
    finally:
        run.close()
    check_is_whole(directory, before)


def check_is_whole(directory: Path, before: dict[str, int]) -> None:
    versions = [line["version"] for line in read_json_lines(directory / "versions.jsonl")]
    assert versions == sorted(set(versions))
    assert versions[-1] > before["version"], "no number is used again"
    assert load_weights(directory / "weights.safetensors").version == versions[-1]
    assert load_weights(directory / "weights_first.safetensors").version <= before["version"]
    keys = json.loads((directory / "progress.json").read_text()).keys() - {"sha256"}
    assert read_checked_json(directory / "progress.json", keys)["seconds"] >= before["seconds"] * 0.9
    assert find_weights(config_of("evaluate", directory), "checkpoint", str(directory)).notes == ()
    if "run_id" in before:
        assert RunIdentity.of(directory).run_id == before["run_id"]


def cases() -> list[object]:
    """Wiring, kind of file, damage; the files are found when the directory is made."""
    return [pytest.param(wiring, damage, marks=[] if (wiring, damage) == QUICK else pytest.mark.faults)
            for wiring in WIRINGS for damage in DAMAGES]


@pytest.mark.parametrize(("wiring", "damage"), cases())
def test_a_damaged_file_is_made_again_or_refused_by_name(
    whole: Callable[[str], Path], tmp_path: Path, one_thread: None, wiring: str, damage: str
) -> None:
    original = whole(wiring)
    found = load_latest(original / "checkpoints")
    assert found is not None
    window = found.checkpoint.facts["replay"]
    before = {"step": found.checkpoint.step, "version": found.checkpoint.facts["version"], "games": window["games"],
              "rows": window["inserted"] - window["deleted"],
              "seconds": json.loads((original / "progress.json").read_text())["seconds"]}
    if wiring == "train":
        before["run_id"] = RunIdentity.of(original).run_id
    (tmp_path / "before.json").write_text(json.dumps(before))
    failures = []
    for file in files_of(original):
        directory = tmp_path / "run"
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(original, directory)
        path = directory / file
        data = DAMAGES[damage](path.read_bytes())
        if data is None:
            path.unlink()
        else:
            path.write_bytes(data)
        try:
            check_goes_on(wiring, directory, file, damage)
        except Exception as error:
            failures.append(f"{file}: {type(error).__name__}: {error}")
    assert failures == [], "\n".join(failures)


@pytest.mark.faults
def test_a_window_of_another_run_is_named(whole: Callable[[str], Path], tmp_path: Path, one_thread: None) -> None:
    original, directory = whole("train"), tmp_path / "run"
    other = make("train", tmp_path / "other")
    shutil.copytree(original, directory)
    shutil.rmtree(directory / "redis" / "appendonlydir")
    shutil.copytree(other / "redis" / "appendonlydir", directory / "redis" / "appendonlydir")
    run, refusal = open_run("train", directory)
    assert run is not None, refusal
    try:
        (line,) = [line for line in run.lines if "has lost the run's games" in line]
        assert f"its files hold the run {RunIdentity.of(other).run_id}" in line
        assert rows_of(run) == 0
        assert f"{run.lost_games:,} of them in the window" in line
        run.play_and_learn(60)
    finally:
        run.close()


@pytest.mark.parametrize("archive", GOLDEN, ids=lambda path: path.name.removesuffix(".tar.gz"))
def test_golden_runs_of_earlier_versions_go_on(archive: Path, tmp_path: Path, one_thread: None) -> None:
    """Resume, evaluate and status, for connect four by `train` and Go 9x9 by `local`."""
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    (directory,) = tmp_path.iterdir()
    expected = json.loads((directory / "expected.json").read_text())
    chosen = find_weights(config_of("evaluate", directory), "checkpoint", str(directory))
    assert (chosen.weights.step, chosen.notes) == (expected["step"], ())
    weights = load_weights(directory / "weights.safetensors")
    assert weights.version == expected["version"]
    assert list(read_metrics(directory / "metrics.jsonl"))
    with pytest.raises(UsageError, match=r"replay server is not running|no process runs it|holds no run of"):
        status(config_of(directory.name, directory), as_json=True)
    run = WIRINGS[expected["wiring"]](directory.name, directory)
    try:
        assert run.training.learner.step_count == expected["step"]
        assert rows_of(run) == expected["rows"]
        assert not [line for line in run.lines if "damaged" in line or "missing" in line or "lost" in line], run.lines
        run.play_and_learn(60)
    finally:
        run.close()
    assert [line["version"] for line in read_json_lines(directory / "versions.jsonl")][-1] > expected["version"]


def test_golden_runs_are_small() -> None:
    assert {path.name.rpartition("-")[0] for path in GOLDEN} == set(GAMES)
    assert sum(path.stat().st_size for path in GOLDEN) <= 300_000
