"""The studio over HTTP and WebSocket: who may ask, what comes back, and what nonsense does."""

import asyncio
import base64
import contextlib
import hashlib
import re
import tomllib
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import WSMsgType, WSServerHandshakeError
from aiohttp.test_utils import TestClient
from labelled_games import random_game
from studio_fixtures import Page, client_of, make_studio, pages_of, quiet_studio

from shusaku.common._core import Game
from shusaku.common.codec import encode_record
from shusaku.common.errors import UsageError
from shusaku.common.messages import Metrics
from shusaku.common.metrics import MetricsSink
from shusaku.deploy.studio import server as servers
from shusaku.deploy.studio.server import WEB, find_token, listen, make_app
from shusaku.deploy.studio.studio import Viewer
from shusaku.replay.record_log import RecordLog

GAME = Game("tic_tac_toe")
ENDS = (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED, WSMsgType.ERROR)
TOKEN = "0123456789abcdef-token"


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


async def raw_answer(client: TestClient[Any, Any], head: bytes) -> bytes:
    """The first line of the answer to a request with bytes that no client of ours sends."""
    reader, writer = await asyncio.open_connection(client.host, client.port)
    writer.write(head + b"\r\nConnection: close\r\n\r\n")
    line = await reader.readline()
    writer.close()
    return line


def test_pages_come_with_a_strict_policy_and_load_nothing_from_elsewhere() -> None:
    async def work() -> None:
        async with client_of(make_studio(None)) as client:
            for name, kind in (("", "text/html"), ("app.js", "text/javascript"), ("style.css", "text/css"),
                               ("vendor/chess_pieces/standard.svg", "image/svg+xml")):
                answer = await client.get(f"/{name}")
                assert (answer.status, answer.content_type) == (200, kind)
                policy = answer.headers["Content-Security-Policy"]
                assert "default-src 'none'" in policy
                assert "unsafe" not in policy
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
            for name in ("nothing", "../server.py", "..%2fserver.py", "%2e%2e/server.py", "web/index.html"):
                assert (await client.get(f"/{name}")).status == 404
            assert (await client.post("/")).status == 405

    run(work())


def test_the_page_is_plain_files_without_outside_addresses() -> None:
    own = [path for path in WEB.rglob("*") if path.is_file() and "vendor" not in path.parts]
    for path in own:
        text = path.read_text(encoding="utf-8")
        outside = set(re.findall(r"https?://[^\s\"'`]+", text)) - {"http://www.w3.org/2000/svg"}
        assert not outside, path
        assert not re.search(r"\sstyle=|<style|javascript:|\beval\(|innerHTML", text), path
    for name in re.findall(r'from "\./([^"]+)"', "".join(p.read_text() for p in own if p.suffix == ".js")):
        assert (WEB / name).is_file()


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "evil.example:80", "0.0.0.0", "", "["])
def test_a_foreign_host_gets_nothing(host: str) -> None:
    async def work() -> None:
        async with client_of(make_studio(None)) as client:
            for path in ("/", "/app.js", "/ws"):
                assert (await client.get(path, headers={"Host": host})).status == 403

    run(work())


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:99", "[::1]:99", "LOCALHOST"])
def test_names_of_the_loopback_are_answered(host: str) -> None:
    async def work() -> None:
        async with client_of(make_studio(None)) as client:
            assert (await client.get("/", headers={"Host": host})).status == 200

    run(work())


def test_a_page_of_another_site_may_not_open_the_socket() -> None:
    async def work() -> None:
        async with client_of(make_studio(None)) as client:
            for origin in ("http://evil.example", "null", "http://127.0.0.1:1"):
                with pytest.raises(WSServerHandshakeError) as error:
                    await client.ws_connect("/ws", headers={"Origin": origin})
                assert error.value.status == 403
            own = f"http://{client.host}:{client.port}"
            await (await client.ws_connect("/ws", headers={"Origin": own})).close()

    run(work())


def test_with_a_token_nothing_comes_without_it() -> None:
    async def work() -> None:
        async with client_of(make_studio(None), TOKEN) as client:
            for path in ("/", "/app.js", "/ws", "/?token=wrong"):
                assert (await client.get(path, headers={"Host": "board.example"})).status == 401
            bearer = {"Authorization": f"Bearer {TOKEN}"}
            assert (await client.get("/", headers={"Host": "board.example", **bearer})).status == 200
            assert b" 401 " in await raw_answer(client, b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff")
            assert b" 401 " in await raw_answer(client, b"GET /?token=%ff HTTP/1.1\r\nHost: x")
            answer = await client.get(f"/?token={TOKEN}", allow_redirects=False)
            assert (answer.status, answer.headers["Location"]) == (303, "/")
            cookie = answer.headers["Set-Cookie"]
            assert "HttpOnly" in cookie
            assert "SameSite=Strict" in cookie
            assert (await client.get("/")).status == 200  # by the cookie
            await (await client.ws_connect("/ws")).close()

    run(work())


def test_a_token_is_asked_for_before_others_can_reach_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(servers.VARIABLE, raising=False)
    assert find_token("127.0.0.1", "") == ""
    with pytest.raises(UsageError, match=r"view\.host=0\.0\.0\.0: .*token_file"):
        find_token("0.0.0.0", "")
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o644)
    with pytest.raises(UsageError, match="chmod 600"):
        find_token("0.0.0.0", str(file))
    file.chmod(0o600)
    assert find_token("0.0.0.0", str(file)) == TOKEN
    with pytest.raises(UsageError, match="No such file"):
        find_token("0.0.0.0", str(tmp_path / "none"))
    for weak in ("short", "with blanks in it ....", "ü" * 20):
        monkeypatch.setenv(servers.VARIABLE, weak)
        with pytest.raises(UsageError, match="16 to 256"):
            find_token("127.0.0.1", "")


def test_a_used_port_is_named() -> None:
    async def work() -> None:
        runner, port = await listen(make_app(make_studio(None)), "127.0.0.1", 0)
        with pytest.raises(UsageError, match=f"view.port={port}: .*in use"):
            await listen(make_app(make_studio(None)), "127.0.0.1", port)
        await runner.cleanup()

    run(work())


def test_a_game_against_the_engine_and_a_second_viewer_who_sees_the_same() -> None:
    async def work() -> None:
        async with pages_of(make_studio(GAME), 2) as [first, second]:
            table = await first.ask("new", "table", first="human", second="engine", position="")
            while not table["result"]:
                await first.send("play", action=table["legal"][0]["action"], ply=table["cursor"])
                ply = table["cursor"]
                table = await first.wait("table", lambda state, ply=ply: bool(state["result"]) or (
                    state["to_play"] == 0 and state["cursor"] > ply))
            seen = await second.wait("table", lambda state: state["revision"] == table["revision"])
            assert seen == table
            saved = await first.ask("save", "file", notation="jsonl")
            assert saved["name"] == "tic_tac_toe.jsonl"
            data = base64.b64encode(saved["text"].encode()).decode()
            opened = await second.ask("open", "table", name="game.jsonl", data=data)
            assert (opened["moves"], opened["cursor"]) == (table["moves"], 0)

    run(work())


def test_a_page_that_leaves_while_a_message_goes_out_is_not_written_to_for_ever() -> None:
    """Its handler waits for the sender, and the end of the server for the handler."""
    class Leaving:
        async def send_str(self, text: str) -> None:
            asyncio.get_running_loop().call_soon(sender.cancel)

    async def work() -> None:
        nonlocal sender
        viewer, socket = Viewer(), Leaving()
        viewer.post("table", "{}")
        sender = asyncio.create_task(servers._send(viewer, cast(Any, socket)))
        await asyncio.wait({sender}, timeout=5)
        assert sender.cancelled()

    sender: asyncio.Task[None]
    run(work())


def test_nonsense_is_answered_and_the_game_goes_on() -> None:
    async def work() -> None:
        async with pages_of(make_studio(GAME)) as [page]:
            await page.ask("new", "table", first="human", second="human", position="")
            for text in ("", "nonsense", "[]", "{}", '{"type": "dance"}', '{"type": "play", "action": "a"}',
                         '{"type": "play", "action": 60000, "ply": 0}', '{"type": "go_to", "ply": -1}', "\x00" * 50,
                         '{"type": "open", "name": "x.sgf", "data": "%%"}',
                         '{"type": "open", "name": "x.doc", "data": ""}',
                         '{"type": "watch"}', '{"type": "learn", "other": ""}', '{"type": "game", "number": 1}',
                         '{"type": "see", "position": "XX"}'):
                await page.socket.send_str(text)
                error = await page.wait("error")
                assert error["text"]
                assert "\n" not in error["text"]
            await page.socket.send_bytes(b"\xff\xfe")
            assert "not bytes" in (await page.wait("error"))["text"]
            table = await page.ask("play", "table", action=4, ply=0)
            assert table["moves"] == ["b2"]

    run(work())


def test_a_refused_request_for_the_table_is_answered_with_what_is_in_force() -> None:
    async def work() -> None:
        async with pages_of(make_studio(GAME)) as [page]:
            before = await page.ask("new", "table", first="human", second="human", position="")
            await page.send("settings", simulations=99, threads=257, temperature=1.0, analyse=True)
            assert "must lie in [1, 256]" in (await page.wait("error"))["text"]
            assert (await page.wait("table"))["settings"] == before["settings"]
            await page.send("play", action=4, ply=1)
            assert "meant for ply 1" in (await page.wait("error"))["text"]
            assert (await page.wait("table"))["moves"] == []

    run(work())


def test_shogi_is_saved_under_the_ending_of_its_charset() -> None:
    async def work() -> None:
        async with pages_of(quiet_studio(Game("shogi"))[0]) as [page]:
            assert "kifu" in page.last["hello"]["notations"]
            table = await page.wait("table")
            await page.ask("play", "table", action=table["legal"][0]["action"], ply=0)
            saved = await page.ask("save", "file", notation="kifu")
            assert saved["name"] == "shogi.kifu"
            data = base64.b64encode(saved["text"].encode()).decode()
            assert len((await page.ask("open", "table", name=saved["name"], data=data))["moves"]) == 1

    run(work())


def test_a_file_of_the_largest_size_reaches_its_reader() -> None:
    async def work() -> None:
        async with pages_of(quiet_studio(GAME)[0]) as [page]:
            assert page.last["hello"]["max_file"] == 3 << 20
            data = base64.b64encode(b" " * (3 << 20)).decode()
            assert "there is no game in it" in (await page.ask("open", "error", name="x.jsonl", data=data))["text"]
            data = base64.b64encode(b" " * ((3 << 20) + 1)).decode()
            assert "at most 4,194,304" in (await page.ask("open", "error", name="x.jsonl", data=data))["text"]

    run(work())


def test_a_message_that_is_too_long_ends_its_page_only() -> None:
    async def work() -> None:
        async with pages_of(make_studio(GAME), 2) as [first, second]:
            with contextlib.suppress(ConnectionError):  # it may be closed before all was sent
                await first.socket.send_str("x" * (5 << 20))
            async with asyncio.timeout(20):
                while (await first.socket.receive()).type not in ENDS:
                    pass
            assert (await second.ask("new", "table", first="human", second="human", position=""))["cursor"] == 0

    run(work())


def test_see_answers_with_planes_policy_and_value() -> None:
    async def work() -> None:
        async with pages_of(make_studio(GAME)) as [page]:
            seen = await page.ask("see", "seen", position="X../.O./... X")
            names = [plane["name"] for plane in seen["planes"]]
            assert names == ["X's stones", "O's stones", "whose turn (1: X, 0: O)"]
            assert (seen["planes"][2]["value"], len(seen["policy"])) == (1, 7)

    run(work())


def test_a_run_is_watched_while_it_plays(tmp_path: Path) -> None:
    any_game = {"winner": "", "ended_by": "", "least_plies": 0, "most_plies": 1000, "least_version": 0}
    data = [encode_record(random_game(GAME, seed)) for seed in range(1, 7)]

    async def work() -> None:
        log = RecordLog(tmp_path / "records")
        log.append(data[:4])
        async with pages_of(make_studio(None, tmp_path)) as [page]:
            games = await page.ask("watch", "games", **any_game)
            assert games["total"] == 4
            log.append(data[4:])
            games = await page.wait("games", lambda message: message["total"] == 6)
            game = await page.ask("game", "game", number=games["games"][0]["number"])
            step = await page.ask("ply", "ply", number=game["number"], ply=2)
            assert (step["ply"], step["board"]["ply"]) == (2, 2)
            assert (await page.wait("run"))["is_running"] is False
            assert "not kept" in (await page.ask("game", "error", number=999))["text"]

    run(work())


def test_curves_follow_the_run(tmp_path: Path) -> None:
    sink = MetricsSink(tmp_path / "first")
    sink.write(Metrics(1, 60.0, "learner", {"loss/total": 2.0}))

    async def work() -> None:
        async with pages_of(make_studio(None, tmp_path / "first")) as [page]:
            curves = await page.ask("learn", "curves", other="")
            assert curves["runs"][0]["charts"][0]["series"][0]["values"] == [2.0]
            sink.write(Metrics(2, 120.0, "learner", {"loss/total": 1.0}))
            curves = await page.wait("curves")
            assert curves["runs"][0]["charts"][0]["series"][0]["values"] == [2.0, 1.0]
            assert "there is no run" in (await page.ask("learn", "error", other="../.."))["text"]

    run(work())
    sink.close()


def test_only_so_many_pages_are_open_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "MOST_VIEWERS", 2)

    async def work() -> None:
        studio = make_studio(GAME)
        async with client_of(studio) as client:
            sockets = [await client.ws_connect("/ws") for _ in range(2)]
            for socket in sockets:
                await Page(socket).wait("hello")
            with pytest.raises(WSServerHandshakeError) as error:
                await client.ws_connect("/ws")
            assert error.value.status == 503
            await sockets[0].close()
            async with asyncio.timeout(10):
                while len(studio.viewers) > 1:
                    await asyncio.sleep(0.01)
            await (await client.ws_connect("/ws")).close()

    run(work())


AS_PUBLISHED = {  # uPlot 1.6.32, cm-chessboard 8.15.1
    "uplot/uPlot.esm.js": "5dd9b3281aa64b461b42d9945f6adb2649d346502b12281a9ae0d46599a80eba",
    "uplot/uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "chess_pieces/standard.svg": "b85bba95342a9483420999cedeb1c503e6db16cdd7a0da1f3a228549a13134c5",
}


def test_files_of_others_are_as_published_and_have_their_licences() -> None:
    vendor = WEB / "vendor"
    code = {path.relative_to(vendor).as_posix() for path in vendor.rglob("*") if path.suffix in (".js", ".css", ".svg")}
    assert code == set(AS_PUBLISHED)
    for name, digest in AS_PUBLISHED.items():
        assert hashlib.sha256((vendor / name).read_bytes()).hexdigest() == digest
        assert list((vendor / name).parent.glob("LICENSE*"))
    project = tomllib.loads((Path(__file__).resolve().parents[3] / "pyproject.toml").read_text())["project"]
    assert project["license"] == "Apache-2.0 AND MIT AND CC-BY-SA-3.0"
    assert "deploy/studio/web/vendor/*/LICENSE*" in project["license-files"]
