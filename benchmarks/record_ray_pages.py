"""Takes the pictures of Ray's pages in docs/images/ray/: `python -m benchmarks.record_ray_pages ADDRESS`.

The dashboard of the pictures is that of a Ray to which a training was submitted:

    PATH=$PWD/.venv/bin:$PATH RAY_AUTH_MODE=disabled ray start --head --num-cpus=4
    RAY_AUTH_MODE=disabled .venv/bin/shusaku submit --wheel none --no-wait -- train actors.count=3 actors.cpus=0.5

without a token, which a page would ask for first.  Needs Playwright and a Chromium on PATH.
"""

import argparse
import shutil
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images" / "ray"
COLOURS = 64  # of a picture, which makes it a third as large
PAGES = {"actors": (r"ALIVE\s*x\s*6", 900), "jobs": ("RUNNING", 590)}  # page -> what it shows once all work, its height
SHORTEN = r"""() => {
    const nodes = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node; (node = nodes.nextNode());) node.data = node.data.replace(/(cd |exec )\S*\//g, "$1");
}"""  # paths of this machine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", help="of the dashboard, such as http://127.0.0.1:8265")
    options = parser.parse_args()
    IMAGES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        for name, (shown, height) in PAGES.items():
            page.set_viewport_size({"width": 1900, "height": height})
            page.goto(f"{options.address}/#/{name}")
            page.wait_for_selector(f"text=/{shown}/", timeout=120_000)
            page.wait_for_timeout(3000)
            page.evaluate(SHORTEN)
            file = IMAGES / f"{name}.png"
            page.screenshot(path=file)
            Image.open(file).convert("P", palette=Image.Palette.ADAPTIVE, colors=COLOURS).save(file, optimize=True)
            print(f"{file.name}: {file.stat().st_size / 1e3:.0f} kB")
        browser.close()


if __name__ == "__main__":
    main()
