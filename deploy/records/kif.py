"""Games of shogi and minishogi in KIF, as Kifu for Windows writes them (http://kakinoki.o.oo7.jp/kif_format.html).

Files that end in .kif are in Shift-JIS, those in .kifu in UTF-8; both are read in either.  The main line is read,
variations behind it are counted.  A file may hold several games: the next one begins with its headers.
"""

import re
from collections.abc import Iterator

from shusaku.deploy.records.game_record import MAX_HEADERS, MAX_TEXT, GameRecord, Param, RecordError, Replay
from shusaku.deploy.records.parameters import parse_params, write_params
from shusaku.deploy.records.search_comment import read_comment, write_comment
from shusaku.deploy.records.shogi_board import (
    HAND_ORDER,
    SIZES,
    STARTS,
    ShogiBoard,
    inferred_params,
    kind_of_end,
    read_rows,
    square_of,
    write_sfen,
)

BETWEEN = "\n"
MAX_LINES = 100_000  # of one game

_FILES, _RANKS = "１２３４５６７８９", "一二三四五六七八九"
_COUNTS = ["", "", *"二三四五六七八九", "十", *(f"十{count}" for count in "一二三四五六七八")]  # up to 18
PIECES = {"歩": "P", "香": "L", "桂": "N", "銀": "S", "金": "G", "角": "B", "飛": "R", "玉": "K", "王": "K",
          "と": "+P", "成香": "+L", "杏": "+L", "成桂": "+N", "圭": "+N", "成銀": "+S", "全": "+S",
          "馬": "+B", "龍": "+R", "竜": "+R"}
_NAMES = {"P": "歩", "L": "香", "N": "桂", "S": "銀", "G": "金", "B": "角", "R": "飛", "K": "玉", "+P": "と",
          "+L": "成香", "+N": "成桂", "+S": "成銀", "+B": "馬", "+R": "龍"}
_SIGNS = {**_NAMES, "+L": "杏", "+N": "圭", "+S": "全"}  # one character each, in diagrams

# Handicap -> the squares of the pieces that the second player, who moves first then, gives.
_GIVEN = {
    "香落ち": "1a", "右香落ち": "9a", "角落ち": "2b", "飛車落ち": "8b", "飛香落ち": "8b 1a", "二枚落ち": "8b 2b",
    "三枚落ち": "8b 2b 1a", "四枚落ち": "8b 2b 1a 9a", "五枚落ち": "8b 2b 1a 9a 8a", "左五枚落ち": "8b 2b 1a 9a 2a",
    "六枚落ち": "8b 2b 1a 9a 2a 8a", "左七枚落ち": "8b 2b 1a 9a 2a 8a 3a", "右七枚落ち": "8b 2b 1a 9a 2a 8a 7a",
    "八枚落ち": "8b 2b 1a 9a 2a 8a 3a 7a", "十枚落ち": "8b 2b 1a 9a 2a 8a 3a 7a 4a 6a",
}
_MINISHOGI = ("5五将棋", "５五将棋")

# Word -> the outcome for the player to move, and how the game ended; None: the rules or nothing say it.
_ENDS: dict[str, tuple[int | None, str]] = {
    "投了": (-1, "resignation"), "切れ負け": (-1, "time"), "時間切れ": (-1, "time"), "反則負け": (-1, "illegal_move"),
    "詰み": (-1, "rules"), "不戦敗": (-1, "forfeit"), "不戦勝": (1, "forfeit"), "反則勝ち": (1, "illegal_move"),
    "入玉勝ち": (1, "rules"), "入玉宣言": (1, "rules"), "宣言勝ち": (1, "rules"),
    "持将棋": (0, "agreement"), "引き分け": (0, "agreement"), "最大手数": (0, "ply_limit"),  # as %MAX_MOVES of CSA
    "中断": (None, "interrupted"), "不詰": (None, "interrupted"), "千日手": (None, ""), "封じ手": (None, ""),
}
_LOST = {"resignation": "投了", "time": "切れ負け", "timeout": "切れ負け", "forfeit": "不戦敗"}
# What a line まで…手で…により…の勝ち gives as the reason -> how the game ended.
_REASONS = {"時間切れ": "time", "切れ負け": "time", "反則": "illegal_move", "不戦": "forfeit"}

_MOVE = re.compile(
    r"\s*+(\d{1,5})\s++(?:([１-９1-9])([一二三四五六七八九1-9])|同)\s*+"
    r"(成香|成桂|成銀|[歩香桂銀金角飛玉王と杏圭全馬龍竜])(打|成|不成)?(?:\((\d)(\d)\))?\s*+(.*)")
_END = re.compile(rf"\s*+\d{{1,5}}\s++({'|'.join(_ENDS)})")
_OTHER_END = re.compile(  # a word that is not known and looks like no move
    r"\s*+\d{1,5}\s++((?![同一二三四五六七八九])[^\x00-\x7f\d\s]{1,12}+)\s*+(?:\(.*)?$")
_TIME = re.compile(r"\(\s*+(?:(\d{1,3}):)?(\d{1,4}):(\d{1,2}(?:\.\d{1,3})?)\s*+/")
_HEADER = re.compile(r"(?:([^\x00-\x7f\s：|][^\x00-\x20：:|(]{0,30}):|([^：\s|*#&][^：|]{0,30})：)(.*)")
_RESULT = re.compile(rf"まで[、\s]*+\d*+[手で、\s]*+(?:({'|'.join(_REASONS)})(?:により|で)[、\s]*+)?"
                     r"(先手|後手|下手|上手|千日手|持将棋|中断)(?:の)?(反則負け|反則勝ち|勝ち|入玉勝ち)?")
_KEPT = re.compile(r"(?!まで|変化|手数)[^\x00-\x7f\s：][^\x00-\x20：:|*\s]{0,20}(?<!の持駒)")  # headers
_NUMBER = re.compile(r"手数[＝=](\d{1,4})")
_PLAYERS = {"先手": 0, "下手": 0, "後手": 1, "上手": 1}
_FIRST = ("開始日時", "終了日時", "手合割", "先手", "後手", "下手", "上手", "棋戦", "後手の持駒", "上手の持駒")
_BEGINS = ("# ----", "#KIF", "Shusaku：", *(f"{key}{colon}" for key in _FIRST for colon in "：:"))


def read_games(text: str) -> Iterator[GameRecord | RecordError]:
    """The games of a text, or why one is left out."""
    lines: list[str] = []
    has_moves = False
    for line in text.splitlines():
        if has_moves and line.startswith(_BEGINS):
            yield _read(lines)
            lines, has_moves = [], False
        has_moves = has_moves or line.startswith("まで") or bool(_MOVE.match(line) or _end_word(line))
        lines.append(line)
    if any(line.strip() and line[0] not in "#" for line in lines):
        yield _read(lines)


def write_game(record: GameRecord, *, top: int | None = None) -> str:
    """The game as KIF; `top`: so many moves of each search in comments, None: no search.

    RecordError if it is not of shogi or minishogi.
    """
    if record.game not in SIZES:
        raise RecordError(f"KIF is written of {', '.join(SIZES)}, not of {record.game}; JSON lines take every game")
    sfen = record.first_position().text
    board = ShogiBoard(sfen)
    lines = ["# ---- Shusaku ----", *_write_headers(record, sfen), *_write_start(board, sfen)]
    lines += [*_starred(record.comment), "手数----指手---------消費時間--"]
    first = int(sfen.rpartition(" ")[2])
    totals, last_square = [0.0, 0.0], ""
    for ply, (position, move) in enumerate(record.positions()):
        text, player = _write_move(board, move.text, last_square), board.to_play
        board.play(move.text)
        last_square = move.text[2:4]
        clock = ""
        if move.seconds is not None:
            totals[player] += move.seconds
            clock = _write_time(move.seconds, totals[player])
        lines.append(f"{first + ply:4} {text}{clock}")
        lines += _starred(move.comment if top is None else write_comment(move, position.to_move, top))
    word, result = _write_end(record)
    if word:
        lines.append(f"{first + len(record):4} {word}")
    if result:
        lines.append(f"まで{len(record)}手で{result}")
    return "\n".join(lines) + "\n"


def _read(lines: list[str]) -> GameRecord | RecordError:
    try:
        if len(lines) > MAX_LINES:
            raise RecordError(f"more than {MAX_LINES:,} lines")
        return _GameReader().read(lines)
    except RecordError as error:
        return error


class _GameReader:
    """Reads the lines of one game."""

    def __init__(self) -> None:
        self._headers: dict[str, str] = {}
        self._rows: list[str] = []
        self._turn: int | None = None
        self._number = 1
        self._comment: list[str] = []
        self._first = ""
        self._replay: Replay | None = None
        self._last_square = ""
        self._illegal: RecordError | None = None  # of a move that no other move follows yet
        self._end = ""
        self._result: tuple[str, str, str] | None = None  # reason, player or word, and how
        self._variations = 0

    def read(self, lines: list[str]) -> GameRecord:
        """The record; RecordError with the reason if it is none."""
        for line in lines:
            line = line.rstrip()
            if not line or line[0] in "#&":
                continue
            if line.startswith("変化"):
                self._variations += 1
            elif self._variations:
                continue
            elif line[0] == "*":
                self._comment.append(line[1:])
            elif self._replay is None and self._read_head(line):
                continue
            else:
                self._read_line(line)
        self._end_comment()
        if self._replay is None:
            self._replay = self._begin()
        return self._finish(self._replay)

    def _read_head(self, line: str) -> bool:
        """Whether the line says something of the start."""
        if line[0] == "|":
            self._rows.append(line)
        elif line in ("先手番", "下手番", "後手番", "上手番"):
            self._turn = _PLAYERS[line[:2]]
        elif match := _NUMBER.match(line):
            self._number = int(match[1]) + 1
        elif match := _HEADER.match(line):
            if len(self._headers) < MAX_HEADERS:
                self._headers.setdefault((match[1] or match[2]).strip(), match[3].strip()[:1000])
        else:
            return line.startswith(("+--", "手数--", "  ９", "  9", "  ５", "  5"))
        return True

    def _read_line(self, line: str) -> None:
        if match := _RESULT.match(line):
            self._end_comment()
            self._result = self._result or (match[1] or "", match[2], match[3] or "")
            return
        move = _MOVE.match(line)
        if self._end or self._result:
            if move and self._replay and self._end not in ("", *_ENDS):
                raise RecordError(f"{self._end!r} is no move of KIF, and moves follow it", self._replay.ply)
            return
        if self._replay is None:
            self._replay = self._begin()
        if end := _end_word(line):
            self._end_comment()
            self._end = end
        elif move:
            self._read_move(self._replay, move)
        elif not line.startswith(("手数", "+--")) and not _HEADER.match(line):
            raise RecordError(f"{line.strip()[:30]!r} is no line of KIF", self._replay.ply)

    def _begin(self) -> Replay:
        headers = self._headers
        handicap = headers.get("手合割", "").strip("　 ")
        game = "minishogi" if handicap in _MINISHOGI or len(self._rows) == 5 else "shogi"
        size = SIZES[game]
        params: dict[str, Param] = inferred_params(game)
        params |= parse_params(game, headers.pop("Shusaku", "").split())
        if self._rows:
            start = self._read_diagram(size)
        elif handicap in _GIVEN:
            pieces = read_rows(STARTS[9].split()[0])
            for square in _GIVEN[handicap].split():
                del pieces[square]
            start = write_sfen(9, pieces, ({}, {}), 1)
        elif handicap in ("", "平手", *_MINISHOGI):
            start = ""
        else:
            raise RecordError(f"手合割：{handicap[:20]}: the position is not given")
        headers.pop("手合割", None)
        replay = Replay(game, params, start)
        self._board = ShogiBoard(replay.position.text)
        return replay

    def _read_diagram(self, size: int) -> str:
        """SFEN of the board between bars and the hands in the headers."""
        pieces: dict[str, str] = {}
        if len(self._rows) != size:
            raise RecordError(f"the diagram has {len(self._rows)} rows, not {size}")
        for row, line in enumerate(self._rows, start=1):
            cells = line[1:].partition("|")[0]
            if len(cells) != 2 * size:
                raise RecordError(f"row {row} of the diagram has {len(cells) / 2:g} squares, not {size}")
            for column in range(size):
                mark, sign = cells[2 * column], cells[2 * column + 1]
                if sign in PIECES:
                    letter = PIECES[sign]
                    pieces[square_of(size - column, row)] = letter.lower() if mark in "vV" else letter
                elif sign not in "・ 　.":
                    raise RecordError(f"{sign!r} is no piece of the diagram")
        hands: tuple[dict[str, int], dict[str, int]] = ({}, {})
        is_handicap = False
        for key, player in _PLAYERS.items():
            is_handicap = is_handicap or (key == "上手" and f"{key}の持駒" in self._headers)
            hands[player].update(_read_hand(self._headers.pop(f"{key}の持駒", "")))
        turn = self._turn if self._turn is not None else int(is_handicap)
        return write_sfen(size, pieces, hands, turn, self._number)

    def _read_move(self, replay: Replay, match: re.Match[str]) -> None:
        self._end_comment()
        if replay.position.is_terminal:
            replay.cut += 1
            return
        if self._illegal is not None:
            raise self._illegal
        _, file, rank, name, way, from_file, from_row, rest = match.groups()
        shown = match[0].partition("(")[0].split(maxsplit=1)[1].strip()
        square = square_of(_digit(file), _digit(rank)) if file else self._last_square
        if not square:
            raise RecordError("同 without a move before", replay.ply)
        if way == "打" or (from_file, from_row) == ("0", "0"):
            usi = f"{PIECES[name]}*{square}"
        elif from_file is None:
            raise RecordError(f"{shown!r} does not say where the piece comes from", replay.ply)
        else:
            origin = square_of(int(from_file), int(from_row))
            moved = self._board.pieces.get(origin, "").upper()
            if moved and moved != PIECES[name]:
                raise RecordError(f"{shown!r}: on {from_file}{from_row} stands {_NAMES[moved]}", replay.ply)
            usi = f"{origin}{square}{'+' if way == '成' else ''}"
        before = replay.position.copy()
        try:
            replay.play(usi, shown)
        except RecordError as error:
            self._illegal = error
            return
        self._before = before
        self._board.play(usi)
        self._last_square = square
        if time := _TIME.match(rest):
            replay.annotate(seconds=3600.0 * int(time[1] or 0) + 60.0 * int(time[2]) + float(time[3]))

    def _end_comment(self) -> None:
        """Gives the comment to the move that it follows."""
        text, self._comment = "\n".join(self._comment).strip("\n")[:MAX_TEXT], []
        replay = self._replay
        if replay is None or not replay.moves:
            if text and len(self._first) < MAX_TEXT:
                self._first = f"{self._first}\n{text}".strip("\n")[:MAX_TEXT]
        elif text and (self._end or self._result or self._illegal):  # behind the moves
            replay.annotate(comment=f"{replay.moves[-1].comment}\n{text}".strip("\n")[:MAX_TEXT])
        elif text:
            replay.annotate(**read_comment(text, self._before))

    def _finish(self, replay: Replay) -> GameRecord:
        headers = self._headers
        names = ["", ""]
        for key, player in _PLAYERS.items():
            names[player] = headers.pop(key, "").strip("　 ") or names[player]
        outcome, ended_by = self._read_end(replay)
        if self._illegal and (ended_by != "illegal_move" or outcome != 2 * replay.position.to_play - 1):
            raise self._illegal
        date = headers.pop("開始日時", "") or headers.pop("対局日", "")
        return replay.finish(
            outcome=outcome, ended_by=ended_by, players=(names[0], names[1]), event=headers.pop("棋戦", ""),
            date=re.split(r"[\s(（]", date)[0].replace("/", "-")[:20], comment=self._first, headers=headers,
            variations=self._variations)

    def _read_end(self, replay: Replay) -> tuple[int | None, str]:
        reason, side, how = self._result or ("", "", "")
        if self._end in _ENDS and self._end != "千日手":
            said, ended_by = _ENDS[self._end]
            left_out = replay.cut + (self._illegal is not None)
            sign = 1 if (replay.position.to_play + left_out) % 2 == 0 else -1
            return None if said is None else sign * said, ended_by
        if side in _PLAYERS:
            outcome = (1 if _PLAYERS[side] == 0 else -1) * (-1 if how == "反則負け" else 1)
            return outcome, "illegal_move" if how.startswith("反則") else _REASONS.get(reason, "")
        if "千日手" in (self._end, side):
            by_rules = replay.outcome_by_rules
            return (0, "agreement") if by_rules is None else (by_rules, "rules")
        return (0, "agreement") if side == "持将棋" else (None, "interrupted" if side == "中断" else "")


def _end_word(line: str) -> str:
    """The word of a line that ends the moves, which need not be a known one; empty if it is no such line."""
    if line.startswith("まで"):
        return "まで"
    match = _END.match(line) or _OTHER_END.match(line)
    return match[1] if match else ""


def _digit(sign: str) -> int:
    for signs in (_FILES, _RANKS):
        if sign in signs:
            return signs.index(sign) + 1
    return int(sign)


def _read_hand(text: str) -> dict[str, int]:
    hand: dict[str, int] = {}
    for word in text.split()[:20]:
        if word == "なし":
            continue
        letter = PIECES.get(word[0], "")
        if len(letter) != 1 or letter == "K" or word[1:] not in _COUNTS:
            raise RecordError(f"{word[:10]!r} is no piece in hand")
        hand[letter] = _COUNTS.index(word[1:]) if word[1:] else 1
    return hand


def _starred(comment: str) -> list[str]:
    return [f"*{line}" for line in comment.splitlines()]


def _write_headers(record: GameRecord, sfen: str) -> Iterator[str]:
    if record.date:
        yield f"開始日時：{record.date.replace('-', '/')}"
    if record.event:
        yield f"棋戦：{' '.join(record.event.split())}"
    own = write_params(record.game, record.params, inferred_params(record.game))
    if own:
        yield f"Shusaku：{' '.join(own)}"
    for key, value in record.headers.items():
        if _KEPT.fullmatch(key) and f"{key}：" not in _BEGINS:
            yield f"{key}：{' '.join(value.split())}"
    names = ("下手", "上手") if _handicap(sfen) else ("先手", "後手")
    for key, name in zip(names, record.players, strict=True):
        yield f"{key}：{' '.join(name.split())}"


def _handicap(sfen: str) -> str:
    """The name of a handicap; empty if the position is none."""
    start = read_rows(STARTS[9].split()[0])
    for name, squares in _GIVEN.items():
        pieces = {square: piece for square, piece in start.items() if square not in squares.split()}
        if sfen == write_sfen(9, pieces, ({}, {}), 1):
            return name
    return ""


def _write_start(board: ShogiBoard, sfen: str) -> Iterator[str]:
    handicap = "平手" if sfen == STARTS[9] else "５五将棋" if sfen == STARTS[5] else _handicap(sfen)
    if handicap:
        yield f"手合割：{handicap}"
        return
    yield "手合割：その他" if board.size == 9 else "手合割：５五将棋"
    yield f"後手の持駒：{_write_hand(board.hands[1])}"
    yield "  " + " ".join(reversed(_FILES[:board.size]))
    edge = f"+{'-' * 3 * board.size}+"
    yield edge
    for row in range(board.size):
        cells = [f"{'v' if piece.islower() else ' '}{_SIGNS[piece.upper()]}" if piece else " ・"
                 for piece in board.row(row)]
        yield f"|{''.join(cells)}|{_RANKS[row]}"
    yield edge
    yield f"先手の持駒：{_write_hand(board.hands[0])}"
    yield "先手番" if board.to_play == 0 else "後手番"
    number = int(sfen.rpartition(" ")[2])
    if number > 1:
        yield f"手数＝{number - 1}"


def _write_hand(hand: dict[str, int]) -> str:
    held = [f"{_NAMES[letter]}{_COUNTS[hand[letter]]}" for letter in HAND_ORDER if hand.get(letter)]
    return "　".join(held) or "なし"


def _write_move(board: ShogiBoard, usi: str, last_square: str) -> str:
    square = usi[2:4]
    where = "同　" if square == last_square else f"{_FILES[int(square[0]) - 1]}{_RANKS[ord(square[1]) - 97]}"
    if usi[1] == "*":
        return f"{where}{_NAMES[usi[0]]}打"
    piece = _NAMES[board.pieces[usi[:2]].upper()]
    return f"{where}{piece}{'成' if usi[4:] else ''}({usi[0]}{ord(usi[1]) - 96})"


def _write_time(seconds: float, total: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, left = divmod(int(total), 3600)
    return f"   ({minutes:2}:{rest:02}/{hours:02}:{left // 60:02}:{left % 60:02})"


def _write_end(record: GameRecord) -> tuple[str, str]:
    """The last move line, from the point of view of the player to move, and who has won."""
    if record.outcome is None:
        return "中断", ""
    mine = record.outcome * (1 if record.last_position().to_play == 0 else -1)
    kind = kind_of_end(record) if record.ended_by == "rules" else ""
    if kind == "repetition" and (mine == 0 or record.game == "minishogi"):
        word = "千日手"
    elif mine == 0:
        word = "持将棋"
    elif kind in ("mate", "declaration"):
        word = "詰み" if mine < 0 else "入玉勝ち"
    elif record.ended_by:
        won = "不戦勝" if record.ended_by == "forfeit" else "反則勝ち"
        word = _LOST.get(record.ended_by, "反則負け") if mine < 0 else won
    else:
        word = ""
    return word, word if mine == 0 else "先手の勝ち" if record.outcome > 0 else "後手の勝ち"
