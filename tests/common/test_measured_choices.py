"""Answers of measurements that processes share: the first one, the newest ones, damaged files."""

import json
import threading
from pathlib import Path

import pytest

from shusaku.common.measured_choices import MOST_KEPT, MeasuredChoice, find_choice, keep_choice


def choice(name: str) -> MeasuredChoice:
    return MeasuredChoice(name, {"slow": 1.0, "fast": 2.0, name: 3.0}, "2026-11-30", "boards/s")


def test_of_processes_that_measure_at_once_all_take_the_answer_of_the_first(tmp_path: Path) -> None:
    path, begin, answers = tmp_path / "answers.json", threading.Barrier(8), []

    def measure(number: int) -> None:
        begin.wait()
        answers.append(keep_choice(path, "layer", choice(f"way {number}"), replaces=False).name)
        keep_choice(path, f"own {number}", choice("fast"), replaces=False)

    threads = [threading.Thread(target=measure, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = find_choice(path, "layer")
    assert kept is not None
    assert answers == [kept.name] * 8
    assert [file.name for file in tmp_path.iterdir()] == ["answers.json"], "no lock lies in a run's directory"
    assert all(find_choice(path, f"own {number}") for number in range(8)), "nobody's answer is lost"


def test_a_later_answer_replaces_an_earlier_one(tmp_path: Path) -> None:
    path = tmp_path / "answers.json"
    keep_choice(path, "layer", choice("slow"))
    assert keep_choice(path, "layer", choice("fast")) == find_choice(path, "layer") == choice("fast")


def test_the_newest_answers_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "answers.json"
    path.write_text(json.dumps({f"old {number}": {} for number in range(MOST_KEPT)}))
    keep_choice(path, "old 0", choice("fast"))  # is the newest from now on
    for number in range(MOST_KEPT - 1):
        assert find_choice(path, "old 0") is not None, number
        keep_choice(path, f"new {number}", choice("fast"))
    assert len(json.loads(path.read_text())) == MOST_KEPT
    keep_choice(path, "one more", choice("fast"))
    assert find_choice(path, "old 0") is None


@pytest.mark.parametrize("text", [
    "", "[]", "nonsense", '{"layer": 1}',
    '{"layer": {"name": "fast", "rates": ["fast"], "measured_on": "", "unit": ""}}',
    '{"layer": {"name": "other", "rates": {"fast": 1}, "measured_on": "", "unit": ""}}',
    '{"layer": {"name": "fast", "rates": {"fast": "x"}, "measured_on": "", "unit": ""}}',
])
def test_a_damaged_answer_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "answers.json"
    path.write_text(text)
    assert find_choice(path, "layer") is None


def test_without_a_disk_each_has_its_own_answer(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    path = tmp_path / "file" / "answers.json"
    assert keep_choice(path, "layer", choice("fast"), replaces=False) == choice("fast")
    assert find_choice(path, "layer") is None
