"""Takes the pictures of docs/images/studio/ from a studio that runs: `python -m benchmarks.record_studio ADDRESS`.

The studio of the pictures: `shusaku view run.dir=RUN_DIR` of a run of connect four with another run beside it, and a
second one, `shusaku view checkpoint=random game=tic_tac_toe` for See.  Needs Playwright and a Chromium on PATH.
"""

import argparse
import shutil
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images" / "studio"
COLOURS = 128  # of a picture, which makes it a third as large
SIZES = {"desktop": (1360, 900), "phone": (390, 844)}


def play(page: Page) -> None:
    """A few moves, each answered, and what the search says of the next one."""
    page.locator("#sides").select_option("human-engine")
    page.get_by_role("button", name="New game").click()
    for plies, cell in ((2, 38), (4, 37), (6, 39)):
        page.locator(f"#page-play [data-cell='{cell}']").click()
        page.locator("#page-play .movelist li").nth(plies - 1).wait_for()
    page.wait_for_selector("#page-play .heat")
    page.wait_for_timeout(1500)


def see(page: Page) -> None:
    """A position set up by clicks."""
    page.wait_for_selector("#page-see .plane")
    for cell in (4, 0, 8):
        mark = page.locator(f"#page-see [data-cell='{cell}']")
        if mark.locator(".piece").count() == 0:
            mark.click()
        page.wait_for_timeout(300)


def watch(page: Page) -> None:
    """The first game of the list, some moves on."""
    page.wait_for_selector("#page-watch .games tbody tr")
    for _ in range(9):
        page.get_by_role("button", name="One move on").click()
        page.wait_for_timeout(100)
    page.wait_for_timeout(700)


def learn(page: Page) -> None:
    """All charts, of two runs if there is another one."""
    page.wait_for_selector("#page-learn canvas")
    if page.locator("#learn-other option").count() > 1:
        page.locator("#learn-other").select_option(index=1)
    page.wait_for_timeout(700)


PAGES = {"play": play, "see": see, "watch": watch, "learn": learn}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address", help="of a studio, such as http://127.0.0.1:8642")
    parser.add_argument("--pages", default=",".join(PAGES), help="of play,see,watch,learn")
    parser.add_argument("--size", default="desktop", choices=SIZES)
    parser.add_argument("--scheme", default="light", choices=("light", "dark"))
    parser.add_argument("--folder", type=Path, default=IMAGES)
    parser.add_argument("--suffix", default="", help="of the files' names")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    width, height = SIZES[arguments.size]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=arguments.scheme)
        page = context.new_page()
        page.on("console", lambda line: print(f"{line.type}: {line.text}"))
        for name in arguments.pages.split(","):
            page.goto(f"{arguments.address}/#{name}")
            page.reload()
            page.wait_for_selector(f"#page-{name}:not([hidden])")
            PAGES[name](page)
            file = arguments.folder / f"{name}{arguments.suffix}.png"
            page.screenshot(path=file, full_page=arguments.size == "phone")
            Image.open(file).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)
            print(f"{file}: {file.stat().st_size:,} bytes")
        browser.close()


if __name__ == "__main__":
    main()
