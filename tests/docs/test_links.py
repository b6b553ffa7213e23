"""Links between pages lead to files and headings that exist, and so do paths that code and pages mention."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TRACKED = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
PAGES = [name for name in TRACKED if name.endswith(".md")]
TEXTS = (".md", ".py", ".h", ".cpp", ".sh", ".yaml", ".toml", "Makefile")
LINK = re.compile(r"(?<!\\)\]\(([^)\s]+)\)")
IMAGE = re.compile(r'(?:src|srcset)="([^"]+)"')
MENTION = re.compile(r"(?<![\w/.])((?:docs|benchmarks)/[\w./-]*[\w-]\.(?:md|py|sh|cpp|png|svg|gif|jsonl?))\b")
OF_OTHERS = ("docs/GraphSearch.md", "docs/KataGoMethods.md")  # pages of KataGo's repository


def heading_anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of a page's headings."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_to_files_and_headings(name: str) -> None:
    page = ROOT / name
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    broken = []
    for link in LINK.findall(text) + IMAGE.findall(text):
        target, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        file = (page.parent / target).resolve() if target else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in heading_anchors(file)):
            broken.append(link)
    assert not broken


def test_paths_that_are_mentioned_exist() -> None:
    missing = []
    for name in TRACKED:
        if not name.endswith(TEXTS) or name == "CHANGELOG.md" or not (ROOT / name).is_file():
            continue
        for path in MENTION.findall((ROOT / name).read_text(encoding="utf-8")):
            if path not in OF_OTHERS and not (ROOT / path).exists():
                missing.append(f"{name}: {path}")
    assert not missing
