"""Shusaku learns board games by self-play; from Python, its networks play them.

    import shusaku

    player = shusaku.load("runs/connect_four")  # or a checkpoint, or a weights file
    position = player.game.start()
    while not position.is_terminal:
        position.play(player.choose(position).action)
    print(position)

A name is imported when it is first used: `import shusaku` alone loads neither torch nor Ray.
"""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shusaku.common._core import Game, Position
    from shusaku.common.errors import ResumeError, UsageError
    from shusaku.deploy.api.player import Choice, Player, load

__all__ = ["Choice", "Game", "Player", "Position", "ResumeError", "UsageError", "load"]

_ROOT = Path(__file__).resolve().parents[3]
if Path(__file__).resolve().parent == _ROOT / "deploy" / "api" / "shusaku":
    __path__.append(str(_ROOT))  # a checkout: its folders are the subpackages; in the wheel they lie beside this file

_MODULES = {
    "Choice": "deploy.api.player", "Game": "common._core", "Player": "deploy.api.player", "Position": "common._core",
    "ResumeError": "common.errors", "UsageError": "common.errors", "load": "deploy.api.player",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'shusaku' has no attribute '{name}'")
    return getattr(importlib.import_module(f"shusaku.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
