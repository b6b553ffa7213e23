"""Games of chess in PGN (the standard of 1994: tag pairs, movetext in SAN, comments, NAGs, variations, results).

One pass without recursion: the time is linear in the text.  The main line is read, variations are counted.  A damaged
game ends where the next one's tags begin.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from shusaku.deploy.records.game_record import MAX_HEADERS, MAX_TEXT, GameRecord, Move, RecordError, Replay
from shusaku.deploy.records.parameters import parse_params, write_params
from shusaku.deploy.records.search_comment import read_comment, write_comment

COLUMNS = 79  # of the movetext
MAX_NESTING = 1024  # of variations
MAX_TOKENS = 400_000  # of one game

_RESULTS = {"1-0": 1, "0-1": -1, "1/2-1/2": 0, "*": None}
_RESULT_TEXTS = {outcome: text for text, outcome in _RESULTS.items()}
_ROSTER = ("Event", "Site", "Date", "Round", "White", "Black", "Result")
_OWN_TAGS = {*_ROSTER, "SetUp", "FEN", "Termination", "ShusakuParams"}
_TERMINATIONS = {"time forfeit": "time", "abandoned": "forfeit", "rules infraction": "illegal_move",
                 "unterminated": "interrupted", "death": "forfeit", "emergency": "interrupted"}
_TERMINATION_TEXTS = {"time": "time forfeit", "timeout": "time forfeit", "forfeit": "abandoned",
                      "crash": "abandoned", "illegal_move": "rules infraction", "garbage": "rules infraction",
                      "refusal": "rules infraction", "interrupted": "unterminated"}
_SUFFIXES = {"!": 1, "?": 2, "!!": 3, "??": 4, "!?": 5, "?!": 6}
_START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"

_TAG = re.compile(r"\[\s*+(\w{1,255})\s*+\"((?:[^\"\\\n]|\\.){0,1000})\"\s*+\]")
_UNESCAPED_TAG = re.compile(r"\[\s*+(\w{1,255})[ \t]*+\"([^\n]{0,2000})\"[ \t]*+\](?=[ \t]*+(?:\n|$))")
_NO_TAG = re.compile(r"\[[^\n]*")
_TOKEN = re.compile(
    r"(?P<space>\s++)|(?P<result>1-0|0-1|1/2-1/2|\*)|(?P<number>\d++(?:\.++|(?![-/\w]))|\.++|…)|(?P<nag>\$\d{1,3}+)"
    r"|(?P<open>\()|(?P<close>\))|(?P<suffix>[!?]{1,2})|(?P<move>[A-Za-z0][^\s(){}\[\];$!?*]{0,15})")
_EMT = re.compile(r"\[%emt (\d{1,4}):(\d\d):(\d\d(?:\.\d{1,3})?)\]\s?")
_LONG = re.compile(r"([KQRBN]?)([a-h][1-8])[-x]?([a-h][1-8])=?([QRBN]?)[+#]*")


@dataclass(slots=True)
class _Text:
    """Where a reader is."""

    text: str
    at: int = 0
    brace: int = -1  # a place of a closing brace: none lies between here and it
    tags: dict[str, str] = field(default_factory=dict)

    def end_of_comment(self) -> int:
        """Of a comment that begins here: its closing brace, or -1 if there is none before the next game's tags."""
        if self.brace < self.at:
            found = self.text.find("}", self.at)
            self.brace = len(self.text) if found < 0 else found
        if self.brace == len(self.text) or self.text.find("\n[Event ", self.at, self.brace) >= 0:
            return -1
        return self.brace

    def end_of_line(self) -> int:
        """The next line end, or the end of the text."""
        found = self.text.find("\n", self.at)
        return len(self.text) if found < 0 else found


def read_games(text: str) -> Iterator[GameRecord | RecordError]:
    """The games of a file, or why one is left out."""
    place = _Text(text.replace("\r\n", "\n").replace("\r", "\n"))
    while True:
        _read_tags(place)
        if place.at >= len(place.text) and not place.tags:
            return
        game = _GameReader(place)
        begin = place.at
        try:
            game.read_movetext()
            if place.tags or game.has_moves or game.error is not None:
                yield game.finish()
        except RecordError as error:
            yield error
        place.tags = {}
        if place.at == begin and place.at < len(place.text) and place.text[place.at] != "[":
            place.at += 1  # a sign that is no part of a game


def write_game(record: GameRecord, *, top: int | None = None) -> str:
    """The game as PGN and an empty line; `top`: so many moves of each search in comments, None: no search.

    RecordError if it is not of chess.
    """
    if record.game != "chess":
        raise RecordError(f"PGN is written of chess, not of {record.game}; JSON lines take every game")
    lines = [f'[{name} "{_escape(value)}"]' for name, value in _tags(record)]
    return "\n".join([*lines, "", *_wrap(_movetext(record, top)), ""]) + "\n"


def _read_tags(place: _Text) -> None:
    """The tag pairs that come next, and what stands before them between two games."""
    text = place.text
    while place.at < len(text):
        sign = text[place.at]
        if sign.isspace():
            place.at += 1
        elif sign in ";%":
            place.at = place.end_of_line()
        elif sign == "[":
            match = _TAG.match(text, place.at) or _UNESCAPED_TAG.match(text, place.at)
            if match and len(place.tags) < 2 * MAX_HEADERS:
                value = re.sub(r"\\(.)", r"\1", match[2]) if match.re is _TAG else match[2]
                place.tags.setdefault(match[1], value)
            match = match or _NO_TAG.match(text, place.at)
            assert match is not None
            place.at = match.end()
        else:
            return


class _GameReader:
    """The movetext of one game."""

    def __init__(self, place: _Text) -> None:
        self.place, self.tags = place, dict(place.tags)
        self.error: RecordError | None = None  # the first one; the rest of the game is passed over
        self.result = ""
        self.comment = ""  # before the first move
        self.depth = self.variations = 0
        self.has_moves = False
        try:
            self.replay = self._begin()
        except RecordError as error:
            self.replay, self.error = Replay("chess", {}), error
        self._position = self.replay.position.copy()  # before the last move

    def _begin(self) -> Replay:
        variant = self.tags.get("Variant", "")
        if variant.lower() not in ("", "standard", "chess", "from position", "normal"):
            raise RecordError(f"the variant {variant!r} is not played here")
        start = " ".join(self.tags.get("FEN", "").split())
        params = {"max_plies": 4096, **parse_params("chess", self.tags.get("ShusakuParams", "").split())}
        return Replay("chess", params, "" if start == _START else start)

    def read_movetext(self) -> None:
        """Up to the result, or to the tags of the next game."""
        place, text = self.place, self.place.text
        for _ in range(MAX_TOKENS):
            if place.at >= len(text) or self._ends_here():
                return
            sign = text[place.at]
            if sign == "{":
                self._read_comment(place.at + 1)
            elif sign == ";" or (sign == "%" and (place.at == 0 or text[place.at - 1] == "\n")):
                end = place.end_of_line()
                if sign == ";":
                    self._add_comment(text[place.at + 1:end])
                place.at = end
            else:
                self._read_token()
            if self.result:
                return
        self._fail(f"more than {MAX_TOKENS:,} signs and moves")
        following = text.find("\n[Event ", place.at)
        place.at = len(text) if following < 0 else following

    def finish(self) -> GameRecord:
        """The record; RecordError if something was wrong."""
        if self.depth:
            self._fail("a variation has no closing bracket")
        if self.error is not None:
            raise self.error
        tags, replay = self.tags, self.replay
        said = tags.get("Result", "").strip()
        result = said if said in _RESULTS and said != "*" else self.result
        outcome = _RESULTS.get(result)
        ended_by = _TERMINATIONS.get(tags.get("Termination", "").strip().lower(), "")
        kept = {"Site", "Round", *(() if ended_by else ("Termination",))}
        if not ended_by and outcome is not None and not replay.position.is_terminal:
            ended_by = "resignation" if outcome else "agreement"
        date = tags.get("Date", tags.get("UTCDate", "")).replace(".", "-").replace("-??", "").replace("????", "")
        return replay.finish(
            outcome=outcome, ended_by=ended_by, players=(_known(tags.get("White", "")), _known(tags.get("Black", ""))),
            date=date[:20], event=_known(tags.get("Event", "")), comment=self.comment, variations=self.variations,
            headers={name: value for name, value in tags.items() if name not in _OWN_TAGS or name in kept
                     if _known(value)})

    def _ends_here(self) -> bool:
        """Whether the tags of another game begin: a result was forgotten."""
        place = self.place
        if place.text[place.at] != "[" or (place.at and place.text[place.at - 1] != "\n"):
            return False
        return _TAG.match(place.text, place.at) is not None

    def _read_comment(self, begin: int) -> None:
        end = self.place.end_of_comment()
        if end < 0:
            self._fail("a comment has no closing brace")
            following = self.place.text.find("\n[Event ", begin)
            self.place.at = len(self.place.text) if following < 0 else following + 1
            return
        self.place.at = end + 1
        self._add_comment(self.place.text[begin:end])

    def _read_token(self) -> None:
        place = self.place
        match = _TOKEN.match(place.text, place.at)
        if match is None:
            self._fail(f"{place.text[place.at:place.at + 20].split()[0]!r} is no part of a game")
            place.at += 1
            return
        place.at, kind, token = match.end(), match.lastgroup, match[0]
        if kind == "open":
            self.depth += 1
            self.variations += 1
            if self.depth > MAX_NESTING:
                self._fail(f"variations nested more than {MAX_NESTING} deep")
        elif kind == "close":
            self.depth = max(0, self.depth - 1)
        elif self.depth == 0 and (self.error is None or kind == "result"):
            self._take(str(kind), token)

    def _take(self, kind: str, token: str) -> None:
        if kind == "result":
            self.result = token
        elif kind == "move" and token not in ("e.p.", "ep", "ep."):
            self._play(token)
        elif kind in ("nag", "suffix"):
            nag = int(token[1:]) if kind == "nag" else _SUFFIXES.get(token, 0)
            if self.replay.moves and 0 < nag < 256:
                self.replay.annotate(nags=(*self.replay.moves[-1].nags, nag)[:8])

    def _play(self, token: str) -> None:
        self.has_moves = True
        match = _LONG.fullmatch(token)
        text = f"{match[1]}{match[2]}{match[3]}{match[4].lower()}" if match else token
        self._position = self.replay.position.copy()
        try:
            self.replay.play(text, token)
        except RecordError as error:
            self.error = error

    def _add_comment(self, text: str) -> None:
        before = self.replay.moves[-1].comment if self.replay.moves else self.comment
        if self.depth or self.error is not None or len(before) >= MAX_TEXT:
            return
        text = " ".join(text.split())[:MAX_TEXT]
        if not self.replay.moves:
            self.comment = f"{before} {text}".strip()[:MAX_TEXT]
            return
        known: dict[str, object] = {}
        if match := _EMT.search(text):
            known["seconds"] = 3600.0 * int(match[1]) + 60.0 * int(match[2]) + float(match[3])
            text = (text[:match.start()] + text[match.end():]).strip()
        known |= read_comment(text, self._position)
        known["comment"] = f"{before} {known['comment']}".strip()[:MAX_TEXT]
        self.replay.annotate(**known)

    def _fail(self, reason: str) -> None:
        self.error = self.error or RecordError(reason, self.replay.ply)


def _known(value: str) -> str:
    """A tag's value; empty if it says that nothing is known."""
    return "" if value in ("?", "-", "????.??.??") else value


def _tags(record: GameRecord) -> Iterator[tuple[str, str]]:
    headers = dict(record.headers)
    date = record.date.replace("-", ".")
    date = f"{date}{'.??' * (2 - date.count('.'))}" if re.fullmatch(r"\d{4}(\.\d\d){0,2}", date) else ""
    yield "Event", record.event or "?"
    yield "Site", headers.pop("Site", "?")
    yield "Date", date or "????.??.??"
    yield "Round", headers.pop("Round", "?")
    yield "White", record.players[0] or "?"
    yield "Black", record.players[1] or "?"
    yield "Result", _RESULT_TEXTS[record.outcome]
    if record.start:
        yield "SetUp", "1"
        yield "FEN", record.first_position().text
    if termination := _TERMINATION_TEXTS.get(record.ended_by, headers.get("Termination", "")):
        yield "Termination", termination
    own = write_params("chess", record.params, {"max_plies": 4096})
    if own:
        yield "ShusakuParams", " ".join(own)
    for name, value in headers.items():
        if name not in _OWN_TAGS and re.fullmatch(r"[A-Z][A-Za-z0-9_]{2,60}", name):
            yield name, value


def _movetext(record: GameRecord, top: int | None) -> Iterator[str]:
    """The words of the movetext."""
    if record.comment:
        yield from _comment_words(record.comment)
    needs_number = True
    for ply, (position, move) in enumerate(record.positions()):
        number = int(position.text.rpartition(" ")[2]) if needs_number and not ply else 0
        if not ply:
            first = 2 * (number - 1) + position.to_play
        if position.to_play == 0:
            yield f"{(first + ply) // 2 + 1}."
        elif needs_number:
            yield f"{(first + ply) // 2 + 1}..."
        yield position.to_san(move.action)
        yield from (f"${nag}" for nag in move.nags)
        comment = _annotated(move) if top is None else write_comment(
            Move(move.action, move.text, _annotated(move), move.value, move.policy), position.to_san, top)
        if comment:
            yield from _comment_words(comment)
        needs_number = bool(comment)
    yield _RESULT_TEXTS[record.outcome]


def _annotated(move: Move) -> str:
    """The comment of a move with the time that it took, as PGN programs write it."""
    if move.seconds is None:
        return move.comment
    minutes, seconds = divmod(round(move.seconds, 3), 60)
    hours, minutes = divmod(int(minutes), 60)
    return f"[%emt {hours}:{minutes:02}:{f'{seconds:06.3f}'.rstrip('0').rstrip('.')}] {move.comment}".strip()


def _comment_words(comment: str) -> Iterator[str]:
    words = comment.replace("}", ")").replace("{", "(").split()
    if words:
        words[0] = "{" + words[0]
        words[-1] += "}"
        yield from words


def _wrap(words: Iterator[str]) -> Iterator[str]:
    """Lines of at most COLUMNS signs, as far as the words allow; none begins with a sign that would hide it."""
    line, unit = "", ""
    for word in [*words, ""]:
        if word and word[0] in "%;[":
            unit = f"{unit} {word}" if unit else word
            continue
        if line and len(line) + 1 + len(unit) > COLUMNS:
            yield line
            line = unit
        else:
            line = f"{line} {unit}".strip()
        unit = word
    yield line


def _escape(value: str) -> str:
    return " ".join(value.split()).replace("\\", "\\\\").replace('"', '\\"')
