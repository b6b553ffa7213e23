"""The strength of a network beside players that have learned nothing, as plain text."""

from shusaku.actors.arena.strength import Share, Strength
from shusaku.deploy.run.text_table import text_table

_BASELINE_NAMES = {
    "random": "random mover",
    "puct_64_uniform": "PUCT-64, uniform prior",
    "uct_10": "plain UCT, 10 rollouts",
    "uct_64": "plain UCT, 64 rollouts",
    "uct_100": "plain UCT, 100 rollouts",
    "uct_400": "plain UCT, 400 rollouts",
    "uct_1600": "plain UCT, 1,600 rollouts",
}


def strength_table(strength: Strength) -> str:
    """Lines of equal columns: player, share of optimal moves, mistakes, and the share in every bucket."""
    players = {"network alone": strength.policy, **{f"{n} simulations": s for n, s in strength.searches.items()}}
    others = {baseline_name(name): share for name, share in strength.baselines.items()}
    buckets = list(strength.policy.by_bucket)
    if len(buckets) == 1:
        buckets = []  # it would repeat the column `optimal`
    # Bucket names stand in two lines, so that the table fits 80 columns.
    above = ["", "", "", *(bucket.partition("_")[0] for bucket in buckets)]
    header = ["", "optimal", "mistakes", *(bucket.partition("_")[2] for bucket in buckets)]
    blocks = [[_cells(name, share, buckets) for name, share in group.items()] for group in (players, others) if group]
    lines = text_table([above, header] if buckets else [header], *blocks)
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
