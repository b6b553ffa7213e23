"""The strength of a network beside players that have learned nothing, as plain text."""

from shusaku.actors.arena.strength import Share, Strength

_BASELINE_NAMES = {
    "random": "random mover",
    "puct_64_uniform": "PUCT-64, uniform prior",
    "uct_64": "plain UCT, 64 rollouts",
    "uct_400": "plain UCT, 400 rollouts",
}


def strength_table(strength: Strength) -> str:
    """Lines of equal columns: player, share of optimal moves, mistakes, and the share in every bucket."""
    players = [("network alone", strength.policy)]
    players += [(f"{n} simulations", share) for n, share in strength.searches.items()]
    others = [(baseline_name(name), share) for name, share in strength.baselines.items()]
    buckets = list(strength.policy.by_bucket)
    if len(buckets) == 1:
        buckets = []  # it would repeat the column `optimal`
    # Bucket names stand in two lines, so that the table fits 80 columns.
    above = ["", "", "", *(bucket.partition("_")[0] for bucket in buckets)]
    header = ["", "optimal", "mistakes", *(bucket.partition("_")[2] for bucket in buckets)]
    rows = [_cells(name, share, buckets) for name, share in players]
    rows_of_others = [_cells(name, share, buckets) for name, share in others]
    widths = [max(map(len, column)) for column in zip(above, header, *rows, *rows_of_others, strict=True)]
    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    lines = [table_line(above, widths)] if buckets else []
    lines += [table_line(header, widths), rule, *(table_line(row, widths) for row in rows)]
    if others:
        lines += [rule, *(table_line(row, widths) for row in rows_of_others)]
    lines += ["", f"{strength.positions:,} positions of {strength.game}; optimal: the share of moves that keep the "
                  "result of the game" + (", mean over the buckets" if buckets else "")]
    if strength.never_loses is not None:
        lines.append(f"never loses, from either side against every reply: {'yes' if strength.never_loses else 'NO'}")
    return "\n".join(lines)


def baseline_name(name: str) -> str:
    """What a reader calls a baseline: `uct_64` -> "plain UCT, 64 rollouts"."""
    return _BASELINE_NAMES.get(name, name)


def _cells(name: str, share: Share, buckets: list[str]) -> list[str]:
    shares = [f"{share.by_bucket[bucket]:.3f}" for bucket in buckets]
    return [name, f"{share.optimal:.4f}", f"{share.mistakes:,.0f}", *shares]


def table_line(cells: list[str], widths: list[int]) -> str:
    """The first cell at the left of its column, the others at the right of theirs."""
    others = (cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))
    return "  ".join([cells[0].ljust(widths[0]), *others]).rstrip()
