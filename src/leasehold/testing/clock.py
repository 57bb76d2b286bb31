"""Moves the clock of a test's database, the only clock of the queue. Python's clock is not changed."""

from datetime import UTC, datetime, timedelta

from leasehold.engines import engine_for
from leasehold.errors import InvalidInput
from leasehold.model.duration import Duration, read_duration
from leasehold.testing.server import run_in_thread


class Clock:
    """Moves the database's time, and with it due times, leases and expiries; Python's time stays.

    clock.advance("1h")     an hour later
    clock.freeze(moment)    stands still there; `advance` still moves it
    clock.release()         the real time again
    """

    def __init__(self, url: str, schema: str) -> None:
        self._clock = engine_for(url, schema).test_kit().clock()

    def now(self) -> datetime:
        return run_in_thread(self._clock.now())

    def advance(self, by: Duration) -> datetime:
        """Moves it forward by "90s", "1h" or "2d". Returns the new time."""
        length = read_duration(by)
        if length < timedelta():
            raise InvalidInput(
                f"the clock can't go back by {-length}: leases and jobs rely on that. Nothing was moved.",
                fix="Advance it; to begin at some moment, freeze it before anything is enqueued.",
            )
        run_in_thread(self._clock.move(length))
        return self.now()

    def freeze(self, at: str | datetime | None = None) -> datetime:
        """Stops it at a moment such as "2027-03-13T12:00Z", or now. Returns the moment."""
        moment = self.now() if at is None else _moment(at)
        run_in_thread(self._clock.freeze(moment))
        return moment

    def release(self) -> None:
        run_in_thread(self._clock.freeze(None))


def _moment(at: str | datetime) -> datetime:
    try:
        moment = datetime.fromisoformat(at) if isinstance(at, str) else at
    except ValueError as error:
        raise InvalidInput(
            f"{at!r:.60} is not a moment. Nothing was moved.", fix="Write it as 2027-03-13T12:00Z."
        ) from error
    if moment.tzinfo is None:
        raise InvalidInput(
            f"{at} has no timezone and so names no moment. Nothing was moved.",
            fix="Write it as 2027-03-13T12:00Z, or pass a datetime with a timezone.",
        )
    return moment.astimezone(UTC)
