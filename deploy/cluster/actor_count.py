"""`actors.count=auto` on a cluster: as many actors as learner and servers can take.

More actors bring more games until they wait: for the learner, which lets them pause once the replay holds what it can
use, or for inference servers that are never idle.  Then each of them only plays less.
"""

LOOK_S = 60.0  # between two changes: an actor needs some seconds to start, and its shares are those of a minute
MUCH_PAUSED = 0.3  # of the actors' time: a third of them would not be missed
LITTLE_PAUSED = 0.05  # none is throttled to speak of
IDLE = 0.1  # of a server's time, in which it could answer more
GROWTH = 0.25  # of the actors, one at least, at a time: a cluster of 64 is reached in 15 changes
FORGET_S = 3600.0  # learner and network change: what was too many may no longer be
LEAST = 1


class ActorCount:
    """Decides once a minute; between `MUCH_PAUSED` and `LITTLE_PAUSED` nothing changes, so it does not swing.

    It shrinks to a number whose pauses would still be more than `LITTLE_PAUSED`.
    """

    def __init__(self, count: int, now: float) -> None:
        """`count`: actors at the start; `now`: seconds, of a clock that never goes back."""
        self.count = count
        self._changed_at = now
        self._full = 0  # so many had to pause: no growth to as many for `FORGET_S`

    def decide(self, now: float, *, alive: int, most: int, paused_share: float, idle_share: float | None) -> int:
        """Returns how many actors there are to be, between 1 and `most`.

        `alive`: actors that play; `paused_share`: of their time of late, for the learner; `idle_share`: of the servers'
        time, None without servers.
        """
        if now - self._changed_at < LOOK_S or alive < min(self.count, most):
            return self.count  # what is starting has not shown yet what it changes
        count = self.count
        if paused_share > MUCH_PAUSED and count > LEAST:
            self._full = count
            count = max(LEAST, min(count - 1, round(count * (1 - paused_share + MUCH_PAUSED / 2))))
        elif paused_share < LITTLE_PAUSED and (idle_share is None or idle_share > IDLE) and count < most:
            wanted = count + max(1, round(count * GROWTH))
            count = min(most, wanted if not self._full else max(count, min(wanted, self._full - 1)))
        if count != self.count:
            self.count, self._changed_at = count, now
        elif now - self._changed_at > FORGET_S:
            self._full = 0
        return self.count
