"""Games of Go, Othello and hex in SGF FF[4] (GM[1], GM[2], GM[11]).

Points are two letters in Go and Othello ("dc": fourth column, third row from the top), letter and number in hex
("d3", https://www.red-bean.com/sgf/hex.html); Othello and hex are read in both forms, as programs write them.
"""

import re
from collections.abc import Iterator

from shusaku.common._core import Game
from shusaku.deploy.records.game_record import MAX_TEXT, GameRecord, Param, RecordError, Replay, find_game
from shusaku.deploy.records.parameters import parse_params, write_params
from shusaku.deploy.records.search_comment import read_comment, write_comment
from shusaku.deploy.records.sgf_tree import Node, Tree, escape, read_trees, simple_text, unescape
from shusaku.deploy.records.stones import EMPTY, start_of, stones_of

NUMBERS = {"go": 1, "othello": 2, "hex": 11}  # GM
GAMES = {number: name for name, number in NUMBERS.items()}
SIZES = {"go": 19, "othello": 8, "hex": 11}  # if there is no SZ
RULES = {"chinese": "Chinese", "tromp_taylor": "Tromp-Taylor"}  # RU
MOVES_A_LINE = 10

# Game information that is kept by its name; the rest of it has fields of its own.
_HEADERS = ("AN", "BR", "BT", "CP", "GC", "GN", "ON", "OT", "PC", "RO", "RU", "SO", "TM", "US", "WR", "WT", "HA")
_SET_UP = ("AB", "AW", "AE")
_PLAYERS = {"B": 0, "W": 1}
_RESULT = re.compile(r"([BW])\s*\+\s*(\d{1,4}(?:[.,]\d{1,4})?(?=1/2|(?![\d/])))?\s*(1/2|½)?\s*(\w*)", re.I)
_KOMI = re.compile(r"[+-]?\d{1,4}(?:[.,]\d{1,4})?")
_ENDINGS = {"r": "resignation", "resign": "resignation", "resigns": "resignation", "resigned": "resignation",
            "resignation": "resignation", "t": "time", "time": "time", "timeout": "time", "f": "forfeit",
            "forfeit": "forfeit"}
_MARKS = {"resignation": "R", "time": "T", "timeout": "T", "forfeit": "F"}


def read_games(text: str) -> Iterator[GameRecord | RecordError]:
    """The games of a collection, or why one is left out."""
    for tree in read_trees(text):
        try:
            yield tree if isinstance(tree, RecordError) else _read_game(tree)
        except RecordError as error:
            yield error


def write_game(record: GameRecord, *, top: int | None = None) -> str:
    """The game as SGF, in UTF-8; `top`: so many moves of each search in comments, None: no search.

    RecordError if SGF has no such game.
    """
    if record.game not in NUMBERS:
        raise RecordError(f"SGF is written of {', '.join(NUMBERS)} here, not of {record.game}; JSON lines take it")
    game = record.rules()
    size = game.observation_shape[1]
    root = [f"(;FF[4]GM[{NUMBERS[record.game]}]CA[UTF-8]AP[Shusaku]SZ[{size}]", *_write_info(record)]
    stones = stones_of(game, record.first_position())
    if record.start or record.params.get("handicap"):
        root.append(_write_set_up(game, stones, record.first_position().to_play))
    if record.comment:
        root.append(f"C[{escape(record.comment)}]")
    lines = ["".join(root)]
    for ply, (position, move) in enumerate(record.positions()):
        if ply % MOVES_A_LINE == 0:
            lines.append("")
        comment = move.comment if top is None else write_comment(move, position.to_move, top)
        point = _write_point(record.game, size, move.action)
        lines[-1] += f";{'BW'[position.to_play]}[{point}]" + (f"C[{escape(comment)}]" if comment else "")
    return "\n".join(lines) + ")\n"


def _read_game(tree: Tree) -> GameRecord:
    info = _game_info(tree.nodes)
    name = GAMES.get(_number(info.get("GM", "1"), "GM"), "")
    if not name:
        raise RecordError(f"GM[{info['GM']}] is not a game that is read here: "
                          f"{', '.join(f'{number} {game}' for number, game in GAMES.items())}")
    size = _read_size(info.get("SZ", str(SIZES[name])))
    players = [_PLAYERS[key] for node in tree.nodes for key in node if key in _PLAYERS]
    replay = _begin(name, size, info, tree.nodes, players[0] if players else None)
    reader = _MoveReader(replay, name, size)
    for node in tree.nodes:
        reader.read_node(node)
    outcome, score, ended_by = _read_result(info.get("RE", ""))
    if outcome is None and reader.loser is not None:
        outcome, ended_by = 2 * reader.loser - 1, "resignation"
    if outcome is None and info.get("RE") and replay.position.is_terminal:
        ended_by = "interrupted"  # Void, ?, or words that are not read: not the result of the rules
    return replay.finish(
        outcome=outcome, score=score, ended_by=ended_by, players=(info.get("PB", ""), info.get("PW", "")),
        date=info.get("DT", "")[:100], event=info.get("EV", ""), variations=tree.variations,
        comment="\n".join(reader.comments),
        headers={key: info[key] for key in _HEADERS if key in info and not _is_inferred(name, key, info, replay)},
        assumed=("komi",) if name == "go" and "KM" not in info else ())


def _is_inferred(name: str, key: str, info: dict[str, str], replay: Replay) -> bool:
    """Whether the writer says this of itself."""
    if key == "HA":
        return bool(replay.game.params.get("handicap"))
    return key == "RU" and name == "go" and info[key] in RULES.values()


def _game_info(nodes: list[Node]) -> dict[str, str]:
    """Properties that hold for the whole game; they may stand in any node of the main line."""
    names = {*_HEADERS, "GM", "SZ", "KM", "RE", "PB", "PW", "DT", "EV"}
    info: dict[str, str] = {}
    for node in nodes:
        for key in names & node.keys():
            info.setdefault(key, simple_text(node[key][0])[:1000])
        if "SHUSAKU" in node:
            info.setdefault("SHUSAKU", "\n".join(simple_text(value) for value in node["SHUSAKU"][:32]))
    return info


def _number(text: str, name: str) -> int:
    if not re.fullmatch(r"\d{1,4}", text.strip()):
        raise RecordError(f"{name}[{text[:20]}] is no number")
    return int(text)


def _read_size(text: str) -> int:
    columns, _, rows = text.partition(":")
    size = _number(columns, "SZ")
    if rows and _number(rows, "SZ") != size:
        raise RecordError(f"SZ[{text}]: the board must be square")
    return size


def _begin(name: str, size: int, info: dict[str, str], nodes: list[Node], first_player: int | None) -> Replay:
    """The game before its first move."""
    params = _infer_params(name, size, info)
    params |= parse_params(name, info.get("SHUSAKU", "").splitlines())
    if params["size"] != size:
        raise RecordError(f"SHUSAKU says size={params['size']}, SZ says {size}")
    game = find_game(name, params)
    stones, to_play = _read_set_up(game, nodes)
    if name == "go" and info.get("HA", "").isdecimal() and 2 <= int(info["HA"][:4]) <= 9:
        try:
            with_handicap = find_game(name, {**params, "handicap": int(info["HA"])})
        except RecordError:  # the board has no such points
            with_handicap = game
        start = with_handicap.start()
        if to_play in (None, start.to_play) and first_player in (None, start.to_play) and stones is not None and (
                stones == stones_of(with_handicap, start)):
            return Replay(name, with_handicap.params)
        to_play = 1 if to_play is None and first_player is None else to_play
    if stones is None and to_play is None and first_player in (None, game.start().to_play):
        return Replay(name, params)
    if to_play is None:
        to_play = first_player or 0
    if name == "hex" and stones is None and to_play == 1:
        raise RecordError("white moves first; black does in hex, from top to bottom")
    return Replay(name, params, start_of(game, stones or stones_of(game, game.start()), to_play))


def _infer_params(name: str, size: int, info: dict[str, str]) -> dict[str, Param]:
    if name != "go":
        return {"size": size}
    params: dict[str, Param] = {"size": size}
    if "KM" in info:
        params["komi"] = _read_komi(info["KM"])
    rules = info.get("RU", "").lower().replace("-", " ").replace("_", " ")
    if rules == "tromp taylor":
        params["rules"] = "tromp_taylor"
    elif rules in ("nz", "new zealand"):
        params |= {"rules": "tromp_taylor", "superko": "situational"}
    elif {"goe", "ing"} & {*rules.split()}:  # suicide of several stones is legal
        params |= {"rules": "tromp_taylor", "superko": "simple"}
    elif rules != "chinese":
        params["superko"] = "simple"  # of Japanese rules, and if nothing is said the one that forbids least
    return params


def _read_komi(text: str) -> float:
    match = _KOMI.match(text.strip())
    if match is None:
        raise RecordError(f"KM[{text[:20]}] is no number")
    komi = float(match[0].replace(",", "."))
    if abs(komi) > 100:  # some servers write hundredths
        komi /= 100
    return komi * 2 if komi * 2 % 1 else komi  # 3.75 stones are 7.5 points


def _read_set_up(game: Game, nodes: list[Node]) -> tuple[list[int] | None, int | None]:
    """The stones before the first move, None: none are set up; and the player to move, None: not said.

    FF[4] forbids stones in the node of a move, but programs write the first move into the root: they come before it.
    """
    name, size = game.name, game.observation_shape[1]
    stones: list[int] | None = None
    to_play: int | None = None
    for node in nodes:
        for key, stone in (("AB", 0), ("AW", 1), ("AE", EMPTY)):
            for value in node.get(key, ()):
                stones = stones or stones_of(game, game.start())
                for cell in _read_cells(name, size, value.strip()):
                    stones[cell] = stone
        if any(key in node for key in _PLAYERS):
            break
        if "PL" in node:
            to_play = _PLAYERS.get(node["PL"][0].strip().upper()[:1], to_play)
    return stones, to_play


def _read_cells(name: str, size: int, text: str) -> Iterator[int]:
    """The cells of a point, or of a rectangle from corner to corner."""
    first, colon, last = text.partition(":")
    corners = [_read_point(name, size, point) for point in ((first, last) if colon else (first,))]
    if min(corners) < 0:
        raise RecordError(f"[{text[:20]}] is no point of a board of {size}")
    (top, left), (bottom, right) = divmod(corners[0], size), divmod(corners[-1], size)
    for row in range(min(top, bottom), max(top, bottom) + 1):
        for column in range(min(left, right), max(left, right) + 1):
            yield row * size + column


def _read_point(name: str, size: int, text: str) -> int:
    """The cell; -1 if the text is none."""
    if name != "go":
        text = text.lower()
    if not 2 <= len(text) <= 3 or not "a" <= text[0] <= "z":
        return -1
    column = ord(text[0]) - ord("a")
    if name != "go" and text[1:].isascii() and text[1:].isdecimal():
        row = int(text[1:]) - 1
    elif len(text) == 2 and "a" <= text[1] <= "z":
        row = ord(text[1]) - ord("a")
    else:
        return -1
    return row * size + column if 0 <= row < size and column < size else -1


def _write_point(name: str, size: int, action: int) -> str:
    if action >= size * size:
        return ""
    column = chr(97 + action % size)
    return f"{column}{action // size + 1}" if name == "hex" else f"{column}{chr(97 + action // size)}"


class _MoveReader:
    """Plays the nodes of the main line."""

    def __init__(self, replay: Replay, name: str, size: int) -> None:
        self.replay, self.name, self.size = replay, name, size
        self.loser: int | None = None  # who resigned
        self.comments: list[str] = []  # before the first move
        self._has_begun = False

    def read_node(self, node: Node) -> None:
        """The moves of a node and its comment; RecordError if one is none, or illegal."""
        replay = self.replay
        comment = unescape(node["C"][0]).strip()[:MAX_TEXT] if "C" in node else ""
        before = replay.position.copy() if comment else replay.position
        if self._has_begun and any(key in node for key in _SET_UP):
            raise RecordError("stones are set up behind moves; only the first position can be set up", replay.ply)
        has_moved = False
        for key in node:
            if key in _PLAYERS:
                self._read_move(_PLAYERS[key], node[key][0].strip())
                has_moved = self._has_begun = True
        if comment and has_moved:
            replay.annotate(**read_comment(comment, before))
        elif comment and not self._has_begun:
            self.comments.append(comment)
        elif comment and replay.moves and len(replay.moves[-1].comment) < MAX_TEXT:
            replay.annotate(comment=f"{replay.moves[-1].comment}\n{comment}".strip()[:MAX_TEXT])

    def _read_move(self, player: int, value: str) -> None:
        replay, word = self.replay, value.lower()
        if self.name == "hex" and word in ("resign", "forfeit"):
            self.loser = player
            return
        if self.name == "hex" and word.startswith("swap"):
            raise RecordError(f"{word}: hex is played without a swap here", replay.ply)
        is_pass = self.name != "hex" and (value == "" or word == "pass" or (word == "tt" and self.size <= 19))
        self._check_turn(player, is_pass)
        action = self.size * self.size if is_pass else _read_point(self.name, self.size, value)
        if action < 0:
            raise RecordError(f"{value[:20]!r} is no point of a board of {self.size}", replay.ply)
        replay.play_action(action, value or "pass")

    def _check_turn(self, player: int, is_pass: bool) -> None:
        replay = self.replay
        if player == replay.position.to_play or replay.position.is_terminal:
            return
        if self.name == "othello" and not is_pass and replay.position.legal_actions == [self.size * self.size]:
            replay.play("pass")  # many programs leave a forced pass out
            return
        colours = ("black", "white") if player == 0 else ("white", "black")
        raise RecordError(f"{colours[0]} moves, but it is the turn of {colours[1]}", replay.ply)


def _read_result(text: str) -> tuple[int | None, float | None, str]:
    """Outcome and score for black, and how the game ended."""
    word = text.strip().lower()
    if word in ("0", "draw", "jigo"):
        return 0, None, "agreement"
    if word == "void":
        return None, None, "interrupted"
    match = _RESULT.match(text.strip())
    if match is None:
        return None, None, ""
    sign = 1 if match[1].upper() == "B" else -1
    points, half, word = match[2], match[3], match[4].lower()
    score = sign * (float((points or "0").replace(",", ".")) + (0.5 if half else 0)) if points or half else None
    return sign, score, _ENDINGS.get(word, "rules" if score is not None else "")


def _write_info(record: GameRecord) -> Iterator[str]:
    params, headers = record.params, dict(record.headers)
    if record.game == "go":
        rules = headers.pop("RU", RULES[str(params["rules"])])
        yield f"KM[{params['komi']:g}]RU[{escape(rules)}]"
        if params["handicap"]:
            headers["HA"] = str(params["handicap"])
        info = {"KM": f"{params['komi']:g}", "RU": rules}
        inferred = {**_infer_params("go", int(params["size"]), info), "handicap": params["handicap"]}
    else:
        inferred = {"size": params["size"]}
    own = write_params(record.game, params, inferred)
    if own:
        yield "SHUSAKU" + "".join(f"[{escape(text)}]" for text in own)
    for name, value in (("PB", record.players[0]), ("PW", record.players[1]), ("DT", record.date),
                        ("EV", record.event), ("RE", _write_result(record))):
        if value:
            yield f"{name}[{escape(' '.join(value.split()))}]"
    for name, value in headers.items():
        if name in _HEADERS:
            yield f"{name}[{escape(' '.join(value.split()))}]"


def _write_result(record: GameRecord) -> str:
    if record.outcome is None:
        return "Void" if record.ended_by == "interrupted" else ""
    if record.outcome == 0:
        return "0"
    winner = "B" if record.outcome > 0 else "W"
    mark = _MARKS.get(record.ended_by, "F" if record.ended_by not in ("", "rules", "ply_limit", "agreement") else "")
    if not mark and record.score is not None and record.score * record.outcome > 0:
        mark = f"{abs(record.score):g}"
    return f"{winner}+{mark}"


def _write_set_up(game: Game, stones: list[int], to_play: int) -> str:
    """AB, AW, AE of what differs from an empty board or is not in Othello's start, and PL."""
    name, size = game.name, game.observation_shape[1]
    usual = stones_of(game, game.start()) if name == "othello" else [EMPTY] * len(stones)
    text = ""
    for key, player in (("AB", 0), ("AW", 1), ("AE", EMPTY)):
        cells = [cell for cell, stone in enumerate(stones) if stone == player and not stone == usual[cell] == EMPTY]
        text += (key if cells else "") + "".join(f"[{_write_point(name, size, cell)}]" for cell in cells)
    return f"{text}PL[{'BW'[to_play]}]"
