"""What the studio does for its viewers, without HTTP: requests in, messages out.

Two threads do the work: one owns the table, the other reads the run and evaluates positions of the page See.  All
viewers share both, so that many of them cost little more than one.
"""

import asyncio
import base64
import binascii
import contextlib
import json
import os
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from shusaku.common._core import Game
from shusaku.common.config.schema import MOST_THREADS
from shusaku.common.errors import ResumeError, RunError, UsageError
from shusaku.common.search import Evaluate
from shusaku.deploy.records.files import read_records, write_records
from shusaku.deploy.studio.boards import describe_game
from shusaku.deploy.studio.curves import Runs
from shusaku.deploy.studio.feed import Filters, GameFeed
from shusaku.deploy.studio.planes import describe_input
from shusaku.deploy.studio.requests import MAX_FILE, NOTATIONS, BadRequest, parse_request
from shusaku.deploy.studio.run_status import read_status
from shusaku.deploy.studio.table import Settings, Table, TableError

TICK_SECONDS = 0.02  # between looks at a search
REPORT_SECONDS = 0.1  # between reports of a search
RUN_SECONDS = 1.0  # between looks at a run that is watched
STATUS_SECONDS = 2.0
LISTED_GAMES = 100
REFUSALS = (ValueError, KeyError, UsageError, ResumeError, RunError)  # what a request can be answered with
_Answer = TypeVar("_Answer")


@dataclass(eq=False)
class Viewer:
    """One page; what it is sent waits here, and a newer message of a kind replaces one that still waits."""

    page: str = ""  # watch | learn, while the page shows the run
    filters: Filters = field(default_factory=Filters)
    other: str = ""  # name of the second run on Learn
    sent_revision: tuple[int, int] = (-1, -1)  # of the curves of both runs
    pending: dict[str, str] = field(default_factory=dict)
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    def post(self, kind: str, message: dict[str, Any] | str) -> None:
        """Sends a message, as a dictionary or encoded."""
        self.pending[kind] = message if isinstance(message, str) else encode(kind, message)
        self.ready.set()

    async def next(self) -> list[str]:
        """What is to be sent now; waits until there is something."""
        await self.ready.wait()
        self.ready.clear()
        messages, self.pending = list(self.pending.values()), {}
        return messages


def encode(kind: str, message: dict[str, Any]) -> str:
    """A message as JSON."""
    return json.dumps({"type": kind, **message}, allow_nan=False, separators=(",", ":"))


class Studio:
    """The table, the run and the viewers of both."""

    def __init__(
        self, table: Table | None, game: Game | None, evaluate: Evaluate | None, run: Path | None, *,
        title: str = "", notes: tuple[str, ...] = (), replay_url: str = "",
    ) -> None:
        """`table`, `game` and `evaluate` are those of the weights, `run` is a run directory; None: there is none."""
        self._table, self._game, self._evaluate, self._run = table, game, evaluate, run
        self._title, self._notes = title, notes
        self._feed = GameFeed(run, replay_url) if run else None
        self._runs = Runs(run) if run else None
        self.viewers: set[Viewer] = set()
        self._table_thread = ThreadPoolExecutor(1, thread_name_prefix="table")
        self._reader_thread = ThreadPoolExecutor(1, thread_name_prefix="reader")
        self._table_changed = asyncio.Event()
        self._status: dict[str, Any] = {}
        self._status_at = 0.0
        self._tasks: list[asyncio.Task[None]] = []
        self._requests: dict[str, Callable[[Viewer, dict[str, Any]], Awaitable[None]]] = {
            "see": self._see, "watch": self._watch, "game": self._show_game, "ply": self._show_ply,
            "learn": self._learn, "leave": self._leave, "save": self._save,
        }

    async def begin(self) -> None:
        """Starts what happens without a request."""
        if self._table is not None and not self._table.is_searching:
            await self._on_table(self._table.begin)
        self._tasks = [asyncio.create_task(loop()) for loop in (self._follow_table, self._follow_run)]

    async def close(self) -> None:
        """Ends it."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._table is not None:
            await self._on_table(self._table.close)
        self._table_thread.shutdown()
        self._reader_thread.shutdown()

    async def enter(self, viewer: Viewer) -> None:
        """A page has opened."""
        self.viewers.add(viewer)
        viewer.post("hello", {
            "title": self._title, "notes": self._notes, "has_weights": self._table is not None,
            "has_run": self._run is not None, "game": describe_game(self._game) if self._game else None,
            "cores": min(len(os.sched_getaffinity(0)), MOST_THREADS), "notations": NOTATIONS, "max_file": MAX_FILE,
        })
        if self._table is not None:
            viewer.post("table", await self._on_table(self._table.state))
            if (report := await self._on_table(self._table.report)) is not None:
                viewer.post("report", report)

    def leave(self, viewer: Viewer) -> None:
        """A page has closed."""
        self.viewers.discard(viewer)

    async def handle(self, viewer: Viewer, data: str) -> None:
        """One request of a page; what is wrong with it comes back as a message."""
        name = ""
        try:
            name, fields = parse_request(data)
            if name in self._requests:
                await self._requests[name](viewer, fields)
            else:
                await self._change_table(name, fields)
        except REFUSALS as error:
            text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
            viewer.post("error", {"request": name, "text": " ".join(text.split())[:600]})
            if self._table is not None and name not in self._requests:  # the page shows what it asked for
                viewer.post("table", await self._on_table(self._table.state))

    # --- Play --------------------------------------------------------------------------------------------------------

    async def _change_table(self, name: str, fields: dict[str, Any]) -> None:
        table = self._table
        if table is None:
            raise TableError("there are no weights to play with; give checkpoint=…")
        calls: dict[str, Callable[[], None]] = {
            "new": lambda: table.new((fields["first"], fields["second"]), fields["position"]),
            "play": lambda: table.play(fields["action"], fields["ply"]),
            "undo": table.undo, "resign": table.resign, "review": table.review,
            "go_to": lambda: table.go_to(fields["ply"]),
            "sides": lambda: table.set_sides((fields["first"], fields["second"])),
            "settings": lambda: table.change(Settings(**fields)),
            "open": lambda: _open_file(table, fields["name"], fields["data"]),
        }
        await self._on_table(calls[name])
        await self._broadcast_table()
        self._table_changed.set()

    async def _save(self, viewer: Viewer, fields: dict[str, Any]) -> None:
        if self._table is None:
            raise TableError("there is no game to save")
        record = await self._on_table(self._table.record)
        name = f"{record.game}.{fields['notation']}"
        viewer.post("file", {"name": name, "text": write_records([record], name, comments=True)})

    async def _follow_table(self) -> None:
        """Looks at the search while one runs, and tells all viewers."""
        table = self._table
        if table is None:
            return
        reported = 0.0
        while True:
            if not table.is_searching:
                self._table_changed.clear()
                await self._table_changed.wait()
            if await self._on_table(table.tick):
                await self._broadcast_table()
            elif time.monotonic() - reported >= REPORT_SECONDS and self.viewers:
                reported = time.monotonic()
                await self._broadcast_report()
            await asyncio.sleep(TICK_SECONDS)

    async def _broadcast_table(self) -> None:
        assert self._table is not None
        self._post_all("table", await self._on_table(self._table.state))
        await self._broadcast_report()

    async def _broadcast_report(self) -> None:
        assert self._table is not None
        report = await self._on_table(self._table.report)
        self._post_all("report", report or {"moves": []})

    def _post_all(self, kind: str, message: dict[str, Any]) -> None:
        text = encode(kind, message)
        for viewer in self.viewers:
            viewer.post(kind, text)

    # --- See ---------------------------------------------------------------------------------------------------------

    async def _see(self, viewer: Viewer, fields: dict[str, Any]) -> None:
        if self._game is None or self._evaluate is None:
            raise TableError("there are no weights to see with; give checkpoint=…")
        game, evaluate = self._game, self._evaluate
        position = fields["position"]
        seen = await self._on_reader(lambda: describe_input(game, position, evaluate))
        viewer.post("seen", {"asked": position, **seen})

    # --- Watch and Learn ---------------------------------------------------------------------------------------------

    async def _watch(self, viewer: Viewer, fields: dict[str, Any]) -> None:
        feed = self._known_feed()
        viewer.page, viewer.filters = "watch", Filters(**fields)
        await self._on_reader(feed.poll)
        await self._list_games(viewer, feed)

    async def _list_games(self, viewer: Viewer, feed: GameFeed) -> None:
        games = await self._on_reader(lambda: feed.games(viewer.filters, LISTED_GAMES))
        viewer.post("games", {"games": games, "total": feed.total, "trouble": feed.trouble})

    async def _show_game(self, viewer: Viewer, fields: dict[str, Any]) -> None:
        feed = self._known_feed()
        viewer.post("game", await self._on_reader(lambda: feed.describe(fields["number"])))

    async def _show_ply(self, viewer: Viewer, fields: dict[str, Any]) -> None:
        feed = self._known_feed()
        viewer.post("ply", await self._on_reader(lambda: feed.describe_ply(fields["number"], fields["ply"])))

    async def _learn(self, viewer: Viewer, fields: dict[str, Any]) -> None:
        if self._runs is None:
            raise TableError("there is no run; give run.dir=…")
        viewer.page, viewer.other, viewer.sent_revision = "learn", fields["other"], (-1, -1)
        await self._send_curves(viewer)

    async def _leave(self, viewer: Viewer, fields: dict[str, Any]) -> None:
        viewer.page = ""

    async def _send_curves(self, viewer: Viewer) -> None:
        runs = self._runs
        assert runs is not None

        def read() -> dict[str, Any] | None:
            tails = [runs.tail(), *([runs.tail(viewer.other)] if viewer.other else [])]
            revision = (tails[0].revision, tails[-1].revision)
            if revision == viewer.sent_revision:
                return None
            viewer.sent_revision = revision
            return {"runs": [{"name": tail.directory.resolve().name, "charts": tail.charts()} for tail in tails],
                    "others": runs.names()}

        if (message := await self._on_reader(read)) is not None:
            viewer.post("curves", message)

    async def _follow_run(self) -> None:
        """Looks at the run while a page shows it."""
        feed = self._feed
        if feed is None:
            return
        while True:
            await asyncio.sleep(RUN_SECONDS)
            watching = [viewer for viewer in self.viewers if viewer.page == "watch"]
            learning = [viewer for viewer in self.viewers if viewer.page == "learn"]
            news = await self._on_reader(feed.poll) if watching else 0
            if news or feed.trouble:
                for viewer in watching:
                    await self._list_games(viewer, feed)
            for viewer in learning:
                with contextlib.suppress(KeyError):  # the other run was deleted
                    await self._send_curves(viewer)
            if watching or learning:
                await self._look_at_status(watching + learning)

    async def _look_at_status(self, viewers: list[Viewer]) -> None:
        run = self._run
        assert run is not None
        if time.monotonic() - self._status_at >= STATUS_SECONDS:
            self._status_at = time.monotonic()
            self._status = await self._on_reader(lambda: read_status(run))
        for viewer in viewers:
            viewer.post("run", self._status)

    def _known_feed(self) -> GameFeed:
        if self._feed is None:
            raise TableError("there is no run; give run.dir=…")
        return self._feed

    async def _on_table(self, call: Callable[[], _Answer]) -> _Answer:
        return await asyncio.get_running_loop().run_in_executor(self._table_thread, call)

    async def _on_reader(self, call: Callable[[], _Answer]) -> _Answer:
        return await asyncio.get_running_loop().run_in_executor(self._reader_thread, call)


def _open_file(table: Table, name: str, data: str) -> None:
    try:
        content = base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise BadRequest(f"open.data is no base64: {error}") from None
    games = read_records(content, name, limit=1)
    if not games.records:
        reason = str(games.rejects[0]) if games.rejects else "there is no game in it"
        raise TableError(f"{name}: {reason}")
    table.open(games.records[0])
