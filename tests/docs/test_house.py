"""docs/design/house.md shows the folders of the product as they are."""

import re
import subprocess
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("actors", "common", "configs", "deploy", "learner", "replay")
FOLDER = re.compile(r"^( *)([\w.]+)/(?: {2,}.*)?$")
NO_ROOMS = ("docker", "kubernetes", "slurm", "grafana", "prometheus")  # data of other programs


def folders_of_the_tree() -> set[str]:
    listed = subprocess.run(["git", "ls-files", *PACKAGES], cwd=ROOT, capture_output=True, text=True, check=True)
    parents = {parent.as_posix() for name in listed.stdout.split() for parent in PurePosixPath(name).parents}
    return {name for name in parents - {"."} if not set(name.split("/")) & set(NO_ROOMS)}


def folders_of_the_page() -> list[str]:
    page = (ROOT / "docs/design/house.md").read_text(encoding="utf-8")
    floors = re.search(r"## Floors\n\n```\n(.*?)```", page, re.DOTALL)
    assert floors is not None
    path: list[str] = []
    found = []
    for line in floors[1].splitlines():
        matched = FOLDER.match(line)
        assert matched is not None, line
        path = [*path[: len(matched[1]) // 2], matched[2]]
        found.append("/".join(path))
    return found


def test_the_page_shows_every_folder_once() -> None:
    shown = folders_of_the_page()
    assert len(shown) == len(set(shown))
    assert set(shown) == folders_of_the_tree()
