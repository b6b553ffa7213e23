"""Makes docs/images/shusaku.gif: a real run in a terminal, then a game of the network that it trained, move by move.

    python -m benchmarks.record_demo            # trains for five minutes in tmux, plays a game, draws the picture
    python -m benchmarks.record_demo --draw     # draws the picture from the frames of the last recording

The frames are the text that the terminal shows, with its colours: benchmarks/results/demo.json keeps them with machine,
commit and date.  Pillow draws them with the font that matplotlib brings.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import matplotlib
from PIL import Image, ImageDraw, ImageFont
from rich.console import Console
from rich.style import Style
from rich.text import Text

from benchmarks.lib import RESULTS, ROOT, commit, machine
from shusaku.common._core import Game

FRAMES = RESULTS / "demo.json"
PICTURE = ROOT / "docs" / "images" / "shusaku.gif"
COLUMNS, ROWS = 100, 26
COMMAND = "shusaku train run.minutes={minutes} strength.final=false run.dir=runs/demo"
CAPTURE_SECONDS = 2.0
TRAINING_MS, MOVE_MS, LAST_MS = 160, 900, 3500  # how long a frame is shown
FONT_SIZE, BACKGROUND, FOREGROUND = 13, (24, 26, 32), (212, 214, 220)
MATCH = ("first.search.simulations=400", "second.engine=mcts", "second.search.simulations=100")
OF_THIS_MACHINE = re.compile(r"auth_token|/tmp/|Ray's logs")  # lines that name its paths are not shown
DISCS = {"X": Text("●", "bright_red"), "O": Text("●", "bright_yellow"), ".": Text("·", "dim")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", action="store_true", help="do not record, only draw")
    parser.add_argument("--minutes", type=float, default=5.0)
    options = parser.parse_args()
    if not options.draw:
        made = {"command": "python -m benchmarks.record_demo", "machine": machine(), "commit": commit(),
                "date": time.strftime("%Y-%m-%d", time.gmtime()), **record(options.minutes)}
        FRAMES.write_text(json.dumps(made, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
    draw(json.loads(FRAMES.read_text(encoding="utf-8"))["frames"], PICTURE)
    print(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size / 1e6:.2f} MB")


def record(minutes: float) -> dict[str, Any]:
    """A run and a game: `frames` of `text` with ANSI colours and `ms`, and what both commands print for README."""
    with tempfile.TemporaryDirectory(prefix="demo-") as folder:
        frames = training_frames(Path(folder), minutes)
        match = ["match", "first.checkpoint=runs/demo", *MATCH, "games=40", "match.file=games.jsonl"]
        command = [sys.executable, "-m", "shusaku", *match]
        printed = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout
        games = [json.loads(line) for line in (Path(folder) / "games.jsonl").read_text(encoding="utf-8").splitlines()]
    played = min((game for game in games if game["points"] == 1.0), key=lambda game: game["game"])
    block = Text.from_ansi(frames[-1]["text"]).plain.partition("╭")
    shown = {"train_command": COMMAND.format(minutes=f"{minutes:g}"), "train": "".join(block[1:]),
             "match_command": " ".join(["shusaku", *match[:-1]]), "match": "first " + printed.partition("\nfirst ")[2]}
    return {**shown, "frames": frames + game_frames(played)}


def training_frames(folder: Path, minutes: float) -> list[dict[str, Any]]:
    """What the terminal shows while the run goes on, in a tmux of its own."""
    command = COMMAND.format(minutes=f"{minutes:g}")
    words = command.replace("shusaku", f"nice -n 5 {sys.executable} -m shusaku", 1)
    tmux = ["tmux", "-S", str(folder / "tmux")]
    size = ["-x", str(COLUMNS), "-y", str(ROWS)]
    subprocess.run([*tmux, "new-session", "-d", *size, "-c", str(folder), f"{words}; sleep 5"], check=True)
    frames: list[dict[str, Any]] = []
    prompt = Text.assemble(("$ ", "bold green"), command)
    while True:
        shown = subprocess.run([*tmux, "capture-pane", "-e", "-p"], capture_output=True, text=True, check=False)
        if shown.returncode:  # the command has ended, and tmux with it
            break
        lines = [line.rstrip() for line in shown.stdout.splitlines() if not OF_THIS_MACHINE.search(line)]
        text = "\n".join([ansi(prompt), *lines]).rstrip()
        if not frames or frames[-1]["text"] != text:
            frames.append({"text": text, "ms": TRAINING_MS})
        time.sleep(CAPTURE_SECONDS)
    frames[-1]["ms"] = LAST_MS
    return frames


def game_frames(played: dict[str, Any]) -> list[dict[str, Any]]:
    """A frame for each position of a finished game of `shusaku match`."""
    position = Game("connect_four").start()
    frames = [board_frame(position, "", played)]
    for move in played["moves"]:
        position.play(position.from_move(move))
        frames.append(board_frame(position, move, played))
    frames[-1]["ms"] = LAST_MS
    return frames


def board_frame(position: Any, move: str, played: dict[str, Any]) -> dict[str, Any]:
    """The board in colours, with the players and the last move."""
    title = Text.assemble(("$ ", "bold green"), "shusaku match first.checkpoint=runs/demo second.engine=mcts ...")
    names = ("Shusaku after these minutes", f"plain UCT with {MATCH[-1].rpartition('=')[2]} rollouts")
    if not played["first_moves_first"]:
        names = (names[1], names[0])
    lines = [title, Text()]
    lines += [Text.assemble("    ", DISCS[stone], f" {name}") for stone, name in zip("XO", names, strict=True)]
    lines.append(Text())
    for row in str(position).splitlines():
        lines.append(Text("        ") + Text.assemble(*(DISCS.get(cell, Text(cell)) for cell in row)))
    result = Text(f"    move {position.ply}: {move}" if move else "    the first move")
    if position.is_terminal:
        winner = None if position.outcome == 0 else 1 - position.to_play
        result = Text("    drawn" if winner is None else f"    {names[winner]} wins", "bold green")
    return {"text": "\n".join(ansi(line) for line in [*lines, Text(), result]), "ms": MOVE_MS}


def ansi(text: Text) -> str:
    """The text with its colours as escape sequences."""
    console = Console(force_terminal=True, color_system="standard", width=COLUMNS, legacy_windows=False)
    with console.capture() as capture:
        console.print(text, end="", soft_wrap=True)
    return capture.get()


def draw(frames: list[dict[str, Any]], picture: Path) -> None:
    """An animated GIF with one palette for all frames; Pillow keeps only what changes between two of them."""
    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    fonts = [ImageFont.truetype(str(folder / f"DejaVuSansMono{name}.ttf"), FONT_SIZE) for name in ("", "-Bold")]
    images = [draw_frame(frame["text"], fonts) for frame in frames]
    samples = Image.new("RGB", (images[0].width, 2 * images[0].height))
    samples.paste(images[len(images) // 2], (0, 0))
    samples.paste(images[-1], (0, images[0].height))
    palette = samples.quantize(64)
    flat = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    picture.parent.mkdir(parents=True, exist_ok=True)
    flat[0].save(picture, save_all=True, append_images=flat[1:], duration=[frame["ms"] for frame in frames], loop=0,
                 optimize=True)


def draw_frame(text: str, fonts: list[ImageFont.FreeTypeFont]) -> Image.Image:
    """One frame, a cell for each character."""
    width, height = round(fonts[0].getlength("M")), FONT_SIZE + 4
    image = Image.new("RGB", ((COLUMNS + 2) * width, (ROWS + 2) * height), BACKGROUND)
    pen = ImageDraw.Draw(image)
    for row, line in enumerate(text.splitlines()[: ROWS + 1]):
        parsed = Text.from_ansi(line)
        for column, character in enumerate(parsed.plain[:COLUMNS]):
            if character != " ":
                style = parsed.get_style_at_offset(Console(), column)
                place = ((column + 1) * width, row * height + height // 2)
                pen.text(place, character, colour_of(style), fonts[bool(style.bold)])
    return image


def colour_of(style: Style) -> tuple[int, int, int]:
    """The style's colour; dim text is halfway to the background."""
    colour = tuple(style.color.get_truecolor()) if style.color and not style.color.is_default else FOREGROUND
    if style.dim:
        colour = tuple((2 * part + back) // 3 for part, back in zip(colour, BACKGROUND, strict=True))
    red, green, blue = colour
    return red, green, blue


if __name__ == "__main__":
    main()
