"""Result lines know where they come from, and the pages are what the results say."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.jsonl"))


@pytest.mark.parametrize("file", RESULTS, ids=lambda file: file.stem)
def test_every_line_knows_machine_commit_date_and_command(file: Path) -> None:
    lines = [json.loads(text) for text in file.read_text(encoding="utf-8").splitlines()]
    assert lines
    for line in lines:
        assert all(line[key] for key in ("machine", "commit", "date")), line
        assert line["command"] or "note" in line, line
        assert line.get("note", "recorded before provenance") == "recorded before provenance"


def run_make_results(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.make_results", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_making_the_results_anew_changes_nothing() -> None:
    done = run_make_results("--check")
    assert done.returncode == 0, done.stdout + done.stderr


def test_check_fails_if_a_page_says_something_else(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib, benchmarks.make_results as made\n"
        "root = pathlib.Path(sys.argv.pop())\n"
        "made.ROOT, made.PAGES = root, ('page.md',)\n"
        "made.main()\n"
    )
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- generated: ablation -->\nold\n<!-- end -->\nbehind\n", encoding="utf-8")
    command = [sys.executable, "-c", script, "--check", str(tmp_path)]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 1
    assert "old" in page.read_text(encoding="utf-8")
    command.remove("--check")
    assert subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("<!-- end -->\nbehind\n")
    assert "| plain |" in text


def test_a_recorded_line_has_its_provenance_and_the_spread_of_its_runs(tmp_path: Path) -> None:
    script = (
        "import sys, benchmarks.lib as lib\n"
        "lib.record(sys.argv[1], 'shusaku bench rules', runs=[{'moves_per_s': value} for value in (3, 1, 2)])\n"
    )
    file = tmp_path / "results.jsonl"
    subprocess.run([sys.executable, "-c", script, str(file)], cwd=ROOT, check=True)
    line = json.loads(file.read_text(encoding="utf-8"))
    assert line["spread"] == {"moves_per_s": [1, 2, 3]}
    assert set(line) == {"command", "machine", "commit", "date", "runs", "spread"}


SCRIPTS = sorted(
    ".".join(file.relative_to(ROOT).with_suffix("").parts)
    for file in (ROOT / "benchmarks").rglob("*.py")
    if "argparse" in file.read_text(encoding="utf-8") and "bitbully" not in file.read_text(encoding="utf-8")
)


@pytest.mark.long
@pytest.mark.parametrize("script", SCRIPTS)
def test_every_script_says_what_it_does(script: str) -> None:
    command = [sys.executable, "-m", script, "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage:")
