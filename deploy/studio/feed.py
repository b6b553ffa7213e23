"""The games of a run as they end: from its record log, or from its replay server while `shusaku train` runs."""

import time
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from shusaku.common._core import Game, Position
from shusaku.common.codec import CodecError, decode_record
from shusaku.common.messages import GameRecord, RowKind
from shusaku.deploy.run.run_identity import RunIdentity
from shusaku.deploy.studio.boards import describe_game, describe_position, players
from shusaku.replay.record_log import RecordTail
from shusaku.replay.stream.client import ReplayUnavailable
from shusaku.replay.stream.server import server_url
from shusaku.replay.stream.viewer import StreamViewer

KEPT_GAMES = 500
KEPT_PLIES = 50_000  # more games are kept until they have so many: short ones end by the hundred each second
OPENED_GAMES = 8  # whose positions are remembered, also after the game has left the list
RETRY_SECONDS = 3.0


class Source(Protocol):
    """Where games come from."""

    def read(self) -> Iterator[bytes]:
        """The encoded records since the last call."""


@dataclass(frozen=True)
class Filters:
    """Which games are listed."""

    winner: str = ""  # first | second | draw; empty: any
    ended_by: str = ""  # rules | resignation | ply_limit; empty: any
    least_plies: int = 0
    most_plies: int = 1 << 16
    least_version: int = 0

    def accept(self, game: "WatchedGame") -> bool:
        """Whether the game is listed."""
        return (self.winner in ("", game.winner) and self.ended_by in ("", str(game.record.ended_by))
                and self.least_plies <= len(game.record) <= self.most_plies
                and game.newest_version >= self.least_version)


@dataclass(frozen=True, eq=False)
class WatchedGame:
    """A game that has ended."""

    number: int  # in the order in which the studio saw them
    record: GameRecord
    seen: float  # seconds since 1970

    @property
    def winner(self) -> str:
        """The word for the result: first, second or draw."""
        return ("second", "draw", "first")[self.record.outcome + 1]

    @property
    def newest_version(self) -> int:
        """Of the weights that played it."""
        return int(self.record.versions.max()) if len(self.record) else 0

    def summary(self) -> dict[str, Any]:
        """A line of the list."""
        record, names = self.record, players(self.record.game)
        result = "drawn" if record.outcome == 0 else f"{names[0 if record.outcome > 0 else 1]} won"
        margin = f" by {abs(record.score):g}" if record.score == record.score and record.outcome else ""
        return {"number": self.number, "plies": len(record), "winner": self.winner, "result": result + margin,
                "ended_by": str(record.ended_by), "version": self.newest_version, "seen": round(self.seen, 1),
                "actor": record.game_id.actor}


class GameFeed:
    """The newest games of one run directory.  Not thread-safe; a damaged record is passed over."""

    def __init__(self, directory: Path, replay_url: str = "") -> None:
        """`replay_url`: of the user's own server; empty: the one in the run directory, if it runs."""
        self._directory, self._url = directory, replay_url
        self._games: deque[WatchedGame] = deque()
        self._plies = 0  # of these games
        self._opened: OrderedDict[int, tuple[WatchedGame, Game, list[Position]]] = OrderedDict()
        self._source: Source | None = None
        self._source_url = ""
        self._retry_at = 0.0
        self.total = 0  # seen since the studio began
        self.trouble = ""  # why no games come; empty: they may

    def poll(self) -> int:
        """Reads what is new; returns the number of new games."""
        before = self.total
        if time.monotonic() < self._retry_at:
            return 0
        try:
            self._choose_source()
            for data in self._source.read() if self._source else ():
                self._add(data)
            self.trouble = ""
        except (ReplayUnavailable, OSError) as error:
            self.trouble = str(error)
            self._retry_at = time.monotonic() + RETRY_SECONDS
            self._source = None
        return self.total - before

    def games(self, filters: Filters, count: int) -> list[dict[str, Any]]:
        """The newest games that the filters accept, newest first."""
        accepted = (game for game in reversed(self._games) if filters.accept(game))
        return [game.summary()
                for _, game in zip(range(count), accepted, strict=False)]

    def describe(self, number: int) -> dict[str, Any]:
        """A whole game but its boards; KeyError if it is not kept any more."""
        game = self._find(number)
        rules, positions = self._open(game)
        record = game.record
        signs = [1 if position.to_play == 0 else -1 for position in positions]
        moves = [position.to_move(int(a)) for position, a in zip(positions, record.actions, strict=False)]
        return {
            **game.summary(), "game": describe_game(rules), "moves": moves,
            "values": [*_signed(record.root_values, signs), float(record.outcome)],
            "raw_values": [*_signed(record.raw_values, signs), None],
            "versions": record.versions.tolist(), "kinds": [RowKind(kind).name.lower() for kind in record.kind],
        }

    def describe_ply(self, number: int, ply: int) -> dict[str, Any]:
        """The position before this ply and the policy that was searched there; KeyError if the game is not kept."""
        game = self._find(number)
        rules, positions = self._open(game)
        record, ply = game.record, min(max(ply, 0), len(game.record))
        policy: list[dict[str, Any]] = []
        if ply < len(record):
            begin, end = int(record.policy_offsets[ply]), int(record.policy_offsets[ply + 1])
            policy = [{"action": int(action), "share": round(int(share) / 65535, 5)} for action, share in
                      zip(record.policy_actions[begin:end], record.policy_shares[begin:end], strict=True)]
        board = describe_position(rules, positions[ply])
        if ply:
            earlier = describe_position(rules, positions[ply - 1])["legal"]
            played = next(move for move in earlier if move["action"] == int(record.actions[ply - 1]))
            board["previous"] = [played[key] for key in ("from", "to") if played.get(key) is not None]
        return {"number": number, "ply": ply, "board": board, "policy": policy,
                "played": int(record.actions[ply]) if ply < len(record) else None}

    def _choose_source(self) -> None:
        url = self._url or server_url(self._directory / "redis")
        if self._source is not None and url == self._source_url:
            return
        if url and (identity := RunIdentity.find(self._directory)) is not None:
            self._source = StreamViewer(url, identity.run_id)
        else:
            self._source = RecordTail(self._directory / "records")
        self._source_url = url

    def _add(self, data: bytes) -> None:
        try:
            record = decode_record(data)
        except CodecError:
            return
        self.total += 1
        self._games.append(WatchedGame(self.total, record, time.time()))
        self._plies += len(record)
        while len(self._games) > KEPT_GAMES and self._plies > KEPT_PLIES:
            self._plies -= len(self._games.popleft().record)

    def _find(self, number: int) -> WatchedGame:
        if number in self._opened:
            return self._opened[number][0]
        for game in self._games:
            if game.number == number:
                return game
        raise KeyError(f"game {number} is not kept any more: the studio keeps the newest {len(self._games):,}")

    def _open(self, game: WatchedGame) -> tuple[Game, list[Position]]:
        if game.number not in self._opened:
            rules = Game(game.record.game, game.record.params)
            positions = [rules.start()]
            for action in game.record.actions:
                positions.append(positions[-1].copy())
                positions[-1].play(int(action))
            self._opened[game.number] = game, rules, positions
            while len(self._opened) > OPENED_GAMES:
                self._opened.popitem(last=False)
        _, rules, positions = self._opened[game.number]
        return rules, positions


def _signed(values: "np.ndarray[Any, np.dtype[np.float32]]", signs: list[int]) -> list[float | None]:
    return [round(float(v) * sign, 4) if v == v else None for v, sign in zip(values, signs, strict=False)]
