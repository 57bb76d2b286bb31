"""Signals that stop a process: which of them are one request."""

import signal

import pytest

from leasehold.runtime.process import StopRequests

INT, TERM = signal.SIGINT, signal.SIGTERM


@pytest.mark.parametrize(
    ("told", "stops"),
    [
        ([(TERM, 0.0), (TERM, 0.9), (TERM, 2.0)], [1, 1, 2]),
        ([(INT, 0.0), (TERM, 0.05), (INT, 0.3), (TERM, 0.35)], [1, 1, 2, 2]),
        ([(INT, 0.0), (INT, 0.05), (INT, 0.3)], [1, 1, 2]),
        ([(TERM, 0.0), (INT, 0.5), (INT, 0.8)], [1, 1, 2]),
        ([(INT, 0.0), (TERM, 3.0), (INT, 10.0), (TERM, 13.0)], [1, 1, 2, 2]),
        ([(INT, 0.0), (TERM, 60.0)], [1, 2]),
    ],
    ids=[
        "a group and its parent",
        "two Ctrl-C in a second",
        "a Ctrl-C that is passed on",
        "a stop and two Ctrl-C",
        "two Ctrl-C that a slow parent passes on",
        "one after the other",
    ],
)
def test_of_signals_that_come_together_only_ctrl_c_counts_twice(
    told: list[tuple[signal.Signals, float]], stops: list[int]
) -> None:
    requests, counted = StopRequests(), list[int]()
    for number, moment in told:
        before = requests.count
        assert requests.add(number, 100.0 + moment) is (requests.count > before)
        counted.append(requests.count)
    assert counted == stops
