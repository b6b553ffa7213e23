"""The studio in a browser: first paint, a move, and what eight viewers cost self-play.

    python -m benchmarks.speed.studio page     # first paint, and a move beyond its search, in Chromium; 20 of each
    python -m benchmarks.speed.studio viewers  # --pairs 10 of --seconds 30 with and without eight viewers of a run; the
                                               # side that comes first changes

Result lines go to benchmarks/results/studio.jsonl.
"""

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import psutil
from playwright.sync_api import Page, sync_playwright

from benchmarks.lib import ROOT, record
from shusaku.deploy.run.control_client import ControlClient

RESULTS = "studio.jsonl"
TIMES, VIEWERS, SETTLE_SECONDS = 20, 8, 4.0
ANY = {"type": "watch", "winner": "", "ended_by": "", "least_plies": 0, "most_plies": 1000, "least_version": 0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("page", "viewers"))
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    command = f"python -m benchmarks.speed.studio {options.what}"
    if options.what == "page":
        record(RESULTS, command, name="page", **measure_page())
    else:
        command += f" --pairs {options.pairs} --seconds {options.seconds:g}"
        record(RESULTS, command, name="viewers", **measure_viewers(options.pairs, options.seconds))


@contextlib.contextmanager
def program(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A shusaku command, ended afterwards."""
    process = subprocess.Popen([sys.executable, "-m", "shusaku", *arguments], cwd=ROOT, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def address_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if "http://" in line:
            return line.partition("http://")[2].partition("/")[0]
    sys.exit("the studio did not start")


def measure_page() -> dict[str, Any]:
    """Milliseconds: first contentful paint; a click until its move is drawn; until a reply of one simulation is."""
    arguments = ("view", "checkpoint=random", "game=connect_four", "network=tiny", "view.port=0", "run.dir=none")
    with program(*arguments) as process, sync_playwright() as playwright:
        address = f"http://{address_of(process)}"
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        paints = [first_paint(browser.new_context().new_page(), address) for _ in range(TIMES)]
        page = browser.new_page()
        page.goto(address)
        page.wait_for_selector("#page-play .picture")
        page.locator("#analyse").uncheck()
        page.locator("#simulations").fill("0")
        moves = [click(page, "human-human", 1) for _ in range(TIMES)]
        replies = [click(page, "human-engine", 2) for _ in range(TIMES)]
        browser.close()
    numbers = {"first_paint_ms": paints, "move_ms": moves, "reply_ms": replies}
    return {name: [round(min(values), 1), round(statistics.median(values), 1), round(max(values), 1)]
            for name, values in numbers.items()}


def first_paint(page: Page, address: str) -> float:
    page.goto(address)
    page.wait_for_selector("#page-play .picture")
    paint: float = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    page.context.close()
    return paint


def click(page: Page, sides: str, plies: int) -> float:
    page.locator("#sides").select_option(sides)
    page.get_by_role("button", name="New game").click()
    page.wait_for_function("() => document.querySelectorAll('#page-play .movelist li').length === 0")
    taken: float = page.evaluate("""plies => new Promise(done => {
        const list = document.querySelector('#page-play .movelist'), begin = performance.now();
        new MutationObserver((_, self) => {
            if (list.children.length < plies) return;
            self.disconnect();
            requestAnimationFrame(() => done(performance.now() - begin));
        }).observe(list, {childList: true});
        document.querySelector("#page-play [data-cell='38']").dispatchEvent(new MouseEvent('click', {bubbles: true}));
    })""", plies)
    return taken


def measure_viewers(pairs: int, seconds: float) -> dict[str, Any]:
    """Searches a second of self-play with eight viewers over those without, in each pair; and the share of all cores
    that the studio takes while they watch, which holds on a busy machine, too."""
    with tempfile.TemporaryDirectory(prefix="studio-") as folder:
        run = Path(folder) / "run"
        training = ("local", "experiment=connect_four", "learner.enabled=false", "strength.enabled=false",
                    f"run.dir={run}", "run.minutes=120")
        with contextlib.ExitStack() as stack:
            stack.enter_context(program(*training))
            while not (run / "control.json").exists():
                time.sleep(0.2)
            view = stack.enter_context(program("view", f"run.dir={run}", "view.port=0"))
            address = address_of(view)
            studio = psutil.Process(view.pid)
            results = [asyncio.run(one_pair(address, run, studio, index % 2 == 0, seconds)) for index in range(pairs)]
    ratios, shares = zip(*results, strict=True)
    return {"ratios": [round(ratio, 4) for ratio in ratios], "median": round(statistics.median(ratios), 4),
            "studio_share": round(statistics.median(shares), 4)}


async def one_pair(
    address: str, run: Path, studio: psutil.Process, is_watched_first: bool, seconds: float
) -> tuple[float, float]:
    """The ratio of the rates, and the studio's share of the cores while it is watched."""
    rates, share = {}, 0.0
    for is_watched in (is_watched_first, not is_watched_first):
        async with contextlib.AsyncExitStack() as stack:
            if is_watched:
                session = await stack.enter_async_context(aiohttp.ClientSession())
                for _ in range(VIEWERS):
                    socket = await stack.enter_async_context(session.ws_connect(f"http://{address}/ws"))
                    await socket.send_str(json.dumps(ANY))
                    stack.callback(asyncio.create_task(drain(socket)).cancel)
            await asyncio.sleep(SETTLE_SECONDS)
            begin = cpu_seconds(studio)
            rates[is_watched] = await rate_of(run, seconds)
            if is_watched:
                share = (cpu_seconds(studio) - begin) / seconds / len(os.sched_getaffinity(0))
    return rates[True] / rates[False], share


def cpu_seconds(process: psutil.Process) -> float:
    return sum(sum(one.cpu_times()[:2]) for one in (process, *process.children(recursive=True)))


async def drain(socket: aiohttp.ClientWebSocketResponse) -> None:
    async for _ in socket:
        pass


async def rate_of(run: Path, seconds: float) -> float:
    (begin, first), _ = searches(run), await asyncio.sleep(seconds)
    end, last = searches(run)
    return (last - first) / (end - begin)


def searches(run: Path) -> tuple[float, float]:
    client = ControlClient.of(run)
    assert client is not None
    return time.monotonic(), float(json.loads(client.status())["totals"]["searches"])


if __name__ == "__main__":
    main()
