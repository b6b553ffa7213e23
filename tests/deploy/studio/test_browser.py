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
from shusaku.deploy.studio.feed import Filters
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


@pytest.mark.long
def test_the_question_for_a_piece_stays_until_the_position_is_another(browser: Any) -> None:
    studio, table = quiet_studio(Game("chess"))
    table.new((HUMAN, HUMAN), "7k/4P3/8/8/8/8/8/K7 w - - 0 1")
    with serve(studio) as address:
        visits = [Visit(browser, address) for _ in range(2)]
        first, second = (visit.page for visit in visits)
        cell = "#page-play [data-cell='{}']".format

        def ask() -> None:
            first.locator(cell(12)).click()
            first.locator(cell(4)).click()
            first.locator("dialog[open]").wait_for()

        ask()
        second.locator("#temperature").fill("0.5")  # a message to all, of the same position
        visits[0].wait_until("() => document.querySelector('#temperature').value === '0.5'")
        first.get_by_role("button", name="White knight").click()
        wait_for(lambda: table.ply == 1)
        assert table.state()["moves"] == ["e7e8n"]
        visits[0].wait_until("() => document.activeElement.dataset.cell === '4'")
        first.get_by_role("button", name="Undo").click()
        visits[0].wait_until("() => document.querySelectorAll('#page-play .movelist li').length === 0")
        ask()
        first.keyboard.press("Escape")
        visits[0].wait_until("() => !document.querySelector('dialog')")
        ask()
        visits[1].wait_until("() => document.querySelectorAll('#page-play .movelist li').length === 0")
        second.locator(cell(56)).click()
        second.locator(cell(48)).click()
        visits[0].wait_until("() => !document.querySelector('dialog')")
        assert table.state()["moves"] == ["a1a2"]
        for visit in visits:
            visit.close()


@pytest.mark.long
def test_a_drag_that_the_system_ends_plays_nothing(browser: Any) -> None:
    studio, table = quiet_studio(Game("chess"))
    with serve(studio) as address:
        visit = Visit(browser, address)
        page = visit.page
        places = [page.locator(f"#page-play [data-cell='{cell}']").bounding_box() for cell in (52, 36)]  # e2, e4
        (x, y), (to_x, to_y) = ((box["x"] + box["width"] / 2, box["y"] + box["height"] / 2) for box in places if box)
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(to_x, to_y, steps=4)
        assert page.locator("#page-play .dragged").count() == 1
        page.evaluate("([clientX, clientY]) => dispatchEvent(new PointerEvent('pointercancel', {clientX, clientY}))",
                      [to_x, to_y])
        assert page.locator("#page-play .dragged, #page-play .piece[transform]").count() == 0
        page.mouse.up()
        page.locator("#page-play [data-cell='51']").drag_to(page.locator("#page-play [data-cell='35']"))
        wait_for(lambda: table.ply == 1)
        assert table.state()["moves"] == ["d2d4"]
        visit.close()


def test_a_double_click_plays_one_move(browser: Any) -> None:
    studio, table = quiet_studio(Game("connect_four"))
    with serve(studio) as address:
        visit = Visit(browser, address)
        page = visit.page
        shows = "count => document.querySelectorAll('#page-play .movelist li').length === count"
        page.locator("#page-play [data-cell='3']").click()
        visit.wait_until(shows, 1)  # the answer has come before the second half of a slow double click
        page.mouse.down(click_count=2)
        page.mouse.up(click_count=2)
        page.locator("#page-play [data-cell='5']").dblclick()
        visit.wait_until(shows, 2)
        page.locator("#page-play [data-cell='6']").click()
        visit.wait_until(shows, 3)
        assert table.actions == [3, 5, 6]
        visit.close()


KEEP_SOCKET = """
const Plain = WebSocket;
window.WebSocket = class extends Plain {
  constructor(...given) { super(...given); window.sockets = [...(window.sockets ?? []), this]; }
};"""


@pytest.mark.long
def test_a_page_that_connects_again_shows_what_is_in_force(browser: Any, run: Path) -> None:
    studio, _ = quiet_studio(Game("tic_tac_toe"), run)
    with serve(studio) as address:
        visit = Visit(browser, address)
        page = visit.page
        visit.context.add_init_script(KEEP_SOCKET)
        page.reload()
        page.locator("#page-play .picture").wait_for()
        page.locator("#layer").select_option("prior")
        corner = "() => document.querySelector(\"#page-play [data-cell='0'] .face\").getAttribute('x')"
        assert page.evaluate(corner) == "0"
        page.get_by_role("button", name="Flip").click()
        assert page.evaluate(corner) == "80"
        page.locator("#tab-watch").click()
        assert page.locator("#filter-most_plies").input_value() == ""  # any number
        page.locator("#filter-winner").select_option("first")
        for name, number in (("least_plies", "2"), ("most_plies", "7")):
            page.locator(f"#filter-{name}").fill(number)
            page.locator(f"#filter-{name}").press("Tab")
        page.get_by_text("8 games seen").wait_for()
        wait_for(lambda: [viewer.filters for viewer in list(studio.viewers)] == [Filters("first", "", 2, 7, 0)])
        page.evaluate("() => { for (const socket of window.sockets) socket.close(); }")
        visit.wait_until("() => window.sockets.length === 2")
        page.get_by_text("8 games seen").wait_for()
        wait_for(lambda: [viewer.filters for viewer in list(studio.viewers)] == [Filters("first", "", 2, 7, 0)])
        shown = {name: page.locator(f"#filter-{name}").input_value()
                 for name in ("winner", "ended", "least_plies", "most_plies", "least_version")}
        assert shown == {"winner": "first", "ended": "", "least_plies": "2", "most_plies": "7", "least_version": ""}
        page.locator("#filter-most_plies").fill("")
        page.locator("#filter-most_plies").press("Tab")
        wait_for(lambda: [viewer.filters.most_plies for viewer in list(studio.viewers)] == [1 << 20])
        page.locator("#tab-play").click()
        assert page.locator("#layer").input_value() == "prior"
        assert page.evaluate(corner) == "80"
        visit.close()


@pytest.mark.long
def test_a_file_that_is_too_large_is_named_before_it_is_sent(browser: Any, tmp_path: Path) -> None:
    studio, table = quiet_studio(Game("tic_tac_toe"))
    with serve(studio) as address:
        visit = Visit(browser, address)
        page = visit.page
        page.locator("#page-play .picture").wait_for()
        archive = tmp_path / "archive.jsonl"
        archive.write_bytes(b"\n" * ((3 << 20) + 1))
        page.locator("#file").set_input_files(archive)
        page.get_by_text("archive.jsonl: 3.1 MiB; at most 3 MiB are read: split it").wait_for()
        page.locator("#page-play [data-cell='4']").click()  # by the same socket
        wait_for(lambda: table.actions == [4])
        assert ".kifu" in str(page.locator("#file").get_attribute("accept"))
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
def test_the_bars_follow_another_viewer_s_temperature_while_the_slider_has_the_focus(browser: Any) -> None:
    studio, _ = quiet_studio(Game("tic_tac_toe"))
    with serve(studio) as address:
        visits = [Visit(browser, address) for _ in range(2)]
        first, second = (visit.page for visit in visits)
        first.locator("#temperature").fill("1")
        first.locator("#temperature").focus()
        second.locator("#temperature").fill("0.3")
        visits[0].wait_until("() => document.querySelector('#temperature').value === '0.3'")
        bars = first.locator(".bars.typed .bar").evaluate_all("bars => bars.map(bar => bar.dataset.share)")
        assert list(map(float, bars)) == pytest.approx(move_probabilities([10, 20, 150, 5, 40], 0.3), abs=1e-5)
        for visit in visits:
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
        visit.wait_until("() => document.querySelectorAll('#page-play .movelist li').length === 1")
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
