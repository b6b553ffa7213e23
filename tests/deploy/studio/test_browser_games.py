"""Whole games by clicks on each kind of board, and games of files, in Chromium."""

import random
from pathlib import Path
from typing import Any

import oracles
import pytest
from studio_fixtures import make_table, quiet_studio, wait_for

from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.common._core import Game
from shusaku.deploy.records.files import read_records, write_records
from shusaku.deploy.studio.studio import Studio
from shusaku.deploy.studio.table import HUMAN

oracles.package("playwright")
from studio_browser import Visit, serve  # noqa: E402

LONG = pytest.mark.long
GAMES = [("tic_tac_toe", {}), *(pytest.param(name, params, marks=LONG) for name, params in (
    ("connect_four", {}), ("othello", {"size": 6}), ("hex", {"size": 4}), ("go", {"size": 5}),
    ("chess", {"max_plies": 40}), ("minishogi", {"max_plies": 50}), ("shogi", {"max_plies": 40})))]
PASSING_PLY = 14  # both pass from here on


def click_move(visit: Visit, move: dict[str, Any], legal: list[dict[str, Any]]) -> None:
    page, cell = visit.page, "#page-play [data-cell='{}']".format
    if move["move"] == "pass":
        page.get_by_role("button", name="Pass", exact=True).click()
        return
    if "from" in move:
        page.locator(cell(move["from"])).click()
    elif "drops" in move:
        page.locator(f".hand.own button[data-drops='{move['drops']}']").click()
    page.locator(cell(move["to"])).click()
    same = [one for one in legal if all(one.get(key) == move.get(key) for key in ("from", "drops", "to"))]
    if len(same) > 1:
        page.locator(f"dialog [data-makes='{move['makes'] or '='}']").click()


def choose(legal: list[dict[str, Any]], ply: int, drawn: random.Random) -> dict[str, Any]:
    """Drops and promotions before other moves; passes late in the game."""
    passes = [move for move in legal if move["move"] == "pass"]
    plays = [move for move in legal if move["move"] != "pass"]
    if passes and (ply >= PASSING_PLY or not plays):
        return passes[0]
    special = [move for move in plays if move.get("drops") or move.get("makes")]
    return drawn.choice(special or plays)


@pytest.mark.parametrize(("name", "params"), GAMES)
def test_a_whole_game_is_played_by_clicks(browser: Any, name: str, params: dict[str, Any]) -> None:
    game, drawn = Game(name, params), random.Random(4)
    studio, table = quiet_studio(game)
    with serve(studio) as address:
        visit = Visit(browser, address)
        while not (state := table.state())["result"]:
            move = choose(state["legal"], state["cursor"], drawn)
            click_move(visit, move, state["legal"])
            wait_for(lambda ply=state["cursor"] + 1: table.ply == ply)
            assert table.actions[-1] == move["action"]
            visit.wait_until("text => document.querySelector('#page-play .status').textContent.includes(text)",
                             f" {move['move']}. ")
        assert state["result"] in visit.page.locator("#page-play .status").inner_text()
        assert visit.page.locator("#page-play .movelist li").count() == len(state["moves"])
        visit.close()


@LONG
@pytest.mark.parametrize(("notation", "name", "params"), [
    ("sgf", "go", {"size": 9}), ("pgn", "chess", {}), ("kifu", "shogi", {}), ("csa", "shogi", {}),
    ("jsonl", "connect_four", {})])
def test_a_file_is_opened_reviewed_and_saved(
    browser: Any, tmp_path: Path, notation: str, name: str, params: dict[str, Any]
) -> None:
    game, drawn = Game(name, params), random.Random(7)
    _, other = quiet_studio(game)
    other.new((HUMAN, HUMAN))
    for _ in range(8):
        other.play(drawn.choice([action for action in other.position.legal_actions if action < game.num_actions - 1]))
    file = tmp_path / f"game.{notation}"
    file.write_text(write_records([other.record()], file.name, comments=False), encoding="utf-8")
    table = make_table(game, 64)
    studio = Studio(table, game, PseudoRandomEvaluator(game, 1), None, title=name)
    with serve(studio) as address:
        visit = Visit(browser, address)
        page = visit.page
        page.locator("#file").set_input_files(file)
        visit.wait_until("() => document.querySelectorAll('#page-play .movelist li').length === 8")
        page.get_by_role("button", name="Review the whole game").click()
        wait_for(lambda: all(value is not None for value in table.values))
        visit.wait_until("() => document.querySelector('#page-play .movelist li:last-child [aria-current]')")
        if drops := table.drops():
            shown = "many => document.querySelectorAll('#page-play .drops button').length === many"
            visit.wait_until(shown, len(drops))
            page.locator("#page-play .drops button").first.click()
            wait_for(lambda: table.ply == drops[0]["ply"])
        page.locator("#page-play .status").click()
        page.keyboard.press("Home")
        visit.wait_until("() => !document.querySelector('#page-play .movelist [aria-current]')")
        page.locator("#notation").select_option(notation)
        with page.expect_download() as download:
            page.get_by_role("button", name="Save", exact=True).click()
        saved = read_records(Path(download.value.path()).read_bytes(), file.name)
        assert [move.action for move in saved.records[0].moves] == other.actions
        visit.close()
