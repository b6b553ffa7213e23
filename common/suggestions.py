"""The known word that a mistyped one most likely stands for."""

from collections.abc import Iterable
from difflib import SequenceMatcher


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that looks most like this one; a last part may match alone (`minutes` -> `run.minutes`)."""

    def likeness(candidate: str) -> float:
        whole = SequenceMatcher(None, word, candidate).ratio()
        last = SequenceMatcher(None, word.rpartition(".")[2], candidate.rpartition(".")[2]).ratio()
        return max(whole, 0.9 * last)

    return max(known, key=likeness)
