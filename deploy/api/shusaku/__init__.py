"""Shusaku."""

from pathlib import Path

_ROOT = Path(__file__).resolve().parents[3]
if (_ROOT / "deploy" / "api" / "shusaku").samefile(Path(__file__).parent):
    __path__.append(str(_ROOT))  # a checkout: its folders are the subpackages; in the wheel they lie beside this file
