"""For whoever starts or joins a Ray."""

from pathlib import Path

import pytest
from ray_variables import RAY_VARIABLES


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home of our own and no variable of Ray's; returns the path of the default token."""
    for name in RAY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))  # where RAY_ADDRESS=auto looks
    return tmp_path / ".ray" / "auth_token"
