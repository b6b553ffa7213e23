"""HTTP and WebSocket around the studio: its files, one socket a page, and who may ask.

Without a token it listens on the loopback alone and answers only if it is asked for by a name of the loopback: a page
of another site, whose name was rebound to 127.0.0.1, gets nothing.  With a token any name is fine, and every request
needs the token, as `?token=…` once, then as a cookie.
"""

import asyncio
import contextlib
import hmac
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

from aiohttp import WSCloseCode, WSMsgType, web

from shusaku.common.errors import UsageError
from shusaku.deploy.studio.requests import MAX_DATA
from shusaku.deploy.studio.studio import Studio, Viewer

WEB = Path(__file__).resolve().parent / "web"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
COOKIE = "shusaku_token"
VARIABLE = "SHUSAKU_VIEW_TOKEN"
MOST_VIEWERS = 64
HEARTBEAT_SECONDS = 20.0
SEND_SECONDS = 10.0  # that a page may take to receive a message
KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml",
         "": "text/plain"}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache",
    "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
}
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Site:
    """The handlers of one studio; without a token only requests for the loopback are answered."""

    def __init__(self, studio: Studio, token: str) -> None:
        self._studio, self._token = studio, token
        self._files = _read_files()
        self._sockets: set[web.WebSocketResponse] = set()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """A file of the page; the token in the address becomes a cookie."""
        if self._token and _is_same(request.query.get("token", ""), self._token):
            response = web.Response(status=303, headers={"Location": "/"})
            response.set_cookie(COOKIE, self._token, httponly=True, samesite="Strict")
            return response
        name = request.match_info["name"] or "index.html"
        if name not in self._files:
            raise web.HTTPNotFound
        body, kind = self._files[name]
        return web.Response(body=body, content_type=kind, charset="utf-8")

    async def talk(self, request: web.Request) -> web.StreamResponse:
        """The socket of a page."""
        if len(self._sockets) >= MOST_VIEWERS:
            return web.Response(status=503, text=f"{MOST_VIEWERS} pages are open already\n")
        socket = web.WebSocketResponse(heartbeat=HEARTBEAT_SECONDS, max_msg_size=MAX_DATA + 4096)
        self._sockets.add(socket)
        try:
            await socket.prepare(request)
            await _talk(self._studio, socket)
        finally:
            self._sockets.discard(socket)
        return socket

    async def live(self, app: web.Application) -> AsyncIterator[None]:
        """The life of the application."""
        await self._studio.begin()
        yield
        await self._studio.close()

    async def hang_up(self, app: web.Application) -> None:
        """Closes all sockets before the application ends."""
        for socket in list(self._sockets):
            await socket.close(code=WSCloseCode.GOING_AWAY)


def make_app(studio: Studio, token: str = "") -> web.Application:
    """The application, every answer of which has passed the guard."""
    site = Site(studio, token)

    @web.middleware
    async def guard(request: web.Request, handler: _Handler) -> web.StreamResponse:
        response: web.StreamResponse | None = _refusal(request, token)
        if response is None:
            try:
                response = await handler(request)
            except web.HTTPException as error:
                response = web.Response(status=error.status, text=f"{error.reason}\n")
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    app = web.Application(middlewares=[guard])
    app.router.add_get("/ws", site.talk)
    app.router.add_get("/{name:.*}", site.serve)
    app.cleanup_ctx.append(site.live)
    app.on_shutdown.append(site.hang_up)
    return app


async def listen(app: web.Application, host: str, port: int) -> tuple[web.AppRunner, int]:
    """Begins to serve; the port, of which 0 asks for a free one.  UsageError if it is taken."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
    except OSError as error:
        await runner.cleanup()
        raise UsageError(f"view.port={port}: {os.strerror(error.errno) if error.errno else error} on {host}; give "
                         "another view.port, or 0 for any free one") from None
    return runner, int(runner.addresses[0][1])


def find_token(host: str, token_file: str) -> str:
    """The token of the user, or none for the loopback; UsageError if one is missing, short, or open to others."""
    if token_file:
        path = Path(token_file)
        try:
            if path.stat().st_mode & 0o077:
                raise UsageError(f"view.token_file={token_file}: others may read it; `chmod 600 {token_file}`")
            token = path.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise UsageError(f"view.token_file={token_file}: {error.strerror}; name a file that holds the token"
                             ) from None
    else:
        token = os.environ.get(VARIABLE, "")
    if not token and host not in LOOPBACK:
        raise UsageError(f"view.host={host}: other machines could play and read the run; give view.token_file=FILE, or "
                         f"{VARIABLE} in the environment, or leave view.host out")
    if token and not re.fullmatch(r"[A-Za-z0-9_.~-]{16,256}", token):
        raise UsageError("the token must have 16 to 256 of A-Z, a-z, 0-9, - . _ ~; `openssl rand -hex 32` makes one")
    return token


def _refusal(request: web.Request, token: str) -> web.Response | None:
    """The answer to a request that no client may make; None: it may be made."""
    if not token and _hostname(request.headers.get("Host", "")) not in LOOPBACK:
        return web.Response(status=403, text="ask for 127.0.0.1 or localhost\n")
    origin = request.headers.get("Origin")
    if origin is not None and origin.partition("://")[2] != request.headers.get("Host"):
        return web.Response(status=403, text="a page of another site may not ask\n")
    bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
    given = (bearer, request.cookies.get(COOKIE, ""), request.query.get("token", ""))
    if token and not any(_is_same(text, token) for text in given):
        return web.Response(status=401, text="the token is missing or wrong: open /?token=…\n")
    return None


def _hostname(host: str) -> str:
    """The name of a Host header, without its port; empty if it is none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_same(given: str, token: str) -> bool:
    """`given` is of a header, in which bytes that are no UTF-8 are surrogates."""
    return hmac.compare_digest(given.encode(errors="surrogateescape"), token.encode())


def _read_files() -> dict[str, tuple[bytes, str]]:
    """Every file of the page, by its path below web/: no request names a path of the disk."""
    return {path.relative_to(WEB).as_posix(): (path.read_bytes(), KINDS[path.suffix])
            for path in sorted(WEB.rglob("*")) if path.is_file() and path.suffix in KINDS}


async def _talk(studio: Studio, socket: web.WebSocketResponse) -> None:
    """Until the page closes: its requests one after the other, and what it is sent."""
    viewer = Viewer()
    await studio.enter(viewer)
    sender = asyncio.create_task(_send(viewer, socket))
    try:
        async for message in socket:
            if message.type is WSMsgType.TEXT:
                await studio.handle(viewer, message.data)
            elif message.type is WSMsgType.BINARY:
                viewer.post("error", {"text": "a message is JSON text, not bytes"})
    finally:
        studio.leave(viewer)
        sender.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sender


async def _send(viewer: Viewer, socket: web.WebSocketResponse) -> None:
    with contextlib.suppress(ConnectionError, TimeoutError):
        while True:
            for message in await viewer.next():
                async with asyncio.timeout(SEND_SECONDS):  # wait_for of Python 3.11 may swallow the cancellation
                    await socket.send_str(message)
    await socket.close()
