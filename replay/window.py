"""How many of the newest rows the learner samples from."""

from dataclasses import dataclass

from shusaku.common.config.schema import ReplayConfig
from shusaku.common.errors import UsageError


@dataclass(frozen=True)
class Window:
    """Rows to keep as a function of the rows seen: all that fit (fixed), or KataGo's power law (power).

    The power law is W(N) = c (x^e - s^e) / (e s^(e-1)) + m with x = N - m + s, where m is `minimum`, e `exponent`,
    c `factor` and s the scale of the taper, here m: at first the window grows by c rows for each new row, later more
    slowly, so that the rows of weak networks leave early (KataGo: python/shuffle.py).
    """

    kind: str  # power | fixed
    capacity: int  # rows, the most there ever are
    minimum: int  # rows, the smallest window of the power law
    exponent: float = 0.65
    factor: float = 0.4

    def __post_init__(self) -> None:
        if self.kind not in ("power", "fixed"):
            raise UsageError(f"replay.window={self.kind}: must be one of power, fixed")
        if not 1 <= self.minimum <= self.capacity:
            raise UsageError(f"replay.minimum={self.minimum}: must lie between 1 and replay.capacity={self.capacity}")
        if not 0 < self.exponent <= 1:
            raise UsageError(f"replay.window_exponent={self.exponent}: must lie above 0 and be at most 1")
        if not 0 < self.factor <= 1:
            raise UsageError(f"replay.window_factor={self.factor}: must lie above 0 and be at most 1")

    @classmethod
    def of(cls, config: ReplayConfig) -> "Window":
        """The window that the configuration describes."""
        return cls(config.window, config.capacity, config.minimum, config.window_exponent, config.window_factor)

    def rows(self, seen: int) -> int:
        """Size of the window after `seen` rows, at least `minimum` and at most `capacity`."""
        if self.kind == "fixed":
            return self.capacity
        m, e, c = float(self.minimum), self.exponent, self.factor
        if seen <= self.minimum:
            return self.minimum
        # With s = m and x = N this is c m ((N / m)^e - 1) / e + m, which cannot overflow.
        return min(self.capacity, int(c * m * ((seen / m) ** e - 1) / e + m))
