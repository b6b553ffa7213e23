"""Games of shogi and minishogi in CSA's standard format (V2.2; of V3.0 the charset and comments for programs).

http://www2.computer-shogi.org/protocol/record_v22.html; minishogi is written alike, with rows of five squares.
"""

import re
from collections.abc import Iterator

from shusaku.deploy.records.game_record import MAX_HEADERS, MAX_TEXT, GameRecord, RecordError, Replay
from shusaku.deploy.records.parameters import parse_params, write_params
from shusaku.deploy.records.search_comment import read_comment, write_comment
from shusaku.deploy.records.shogi_board import (
    HAND_ORDER,
    SET,
    SIZES,
    STARTS,
    ShogiBoard,
    inferred_params,
    kind_of_end,
    read_rows,
    square_of,
    write_sfen,
)

BETWEEN = "/\n"  # two games
MAX_LINES = 100_000  # of one game

PIECES = {"FU": "P", "KY": "L", "KE": "N", "GI": "S", "KI": "G", "KA": "B", "HI": "R", "OU": "K",
          "TO": "+P", "NY": "+L", "NK": "+N", "NG": "+S", "UM": "+B", "RY": "+R"}
NAMES = {piece: name for name, piece in PIECES.items()}
_MOVE = re.compile(r"([+-])(\d)(\d)(\d)(\d)([A-Z]{2})")
_PLACED = re.compile(r"(\d)(\d)([A-Z]{2})")
_CELL = re.compile(r"([+-])([A-Z]{2})| ?\*[ ]?")
_TIME = re.compile(r"T(\d{1,7}(?:\.\d{1,3})?)")
_INFO = re.compile(r"\$([A-Z_+-]{1,40}):(.*)")

# Word -> the outcome for the player to move, and how the game ended; None: the rules or nothing say it.
_ENDS: dict[str, tuple[int | None, str]] = {
    "%TORYO": (-1, "resignation"), "%TIME_UP": (-1, "time"), "%ILLEGAL_MOVE": (-1, "illegal_move"),
    "%TSUMI": (-1, "rules"), "%KACHI": (1, "rules"), "%JISHOGI": (0, "agreement"), "%HIKIWAKE": (0, "agreement"),
    "%MAX_MOVES": (0, "ply_limit"), "%CHUDAN": (None, "interrupted"), "%SENNICHITE": (None, ""),
}
_LOST = {"time": "%TIME_UP", "timeout": "%TIME_UP", "illegal_move": "%ILLEGAL_MOVE", "garbage": "%ILLEGAL_MOVE",
         "refusal": "%ILLEGAL_MOVE"}  # else %TORYO


def read_games(text: str) -> Iterator[GameRecord | RecordError]:
    """The games of a file, which lines of a slash alone separate, or why one is left out."""
    lines: list[str] = []
    for line in [*text.splitlines(), "/"]:
        if line.rstrip() != "/":
            lines.append(line)
            continue
        if any(part.strip() and not part.startswith("'") for part in lines):
            try:
                yield _GameReader(lines).read()
            except RecordError as error:
                yield error
        lines = []


def write_game(record: GameRecord, *, top: int | None = None) -> str:
    """The game as CSA V2.2; `top`: so many moves of each search in comments, None: no search.

    RecordError if it is not of shogi or minishogi.
    """
    if record.game not in SIZES:
        raise RecordError(f"CSA is written of {', '.join(SIZES)}, not of {record.game}; JSON lines take every game")
    sfen = record.first_position().text
    board = ShogiBoard(sfen)
    lines = ["'CSA encoding=UTF-8", "V2.2", *_write_info(record), *_write_start(board, sfen)]
    lines += [f"'*{line}" for line in record.comment.splitlines()]
    for position, move in record.positions():
        square, is_drop = move.text[2:4], move.text[1] == "*"
        origin = "00" if is_drop else _digits(move.text[:2])
        sign = "+-"[board.to_play]
        board.play(move.text)
        lines.append(f"{sign}{origin}{_digits(square)}{NAMES[board.pieces[square].upper()]}")
        if move.seconds is not None:
            lines.append(f"T{move.seconds:g}" if move.seconds % 1 else f"T{move.seconds:.0f}")
        comment = move.comment if top is None else write_comment(move, position.to_move, top)
        lines += [f"'*{line}" for line in comment.splitlines()]
    end = _write_end(record)
    return "\n".join([*lines, *([end] if end else [])]) + "\n"


class _GameReader:
    """Reads the lines of one game."""

    def __init__(self, lines: list[str]) -> None:
        if len(lines) > MAX_LINES:
            raise RecordError(f"more than {MAX_LINES:,} lines")
        self._lines = lines
        self._rows: dict[int, str] = {}
        self._placed: list[tuple[str, str]] = []  # PI, P+, P- and what follows
        self._names = ["", ""]
        self._headers: dict[str, str] = {}
        self._own: list[str] = []  # parameters
        self._comment: list[str] = []
        self._first = ""  # the comment before the first move
        self._illegal: RecordError | None = None  # of a move that no other move follows yet
        self._end = ""
        self._replay: Replay | None = None

    def read(self) -> GameRecord:
        """The record; RecordError with the reason if it is none."""
        for line in self._lines:
            if line.startswith("'"):
                self._read_comment(line)
            elif line.startswith(("N+", "N-")):
                self._names[line[1] == "-"] = line[2:].strip()[:300]
            elif line.startswith("$"):
                if (match := _INFO.match(line)) and len(self._headers) < MAX_HEADERS:
                    self._headers.setdefault(match[1], match[2].strip()[:1000])
            else:
                for statement in line.split(","):
                    self._read_statement(statement.rstrip())
        self._end_comment()
        if self._replay is None:
            raise RecordError("the player to move, + or -, is missing")
        return self._finish(self._replay)

    def _read_statement(self, text: str) -> None:
        replay = self._replay
        if not text or text.startswith(("V", "#", "**")):  # of servers: #RESIGN, ** and an analysis
            return
        if text[0] == "P" and replay is None:
            self._read_placement(text)
        elif text in ("+", "-"):
            if replay is None:
                self._replay = self._begin(int(text == "-"))
        elif text[0] == "%":
            self._end = self._end or text
        elif text[0] == "T" and replay is not None:
            if (match := _TIME.fullmatch(text)) and not self._end and self._illegal is None:
                replay.annotate(seconds=float(match[1]))
        elif text[0] in "+-" and not self._end:
            if replay is None:  # the turn may be left out before moves
                replay = self._replay = self._begin(int(text[0] == "-"))
            self._read_move(replay, text)
        elif not self._end:
            raise RecordError(f"{text[:30]!r} is no statement of CSA", replay.ply if replay else 0)

    def _read_placement(self, text: str) -> None:
        if re.match(r"P[1-9]", text):
            self._rows[int(text[1])] = text[2:]
        elif text[1:2] in ("I", "+", "-"):
            self._placed.append((text[1], text[2:]))
        else:
            raise RecordError(f"{text[:30]!r} is no statement of CSA")

    def _begin(self, to_play: int) -> Replay:
        size = 5 if self._rows and max(self._rows) <= 5 and all(
            len(_cells(row)) == 5 for row in self._rows.values()) else 9
        game = "shogi" if size == 9 else "minishogi"
        pieces: dict[str, str] = {}
        hands: tuple[dict[str, int], dict[str, int]] = ({}, {})
        if not self._rows and not self._placed:
            pieces = read_rows(STARTS[size].split()[0])
        for row, text in self._rows.items():
            cells = _cells(text)
            if len(cells) != size or row > size:
                raise RecordError(f"P{row} has {len(cells)} squares, not {size}")
            pieces.update({square_of(size - column, row): piece for column, piece in enumerate(cells) if piece})
        for kind, text in self._placed:
            if kind == "I":
                pieces = read_rows(STARTS[size].split()[0])
                for file, row, _ in _PLACED.findall(text):
                    pieces.pop(square_of(int(file), int(row)), None)
            else:
                _place(size, pieces, hands, int(kind == "-"), text)
        params = {**inferred_params(game), **parse_params(game, self._own)}
        replay = Replay(game, params, write_sfen(size, pieces, hands, to_play))
        self._board = ShogiBoard(replay.position.text)
        return replay

    def _read_move(self, replay: Replay, text: str) -> None:
        match = _MOVE.fullmatch(text)
        if match is None or match[6] not in PIECES:
            raise RecordError(f"{text[:30]!r} is no move of CSA", replay.ply)
        self._end_comment()
        if replay.position.is_terminal:
            replay.cut += 1
            return
        if self._illegal is not None:
            raise self._illegal
        sign, from_file, from_row, file, row, name = match.groups()
        if int(sign == "-") != replay.position.to_play:
            raise RecordError(f"{text} is not a move of the player to move", replay.ply)
        piece, square = PIECES[name], square_of(int(file), int(row))
        if from_file + from_row == "00":
            usi = f"{piece}*{square}"
        else:
            origin = square_of(int(from_file), int(from_row))
            moved = self._board.pieces.get(origin, "").upper()
            promotes = piece[0] == "+" and moved == piece[1:]
            if moved and moved != piece and not promotes:
                raise RecordError(f"{text}: {NAMES[moved]} stands there, not {name}", replay.ply)
            usi = f"{origin}{square}{'+' if promotes else ''}"
        before = replay.position.copy()
        try:
            replay.play(usi, text)
        except RecordError as error:
            self._illegal = error
            return
        self._before = before
        self._board.play(usi)

    def _read_comment(self, line: str) -> None:
        if line.startswith("'*"):
            self._comment.append(line[2:])
        elif line.startswith("'shusaku:"):
            self._own = line[9:].split()[:32]

    def _end_comment(self) -> None:
        """Gives the comment to the move that it follows."""
        text, self._comment = "\n".join(self._comment).strip("\n")[:MAX_TEXT], []
        if self._replay is None or not self._replay.moves:
            self._first = text or self._first
        elif text and self._illegal is not None:
            before = self._replay.moves[-1].comment
            self._replay.annotate(comment=f"{before}\n{text}".strip("\n")[:MAX_TEXT])
        elif text:
            self._replay.annotate(**read_comment(text, self._before))

    def _finish(self, replay: Replay) -> GameRecord:
        outcome, ended_by = None, ""
        sign = 1 if (replay.position.to_play + replay.cut) % 2 == 0 else -1  # who was to move at the end of the file
        word = self._end.strip()
        if self._illegal is not None and word != f"%{'+-'[replay.position.to_play]}ILLEGAL_ACTION":
            raise self._illegal
        if word in ("%+ILLEGAL_ACTION", "%-ILLEGAL_ACTION"):
            outcome, ended_by = 1 if word[1] == "-" else -1, "illegal_move"
        elif word in _ENDS:
            said, ended_by = _ENDS[word]
            outcome = None if said is None else sign * said
        if word == "%SENNICHITE":
            by_rules = replay.outcome_by_rules
            outcome, ended_by = (0, "agreement") if by_rules is None else (by_rules, "rules")
        headers = self._headers
        date = headers.pop("START_TIME", "").partition(" ")[0].replace("/", "-")[:20]
        return replay.finish(outcome=outcome, ended_by=ended_by, players=(self._names[0], self._names[1]), date=date,
                             event=headers.pop("EVENT", ""), comment=self._first, headers=headers)


def _cells(text: str) -> list[str]:
    """The pieces of a row from left to right; empty: none."""
    cells = []
    for at in range(0, len(text.rstrip()), 3):
        cell = text[at:at + 3].strip()
        match = _CELL.fullmatch(cell)
        piece = PIECES.get(cell[1:]) if match and match[1] else ""
        if match is None or piece is None:
            raise RecordError(f"{cell!r} is no square of CSA")
        cells.append(piece.lower() if match[1] == "-" else piece)
    return cells


def _place(
    size: int, pieces: dict[str, str], hands: tuple[dict[str, int], dict[str, int]], player: int, text: str
) -> None:
    """Puts the pieces of P+ or P- on the board and into the hand; 00AL: all that are left."""
    for file, row, name in _PLACED.findall(text[:1000]):
        square = square_of(int(file), int(row))
        if name == "AL":
            for letter, most in SET[size].items():
                others = sum(piece[-1].upper() == letter for piece in pieces.values())
                hands[player][letter] = most - others - hands[1 - player].get(letter, 0)
        elif name not in PIECES:
            raise RecordError(f"{name} is no piece of CSA")
        elif file + row == "00":
            hands[player][PIECES[name]] = hands[player].get(PIECES[name], 0) + 1
        else:
            pieces[square] = PIECES[name].lower() if player else PIECES[name]


def _digits(square: str) -> str:
    return f"{square[0]}{ord(square[1]) - 96}"


def _write_info(record: GameRecord) -> Iterator[str]:
    for sign, name in zip("+-", record.players, strict=True):
        if name:
            yield f"N{sign}{' '.join(name.split())}"
    if record.event:
        yield f"$EVENT:{' '.join(record.event.split())}"
    if record.date:
        yield f"$START_TIME:{record.date.replace('-', '/')}"
    for key, value in record.headers.items():
        if re.fullmatch("[A-Z_]{2,40}", key):
            yield f"${key}:{' '.join(value.split())}"
    own = write_params(record.game, record.params, inferred_params(record.game))
    if own:
        yield f"'shusaku:{' '.join(own)}"


def _write_start(board: ShogiBoard, sfen: str) -> Iterator[str]:
    if sfen == STARTS[9]:
        yield "PI"
    else:
        for row in range(board.size):
            cells = [f"{'-' if piece.islower() else '+'}{NAMES[piece.upper()]}" if piece else " * "
                     for piece in board.row(row)]
            yield f"P{row + 1}{''.join(cells)}"
        for sign, hand in zip("+-", board.hands, strict=True):
            held = "".join(f"00{NAMES[letter]}" * hand.get(letter, 0) for letter in HAND_ORDER)
            if held:
                yield f"P{sign}{held}"
    yield "+-"[board.to_play]


def _write_end(record: GameRecord) -> str:
    """The last line, from the point of view of the player to move."""
    last = record.last_position()
    if record.outcome is None:
        return "%CHUDAN"
    mine = record.outcome * (1 if last.to_play == 0 else -1)
    kind = kind_of_end(record) if record.ended_by == "rules" else ""
    if kind == "repetition" and (mine == 0 or record.game == "minishogi"):
        return "%SENNICHITE"
    if mine == 0:
        return "%MAX_MOVES" if record.ended_by == "ply_limit" else "%JISHOGI"
    if kind == "mate" or kind == "declaration":
        return "%TSUMI" if mine < 0 else "%KACHI"
    if mine > 0:  # CSA has no other word for a loss of the player who has moved
        return f"%{'-+'[last.to_play]}ILLEGAL_ACTION"
    return "%ILLEGAL_MOVE" if kind == "repetition" else _LOST.get(record.ended_by, "%TORYO")  # by perpetual check
