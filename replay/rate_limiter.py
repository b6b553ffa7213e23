"""Samples per position as one number, enforced on both sides.

The rule is Reverb's SampleToInsertRatio (google-deepmind/reverb: reverb/cc/rate_limiter.cc).  With size = inserted -
deleted and difference = inserted * samples_per_position - sampled + shift,

    can_insert(n): size + n <= minimum  or  difference + n * samples_per_position <= centre + error_buffer
    can_sample(n): size >= minimum      and difference - n >= centre - error_buffer

where centre = minimum * samples_per_position, and shift is 0 until one of these settings is changed in a run
(`RateLimiter.count_from_now`).  Insertion is soft: a finished game is never refused, but `is_throttled` tells the
actors to pause.  Sampling is hard: the learner has to wait.
"""

import math
from dataclasses import dataclass

from shusaku.common.errors import UsageError


@dataclass(frozen=True)
class LimiterState:
    """The counters: rows with weight > 0 that only ever grow; and what a change of the settings has shifted."""

    inserted: int = 0
    sampled: int = 0
    deleted: int = 0
    shift: float = 0.0  # samples


class RateLimiter:
    """Counts rows and decides whether playing or learning has to wait.  Not thread-safe: the buffer holds a lock.

    Traffic comes in chunks: up to `rows_per_insert` rows in a game, `rows_per_sample` in a mini-batch.  Both sides can
    never wait at once when error_buffer >= max(rows_per_insert * samples_per_position, rows_per_sample) and
    capacity >= minimum + rows_per_insert: if both waited with size >= minimum, twice the error buffer would be less
    than what one insert and one sample change.  A smaller error buffer is raised to that; too small a capacity is a
    UsageError.
    """

    def __init__(
        self, *, samples_per_position: float, minimum: int, capacity: int, rows_per_insert: int, rows_per_sample: int,
        error_buffer: float = 0.0, enabled: bool = True,
    ) -> None:
        if not (math.isfinite(samples_per_position) and samples_per_position > 0):
            raise UsageError(f"replay.samples_per_position={samples_per_position}: must be finite and above 0")
        if minimum < 1:
            raise UsageError(f"replay.minimum={minimum}: must be at least 1")
        if capacity < minimum + rows_per_insert:
            lower = capacity - rows_per_insert
            raise UsageError(
                f"replay.capacity={capacity}: must be at least replay.minimum={minimum} plus the {rows_per_insert} rows"
                f" of the longest game, or playing and learning could wait for each other for ever; set"
                f" replay.capacity={minimum + rows_per_insert} or more"
                + (f", or replay.minimum={lower} or less" if lower > 0 else "")
            )
        needed = max(rows_per_insert * samples_per_position, float(rows_per_sample))
        self.samples_per_position, self.minimum = samples_per_position, minimum
        self.rows_per_sample, self.enabled = rows_per_sample, enabled
        self.error_buffer = max(error_buffer, needed)  # in samples
        self._centre = minimum * samples_per_position
        self.inserted = self.sampled = self.deleted = 0
        self.shift = 0.0  # samples that the inserted rows allow beside `samples_per_position` of each

    @property
    def size(self) -> int:
        """Rows in the window."""
        return self.inserted - self.deleted

    @property
    def difference(self) -> float:
        """Samples that the inserted rows allow, less those that were taken."""
        return self._difference_at(self.inserted)

    def _difference_at(self, inserted: int) -> float:
        # One product, so that many rows at once and one after the other give the same result to the last bit.
        return inserted * self.samples_per_position - self.sampled + self.shift

    def can_insert(self, rows: int = 1) -> bool:
        """Whether the rule allows `rows` more; `insert` never refuses any."""
        if not self.enabled or self.size + rows <= self.minimum:
            return True
        return self._difference_at(self.inserted + rows) <= self._centre + self.error_buffer

    def can_sample(self, rows: int) -> bool:
        """Whether the rule allows `rows` more samples."""
        if self.size < self.minimum:
            return False
        return not self.enabled or self.difference - rows >= self._centre - self.error_buffer

    @property
    def is_throttled(self) -> bool:
        """Whether actors should pause: the rule does not allow one more row."""
        return not self.can_insert()

    def credit(self) -> int | None:
        """Rows that may be inserted before actors are throttled; None: any number."""
        if not self.enabled:
            return None
        # Throttled once size + 1 > minimum and difference + samples_per_position > centre + error_buffer.
        allowance = (self._centre + self.error_buffer - self.difference) / self.samples_per_position
        credit = max(0, self.minimum - self.size, math.floor(allowance))
        # The quotient may be off by its last bit; the rule itself decides.
        while credit > 0 and not self.can_insert(credit):
            credit -= 1
        while self.can_insert(credit + 1):
            credit += 1
        return credit

    def insert(self, rows: int) -> None:
        """Counts new rows in the window."""
        self.inserted += rows

    def delete(self, rows: int) -> None:
        """Counts rows that left the window."""
        assert rows <= self.size, f"{rows} rows deleted of {self.size}"
        self.deleted += rows

    def sample(self, rows: int) -> bool:
        """Counts `rows` samples and returns True, or returns False if they have to wait."""
        if not self.can_sample(rows):
            return False
        self.sampled += rows
        return True

    def rebase(self, held: int) -> None:
        """Adjusts the counters after a restart that found only `held` rows of the window, so that no deadlock follows.

        `deleted` becomes the number of rows that are gone.  If fewer than the minimum are left, `sampled` becomes what
        it would be if the rows that are gone had never counted: the state of a fresh start, shifted.  With the old
        `sampled`, refilling would add up to minimum * samples_per_position to the difference while sampling is still
        forbidden.
        """
        assert 0 <= held <= self.inserted, f"{held} rows held of {self.inserted}"
        self.deleted = self.inserted - held
        if held < self.minimum:
            # Rounded up: a difference that is too small by a fraction can only make playing go on a little longer.
            self.sampled, self.shift = math.ceil(self.deleted * self.samples_per_position), 0.0

    def count_from_now(self, samples_per_position: float, minimum: int) -> None:
        """After `restore` of counters that were kept under these settings: those of now count for rows to come alone.

        Where the run stands between the two bounds stays, as far as those of now allow.  With fewer rows than the
        minimum of now it stands where a fresh start does: see `rebase`.
        """
        stands = 0.0
        if self.size >= self.minimum:
            stands = self._standing(samples_per_position, minimum)
            stands = min(max(stands, -self.error_buffer), self.error_buffer)
        self.shift += stands - self._standing(self.samples_per_position, self.minimum)

    def _standing(self, samples_per_position: float, minimum: int) -> float:
        """The difference less the centre under these settings, once rows that the minimum still lacks are there."""
        counted = self.inserted - min(self.size, minimum)
        return counted * samples_per_position - self.sampled + self.shift

    def state(self) -> LimiterState:
        """The counters, for a checkpoint."""
        return LimiterState(self.inserted, self.sampled, self.deleted, self.shift)

    def restore(self, state: LimiterState) -> None:
        """Continues from these counters; ValueError if they are impossible."""
        if not 0 <= state.deleted <= state.inserted or state.sampled < 0 or not math.isfinite(state.shift):
            raise ValueError(f"impossible counters of the limiter: {state}")
        self.inserted, self.sampled, self.deleted = state.inserted, state.sampled, state.deleted
        self.shift = state.shift

    def waits_for(self) -> str:
        """What learning or playing waits for, as text; empty: nothing."""
        if not self.enabled:
            return ""
        if not self.can_sample(self.rows_per_sample):
            if self.size < self.minimum:
                until = "the first step" if self.sampled == 0 else "the next step"
                return f"{self.size:,} of {self.minimum:,} rows before {until}"
            missing = self._centre - self.error_buffer - (self.difference - self.rows_per_sample)
            rows = math.ceil(missing / self.samples_per_position)
            return f"{rows:,} more rows, to learn {self.samples_per_position:g} times from each"
        if self.is_throttled:
            missing = self.difference + self.samples_per_position - self._centre - self.error_buffer
            return f"{math.ceil(missing):,} more samples to be learned from; playing pauses"
        return ""
