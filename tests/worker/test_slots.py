"""Slots: how many runs at a time, and who is next."""

from leasehold.worker.slots import Slots


class Entrant:
    """Begins at once and ends when told to."""

    def __init__(self, slots: Slots, name: str, began: list[str]) -> None:
        self._slots, self._name, self._began = slots, name, began
        self.begun = self.ended = False

    def begin(self) -> None:
        self.begun = True
        self._began.append(self._name)

    def end(self) -> None:
        self.ended = True
        self._slots.leave(self)


class Crowd:
    def __init__(self, slots: int) -> None:
        self._slots = Slots(slots)
        self.began: list[str] = []

    def enter(self, name: str, priority: int = 100) -> Entrant:
        entrant = Entrant(self._slots, name, self.began)
        self._slots.enter(entrant, priority)
        return entrant


def test_so_many_begin_and_the_others_wait_for_a_slot() -> None:
    crowd = Crowd(2)
    first = crowd.enter("first")
    crowd.enter("second")
    crowd.enter("third")
    assert crowd.began == ["first", "second"]
    first.end()
    assert crowd.began == ["first", "second", "third"]


def test_of_those_who_wait_the_most_urgent_is_next_and_then_who_came_first() -> None:
    crowd = Crowd(1)
    runs = [crowd.enter("runs")]
    for name, priority in [("usual", 100), ("late", 200), ("urgent", 1), ("usual too", 100), ("urgent too", 1)]:
        runs.append(crowd.enter(name, priority))
    while any(not run.ended for run in runs):
        next(run for run in runs if run.begun and not run.ended).end()
    assert crowd.began == ["runs", "urgent", "urgent too", "usual", "usual too", "late"]


def test_who_was_stopped_in_line_takes_no_slot() -> None:
    crowd = Crowd(1)
    first, stopped = crowd.enter("first"), crowd.enter("stopped")
    crowd.enter("third")
    stopped.end()
    first.end()
    assert crowd.began == ["first", "third"]
