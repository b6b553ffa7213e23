"""How many of the newest rows the learner samples from."""

from shusaku.common.config.schema import ReplayConfig


def window_rows(config: ReplayConfig, seen: int) -> int:
    """Size of the window after `seen` rows, at least `minimum` and at most `capacity`: all that fit, or the power law.

    The power law is W(N) = c (x^e - s^e) / (e s^(e-1)) + m with x = N - m + s, where m is `minimum`, e
    `window_exponent`, c `window_factor` and s `window_scale`, the scale of the taper (0: m): at first the window grows
    by c rows for each new row, later more slowly, so that the rows of weak networks leave early (KataGo:
    python/shuffle.py).
    """
    if config.window == "fixed":
        return config.capacity
    m, e, c = float(config.minimum), config.window_exponent, config.window_factor
    if seen <= m:
        return config.minimum
    s = float(config.window_scale or config.minimum)
    # This is c s ((x / s)^e - 1) / e + m, which cannot overflow.
    return min(config.capacity, int(c * s * (((seen - m + s) / s) ** e - 1) / e + m))
