"""Decides how many jobs are claimed ahead."""

SHORT_JOB = 0.05
# With 500 at once a job takes 43 µs of the server's time, with 384 it takes 46. A larger batch would make urgent jobs
# wait longer for the end of a claim.
ENOUGH_AT_ONCE = 500


class ClaimBudget:
    """Decides how many jobs a worker claims at a time, and how many it holds.

    A worker holds as many jobs as it has slots. If jobs are short, it also holds a batch that is being claimed and
    one that is being finished, so that claiming, running and finishing overlap.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._batch = min(slots, ENOUGH_AT_ONCE)
        self._usual_time = 1.0

    def took(self, seconds: float) -> None:
        """Notes the seconds from a job's claim to its end, the wait for a slot included."""
        self._usual_time = 0.9 * self._usual_time + 0.1 * seconds

    def room(self, held: int) -> int:
        """Returns how many jobs to claim now: 0 if a whole batch of short jobs does not fit yet."""
        if self._usual_time >= SHORT_JOB:
            return max(0, self._slots - held)
        return self._batch if held <= self._slots + self._batch else 0
