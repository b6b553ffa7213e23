"""A run of the command line is watched while it plays, and killed while it is watched."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from studio_fixtures import make_studio, pages_of

ROOT = Path(__file__).resolve().parents[3]
ANY = {"winner": "", "ended_by": "", "least_plies": 0, "most_plies": 1000, "least_version": 0}
SMALL = ("experiment=tic_tac_toe", "run.minutes=5", "actors.count=1", "replay.minimum=200", "strength.enabled=false",
         "strength.final=false", "network.filters=8", "network.blocks=1")


@pytest.mark.long
@pytest.mark.parametrize("command", ["local", "train"])
def test_a_live_run_is_watched_until_it_is_killed(command: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    program = [sys.executable, "-m", "shusaku", command, f"run.dir={run}", *SMALL]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(program, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)

    async def work() -> None:
        async with asyncio.timeout(560):
            while not (run / "metrics.jsonl").exists():
                assert process.poll() is None, (tmp_path / "log").read_text()
                await asyncio.sleep(0.2)
            async with pages_of(make_studio(None, run), 8) as pages:
                for page in pages:
                    await page.send("watch", **ANY)
                seen = [await page.wait("games", lambda message: message["total"] >= 20, 200) for page in pages]
                alive = await pages[0].wait("run", lambda message: message["is_running"] and message["games"] > 0, 100)
                assert alive["activity"]
                number = seen[0]["games"][0]["number"]
                game = await pages[0].ask("game", "game", number=number)
                step = await pages[0].ask("ply", "ply", number=number, ply=len(game["moves"]))
                assert step["board"]["result"]
                await pages[1].ask("learn", "curves", other="")
                os.killpg(process.pid, signal.SIGKILL)
                await pages[0].wait("run", lambda message: not message["is_running"], 60)
                assert (await pages[0].ask("game", "game", number=number))["moves"] == game["moves"]

    try:
        asyncio.run(work())
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
