"""Repairs what can be repaired without a loss in the append-only files of a server that does not run.

A manifest names the files: a base, which is a snapshot, and increments, which are read after it in their order.  It
follows from the names of the files, so it can be made again.  A newer base that it does not name is of a rewrite that
was about to name it: the server goes by the files before it, and the next rewrite replaces it.  Zeros at the end of an
increment are what a power cut leaves.  An increment that is missing is made again without content: the driver counts
the games that it held.
"""

import re
from pathlib import Path

from shusaku.common.durable_files import write_atomically
from shusaku.common.errors import ResumeError

MANIFEST = "appendonly.aof.manifest"
_FILE = re.compile(r"appendonly\.aof\.(\d+)\.(base|incr)\.(?:rdb|aof)")
_LINE = re.compile(r"file (\S+) seq (\d+) type ([bhi])(?: .*)?")


def heal_append_only_files(folder: Path) -> list[str]:
    """Repairs the files of this folder; a line for each that was not good.

    ResumeError if the manifest is damaged and the files do not tell what it said.
    """
    if not folder.is_dir():
        return []
    notes = [f"{path}: zeros at its end were cut off" for path in folder.glob("*.incr.aof") if _cut_zeros(path)]
    entries = _read_manifest(folder / MANIFEST)
    if entries is None:
        entries = _entries_of(folder)
        if entries:
            _write_manifest(folder, entries)
            notes.append(f"{folder / MANIFEST} was missing or damaged; it is made again from the names of the files")
    for name, _, kind in [entry for entry in entries if not (folder / entry[0]).exists()]:
        if kind == "i":
            (folder / name).touch()
        else:
            entries = [entry for entry in entries if entry[0] != name]
            _write_manifest(folder, entries)
        if kind != "h":
            notes.append(f"{folder / name} was missing")
    return notes


def _cut_zeros(path: Path) -> bool:
    """Whether there were any; a good file ends with the line break of its last command."""
    size = end = path.stat().st_size
    with path.open("rb+") as file:
        while end:
            begin = max(0, end - (1 << 16))
            file.seek(begin)
            kept = len(file.read(end - begin).rstrip(b"\0"))
            end = begin + kept
            if kept:
                break
        if end < size:
            file.truncate(end)
    return end < size


def _read_manifest(path: Path) -> list[tuple[str, int, str]] | None:
    """File, sequence number and type of each line; None if it is missing or damaged."""
    try:
        lines = path.read_bytes().decode().split("\n")
    except (OSError, ValueError):
        return None
    found = [_LINE.fullmatch(line) for line in lines if line]
    entries = [(match[1], int(match[2]), match[3]) for match in found if match]
    names = {name for name, _, _ in entries}
    newest_base = max((number for _, number, kind in entries if kind == "b"), default=1 << 62)
    unnamed = [(number, kind) for name, number, kind in _files(path.parent) if name not in names]
    kinds = [kind for _, _, kind in entries]
    is_whole = len(entries) == len(found) and lines[-1] == "" and kinds.count("b") <= 1 and "i" in kinds
    is_good = is_whole and all(_matches(*entry) for entry in entries)
    return entries if is_good and all(kind == "b" and number > newest_base for number, kind in unnamed) else None


def _matches(name: str, number: int, kind: str) -> bool:
    match = _FILE.fullmatch(name)
    return match is not None and int(match[1]) == number and (kind == "h" or match[2].startswith(kind))


def _entries_of(folder: Path) -> list[tuple[str, int, str]]:
    """What the manifest said; ResumeError if the names of the files do not tell."""
    files = _files(folder)
    bases, increments = ([file for file in files if file[2] == kind] for kind in "bi")
    if len(bases) > 1:
        raise ResumeError(f"{folder / MANIFEST}: the window of the run cannot be read, for this file is missing or "
                          f"damaged, and a rewrite was not finished; put a good copy there, or move {folder.parent} "
                          "away to begin with an empty window")
    return [*bases, *increments]


def _files(folder: Path) -> list[tuple[str, int, str]]:
    matches = [match for path in folder.iterdir() if (match := _FILE.fullmatch(path.name))]
    return sorted(((match[0], int(match[1]), match[2][0]) for match in matches), key=lambda entry: entry[1])


def _write_manifest(folder: Path, entries: list[tuple[str, int, str]]) -> None:
    text = "".join(f"file {name} seq {number} type {kind}\n" for name, number, kind in entries)
    write_atomically(folder / MANIFEST, text.encode())
