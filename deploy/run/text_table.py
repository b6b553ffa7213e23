"""Tables of plain text."""

from collections.abc import Sequence
from itertools import chain


def text_table(*blocks: Sequence[Sequence[str]]) -> list[str]:
    """Lines of equal columns, the first one flush left and the others flush right, with a rule between two blocks."""
    first, *others = [max(map(len, column)) for column in zip(*chain(*blocks), strict=True)]
    rule = "-" * (first + sum(width + 2 for width in others))
    lines: list[str] = []
    for block in blocks:
        lines += [rule] if lines else []
        for name, *cells in block:
            right = (f"  {cell:>{width}}" for cell, width in zip(cells, others, strict=True))
            lines.append(f"{name:<{first}}{''.join(right)}".rstrip())
    return lines
