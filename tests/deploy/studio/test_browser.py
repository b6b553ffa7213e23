"""The studio's pages in Chromium: clicks, the set-up widget, sliders, keyboard, a phone, axe-core."""

import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import oracles
import pytest
from labelled_games import random_game
from studio_fixtures import make_studio, quiet_studio, wait_for

from shusaku.common._core import Game
from shusaku.common.codec import encode_record
from shusaku.common.messages import Metrics
from shusaku.common.metrics import MetricsSink
from shusaku.deploy.studio.table import HUMAN
from shusaku.deploy.studio.temperature import move_probabilities
from shusaku.replay.record_log import RecordLog

oracles.package("playwright")
from studio_browser import Visit, axe_source, serve  # noqa: E402


@pytest.mark.long
def test_a_piece_is_dragged_and_a_pawn_becomes_what_is_asked(browser: Any) -> None:
    game = Game("chess")
    studio, table = quiet_studio(game)
    table.new((HUMAN, HUMAN), "7k/4P3/8/8/8/8/8/K7 w - - 0 1")
    with serve(studio) as address:
        visit = Visit(browser, address)
        visit.page.locator("#page-play [data-cell='12']").drag_to(visit.page.locator("#page-play [data-cell='4']"))
        visit.page.get_by_role("button", name="White knight").click()
        wait_for(lambda: table.ply == 1)
        assert table.state()["moves"] == ["e7e8n"]
        cell = "#page-play [data-cell='{}']".format
        visit.page.locator(cell(7)).drag_to(visit.page.locator(cell(40)))  # illegal
        assert table.state()["moves"] == ["e7e8n"]
        visit.close()


def test_every_click_of_the_set_up_widget(browser: Any) -> None:
    studio, _ = quiet_studio(Game("tic_tac_toe"))
    cells, turn, drawn = [""] * 9, 0, random.Random(8)
    order = [4, 0, 4, 8, 0, 1, 2, 2, 6, 3, 6] + [drawn.randrange(9) for _ in range(12)]
    with serve(studio) as address:
        visit = Visit(browser, address, "see")
        page = visit.page
        page.wait_for_selector("#page-see .plane")
        for cell in order:
            if not cells[cell] and ("to move" not in page.locator("#page-see .status").inner_text()):
                continue  # the game is over: no player is to move
            page.locator(f"#page-see [data-cell='{cell}']").click()
            if cells[cell]:
                cells[cell] = ""
            else:
                cells[cell], turn = "XO"[turn], 1 - turn
            planes = [[str(int(mark == one)) for one in cells] for mark in "XO"] + [[str(1 - turn)] * 9]
            text = " ".join(number for plane in planes for number in plane)
            visit.wait_until("text => document.querySelector('#page-see .vector pre').textContent === text", text)
            shown = page.locator("#page-see .plane").evaluate_all(
                "tables => tables.map(table => [...table.querySelectorAll('td')].map(cell => cell.textContent))")
            assert shown == planes
        page.get_by_role("button", name="Clear").click()
        visit.wait_until("text => document.querySelector('#page-see .vector pre').textContent === text",
                         " ".join(["0"] * 18 + ["1"] * 9))
        visit.close()


def test_the_temperature_slider_draws_the_same_bars_as_the_engine(browser: Any) -> None:
    studio, _ = quiet_studio(Game("tic_tac_toe"))
    with serve(studio) as address:
        visit = Visit(browser, address)
        page = visit.page
        page.get_by_text("Type in visits").click()
        assert page.locator("#typed-visits").input_value() == "10, 20, 150, 5, 40"

        def shares() -> list[float]:
            bars = page.locator(".bars.typed .bar")
            return list(map(float, bars.evaluate_all("bars => bars.map(bar => bar.dataset.share)")))

        for temperature in (0.01, 0.04, 0.05, 0.3, 1.0, 2.0):
            page.locator("#temperature").fill(str(temperature))
            assert shares() == pytest.approx(move_probabilities([10, 20, 150, 5, 40], temperature), abs=1e-5)
        assert "N=150" in page.locator(".bars.typed").inner_text()
        page.locator("#typed-visits").fill("1, 3")
        page.locator("#temperature").fill("1")
        assert shares() == pytest.approx([0.25, 0.75])
        page.locator("#typed-visits").fill("many")
        assert page.locator("#typed-visits").get_attribute("aria-invalid") == "true"
        visit.close()


@pytest.mark.long
def test_the_search_is_seen_and_the_engine_answers(browser: Any) -> None:
    with serve(make_studio(Game("connect_four"), simulations=64)) as address:
        visit = Visit(browser, address)
        page = visit.page
        page.wait_for_selector("#page-play .heat")
        page.locator("#page-play [data-cell='3']").click()
        visit.wait_until("() => document.querySelectorAll('#page-play .movelist li').length === 2")
        assert page.locator("#page-play tbody tr").count() > 0
        page.get_by_role("button", name="Undo").click()
        visit.wait_until("() => document.querySelectorAll('#page-play .movelist li').length === 0")
        visit.close()


@pytest.mark.long
def test_the_keyboard_plays_and_changes_pages(browser: Any) -> None:
    studio, table = quiet_studio(Game("tic_tac_toe"))
    with serve(studio) as address:
        visit = Visit(browser, address)
        page = visit.page
        page.locator("#page-play [data-cell='0']").focus()
        for key in ("ArrowRight", "ArrowDown", "Enter"):
            page.keyboard.press(key)
        wait_for(lambda: table.actions == [4])
        visit.wait_until("() => document.activeElement.dataset.cell === '4'")
        page.keyboard.press("ArrowLeft")
        page.keyboard.press(" ")
        wait_for(lambda: table.actions == [4, 3])
        page.locator("#tab-play").focus()
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.id") == "tab-see"
        assert page.locator("#page-see").is_visible()
        visit.close()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two runs with metrics, the first with games."""
    game, drawn = Game("tic_tac_toe"), np.random.default_rng(1)
    for name in ("first", "second"):
        sink = MetricsSink(tmp_path / name)
        for step in range(0, 1000, 50):
            losses = {f"loss/{part}": float(2 * 0.998**step + drawn.normal(0, 0.02)) for part in ("policy", "value")}
            sink.write(Metrics(step, step / 3, "learner", {**losses, "steps_per_s": 3.0}))
            sink.write(Metrics(step, step / 3, "replay", {"rows": 10 * step, "window": 10_000}))
            sink.write(Metrics(step, step / 3, "strength", {"policy.optimal": 1 - 0.998**step}))
        sink.close()
    RecordLog(tmp_path / "first" / "records").append([encode_record(random_game(game, seed)) for seed in range(1, 9)])
    return tmp_path / "first"


@pytest.mark.long
def test_games_of_a_run_are_watched_as_they_end(browser: Any, run: Path) -> None:
    studio, _ = quiet_studio(Game("tic_tac_toe"), run)
    with serve(studio) as address:
        visit = Visit(browser, address, "watch")
        page = visit.page
        visit.wait_until("() => document.querySelectorAll('#page-watch .games tbody tr').length === 8")
        newest = random_game(Game("tic_tac_toe"), 20)
        RecordLog(run / "records").append([encode_record(newest)])
        visit.wait_until("() => document.querySelectorAll('#page-watch .games tbody tr').length === 9")
        page.get_by_role("button", name=re.compile("^Game 9:")).click()
        for _ in range(len(newest)):
            page.get_by_role("button", name="One move on").click()
        visit.wait_until("() => /won|drawn/.test(document.querySelector('#page-watch .main .status').textContent)")
        assert page.locator("#page-watch .cell .piece").count() == len(newest)
        page.locator("#filter-winner").select_option("draw")
        visit.wait_until("() => document.querySelectorAll('#page-watch .games tbody tr').length < 9")
        visit.close()


@pytest.mark.long
def test_two_runs_lie_over_each_other(browser: Any, run: Path) -> None:
    studio, _ = quiet_studio(Game("tic_tac_toe"), run)
    with serve(studio) as address:
        visit = Visit(browser, address, "learn")
        page = visit.page
        page.wait_for_selector("#page-learn canvas")
        titles = page.locator("#page-learn h2").all_inner_texts()
        assert any("LOSSES" in title.upper() for title in titles)
        page.locator("#learn-other").select_option("second")
        page.get_by_text("policy (second)").wait_for()
        visit.close()


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_and_a_phone_does_not_scroll_sideways(browser: Any, run: Path, scheme: str) -> None:
    axe = axe_source()
    with serve(make_studio(Game("connect_four"), run)) as address:
        for width in (1360, 390):
            visit = Visit(browser, address, viewport={"width": width, "height": 844}, color_scheme=scheme)
            for tab in ("play", "see", "watch", "learn"):
                visit.page.locator(f"#tab-{tab}").click()
                visit.page.wait_for_selector(f"#page-{tab} .picture" if tab != "learn" else "#page-learn canvas")
                visit.page.evaluate(axe)
                found = visit.page.evaluate("axe.run().then(result => result.violations.map(one => "
                                            "[one.impact, one.id, one.nodes.map(node => node.html.slice(0, 200))]))")
                assert [one for one in found if one[0] in ("serious", "critical")] == [], (tab, width)
                assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (tab, width)
            visit.close()
