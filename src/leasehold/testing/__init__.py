"""Tools for users' tests. The pytest plugin gives a test the fixture `leasehold`, a QueueTester for its app."""

from leasehold.testing.clock import Clock
from leasehold.testing.crashes import Crash, Crashes
from leasehold.testing.effects import Effect
from leasehold.testing.inline import NotRunInline
from leasehold.testing.process import WorkerProcess
from leasehold.testing.queue_tester import QueueTester

__all__ = ["Clock", "Crash", "Crashes", "Effect", "NotRunInline", "QueueTester", "WorkerProcess"]
