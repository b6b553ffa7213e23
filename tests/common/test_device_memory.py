"""A process with a share of a GPU takes no more of its memory than that."""

import pytest
import torch

from shusaku.common.device_memory import limit_memory


@pytest.mark.parametrize(("share", "device", "text"), [
    (0.5, "cuda", ", at most 50 % of its memory, in turns with others"),
    (1.0, "cuda", ""), (2.0, "cuda", ""), (0.0, "cuda", ""),
    (0.5, "cpu", ""),
])
def test_the_share_is_the_limit(share: float, device: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[tuple[float, int]] = []
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction",
                        lambda share, index: limits.append((share, index)))
    assert limit_memory(share, torch.device(device)) == text
    assert limits == ([(share, 0)] if text else []), "torch takes no device without a number here"
