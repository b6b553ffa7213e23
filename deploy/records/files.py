"""Files of games: the notation by the ending of the name, the charset by the notation, rejects by number."""

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from shusaku.common.errors import UsageError
from shusaku.common.suggestions import nearest
from shusaku.deploy.records import csa, json_lines, kif, pgn, sgf
from shusaku.deploy.records.game_record import GameRecord, RecordError, Reject
from shusaku.deploy.records.shogi_board import SIZES

MAX_FILE = 1 << 30  # bytes of a file that is read


@dataclass(frozen=True)
class Notation:
    """A way to write games."""

    name: str
    games: tuple[str, ...]  # that it can hold; empty: all
    read: Callable[[str], Iterator[GameRecord | RecordError]]
    write: Callable[..., str]  # (record, top=)
    charset: str = "utf-8"  # in which it is written
    between: str = ""  # stands between two games of a file


_ALL = {
    "sgf": Notation("sgf", tuple(sgf.NUMBERS), sgf.read_games, sgf.write_game),
    "pgn": Notation("pgn", ("chess",), pgn.read_games, pgn.write_game),
    "kif": Notation("kif", tuple(SIZES), kif.read_games, kif.write_game, "cp932", kif.BETWEEN),
    "kifu": Notation("kifu", tuple(SIZES), kif.read_games, kif.write_game, between=kif.BETWEEN),
    "csa": Notation("csa", tuple(SIZES), csa.read_games, csa.write_game, between=csa.BETWEEN),
    "jsonl": Notation("jsonl", (), json_lines.read_games, json_lines.write_game),
}
ENDINGS = {**{f".{name}": name for name in _ALL}, ".json": "jsonl"}  # of file names

# Charsets that a file may name or that are tried; others could be no text at all.
CHARSETS = frozenset({
    "utf-8", "iso8859-1", "iso8859-2", "iso8859-15", "cp1250", "cp1251", "cp1252", "koi8-r", "cp932", "euc_jp",
    "iso2022_jp", "gb18030", "cp950", "cp949",
})
# Each with the signs that programs write under its name (https://encoding.spec.whatwg.org, table of labels).
_LARGER = {"shift_jis": "cp932", "gb2312": "gb18030", "gbk": "gb18030", "big5": "cp950", "euc_kr": "cp949"}
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_TOLD = re.compile(rb"CA\s*\[\s*([\w-]{2,20})\s*\]|encoding\s*=\s*([\w-]{2,20})", re.I)  # SGF; KIF and CSA 3.0
_NAMES_CHARSET = ("sgf", "kif", "kifu", "csa")
_USUAL = {"sgf": "iso8859-1", "kif": "cp932", "kifu": "cp932", "csa": "cp932"}  # if it is not UTF-8; else cp1252


@dataclass
class Games:
    """What a file holds."""

    records: list[GameRecord] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)


def notation_of(name: str, game: str = "") -> Notation:
    """By the ending of a file's name; UsageError if there is none of that ending, or if it does not hold the game."""
    ending = Path(name).suffix.lower()
    if ending not in ENDINGS:
        raise UsageError(f"{name}: the ending {ending or '(none)'} is no notation; there are {', '.join(ENDINGS)}"
                         + (f"; nearest: {nearest(ending, ENDINGS)}" if ending else ""))
    notation = _ALL[ENDINGS[ending]]
    if game and notation.games and game not in notation.games:
        fitting = [one for one, known in ENDINGS.items() if not _ALL[known].games or game in _ALL[known].games]
        raise UsageError(f"{name}: {notation.name} holds {', '.join(notation.games)}, not {game}; "
                         f"{game} can be written with the ending {' or '.join(fitting)}")
    return notation


def read_records(source: Path | str | bytes, name: str = "", *, limit: int | None = None) -> Games:
    """The games of a file, or of a text or bytes whose notation the ending of `name` says.

    UsageError if the file cannot be read at all; a single bad game is a reject.
    """
    games = Games()
    for item in iterate_records(source, name):
        if isinstance(item, Reject):
            games.rejects.append(item)
        else:
            games.records.append(item)
        if limit is not None and len(games.records) >= limit:
            break
    return games


def iterate_records(source: Path | str | bytes, name: str = "") -> Iterator[GameRecord | Reject]:
    """The same, one game after the other."""
    name = name or str(source if isinstance(source, Path) else "")
    notation = notation_of(name)
    if isinstance(source, Path):
        source = _read_file(source)
    text = decode(source, notation.name) if isinstance(source, bytes) else source.removeprefix("\ufeff")
    for number, item in enumerate(notation.read(text), start=1):
        yield Reject(name, number, item.ply, str(item)) if isinstance(item, RecordError) else item


def write_records(
    records: Iterable[GameRecord], name: str, *, comments: bool = False, top: int = 5
) -> str:
    """The games as one text in the notation of `name`'s ending; RecordError if it cannot hold one of them.

    `comments`: with the value and the `top` largest shares of each search.
    """
    notation = notation_of(name)
    return notation.between.join(notation.write(record, top=top if comments else None) for record in records)


class RecordWriter:
    """Writes games into a file, one after the other as they come."""

    def __init__(self, path: Path, game: str, *, comments: bool = False, top: int = 5) -> None:
        """UsageError if the file cannot be written, or if its notation has no such game."""
        self.notation = notation_of(path.name, game)
        self._top = top if comments else None
        try:
            self._file = path.open("w", encoding=self.notation.charset, errors="replace", buffering=1, newline="\n")
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}; name a file that can be written") from None
        self.written = 0

    def write(self, record: GameRecord) -> None:
        """Adds a game; RecordError, and nothing is written, if the notation cannot hold it."""
        text = self.notation.write(record, top=self._top)
        self._file.write((self.notation.between if self.written else "") + text)
        self.written += 1

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.close()


def decode(data: bytes, notation: str) -> str:
    """The text of a file: by its mark, by the charset that it names, or by what is usual.

    If it is damaged in each of them, in the one that loses the fewest characters.
    """
    for mark, charset in _MARKS:
        if data.startswith(mark):
            return data.decode(charset, errors="replace").removeprefix("\ufeff")
    told = _TOLD.search(data[:4096]) if notation in _NAMES_CHARSET else None
    known, usual = _charset((told[1] or told[2]).decode()) if told else "", _USUAL.get(notation, "cp1252")
    tried = [known, "utf-8"] if known else ["utf-8"]
    if not known or usual != "iso8859-1":  # which takes every byte, and parts of other charsets' signs for brackets
        tried.append(usual)
    for charset in tried:
        try:
            return data.decode(charset)
        except UnicodeDecodeError:
            continue
    return min((data.decode(charset, errors="replace") for charset in tried), key=lambda text: text.count("\ufffd"))


def _charset(name: str) -> str:
    """The codec of a charset that a file names; empty if it is none that is read."""
    try:
        found = codecs.lookup(name).name
    except LookupError:
        return ""
    found = _LARGER.get(found, found)
    return found if found in CHARSETS else ""


def _read_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE + 1)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; name a file of games") from None
    if len(data) > MAX_FILE:
        raise UsageError(f"{path}: has more than {MAX_FILE >> 20:,} MiB; split it")
    return data
