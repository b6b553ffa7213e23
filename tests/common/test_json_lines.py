"""Files of JSON lines: what a kill or a full disk leaves behind costs no other line."""

from pathlib import Path

import pytest

from shusaku.common.json_lines import append_json_line, heal_json_lines, read_json_lines


@pytest.mark.parametrize("torn", [b'{"b": 2', b"{", b"\x00\x00\x00", b"\xff", "{\"ö".encode()[:-1]])
def test_a_line_behind_a_torn_one_is_whole(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "lines.jsonl"
    append_json_line(path, {"a": 1})
    with path.open("ab") as file:
        file.write(torn)
    append_json_line(path, {"c": 3})
    append_json_line(path, {"d": 4})
    assert list(read_json_lines(path)) == [{"a": 1}, {"c": 3}, {"d": 4}]
    assert heal_json_lines(path) == 1
    assert path.read_bytes() == b'{"a": 1}\n{"c": 3}\n{"d": 4}\n'
    assert (tmp_path / "lines.jsonl.damaged").read_bytes() == torn + b"\n"


def test_what_the_disk_has_cut_leaves_the_lines_before(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    for number in range(3):
        append_json_line(path, {"number": number})
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        before = whole[:size].count(b"\n")
        append_json_line(path, {"number": "new"})
        assert [line["number"] for line in read_json_lines(path)][:before] == list(range(before)), size
        assert [line["number"] for line in read_json_lines(path)][-1] == "new", size
