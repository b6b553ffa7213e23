"""The index of versions: whatever happens to its file, no number is handed out twice."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from shusaku.common._core import Game
from shusaku.common.config.schema import NetworkConfig
from shusaku.common.network.weights import random_weights
from shusaku.learner.version_index import VersionIndex

WEIGHTS = random_weights(Game("tic_tac_toe"), NetworkConfig(4, 1), seed=1, version=1)


def versions_of(directory: Path) -> list[int]:
    return [json.loads(line)["version"] for line in (directory / "versions.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(("before", "after", "damaged", "left"), [
    (b'"version": 5', b'"version": 1', 1, [1, 2, 3, 4]),  # too low: the newest number is not forgotten
    (b'"version": 3', b'"version": 9', 1, [1, 2, 4, 5]),  # too high: the lines behind it are good
    (b'"version": 2', b'"version": \xff', 1, [1, 3, 4, 5]),
    (b'"step": 4', b'"step" 4', 1, [1, 2, 3, 5]),
    (b'"step": 5', b"", 1, [1, 2, 3, 4]),
])
def test_a_damaged_line_is_put_aside_and_its_number_stays_used(
    tmp_path: Path, before: bytes, after: bytes, damaged: int, left: list[int]
) -> None:
    index = VersionIndex(tmp_path)
    for version in range(1, 6):
        index.append(replace(WEIGHTS, version=version, step=version))
    path = tmp_path / "versions.jsonl"
    path.write_bytes(path.read_bytes().replace(before, after, 1))
    again = VersionIndex(tmp_path)
    assert (again.damaged, list(again.steps)) == (damaged, left)
    assert again.newest >= 5
    assert len((tmp_path / "versions.jsonl.damaged").read_bytes().splitlines()) == damaged
    assert VersionIndex(tmp_path).damaged == 0


@pytest.mark.parametrize("content", [b"", b"\0" * 50, b'{"version": 1'])
def test_an_empty_file_gets_the_lines_that_the_checkpoints_know(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "versions.jsonl").write_bytes(content)
    index = VersionIndex(tmp_path)
    assert index.restore([replace(WEIGHTS, version=7), replace(WEIGHTS, version=4)]) == 2
    assert index.newest == 7
    assert versions_of(tmp_path) == [4, 7]
