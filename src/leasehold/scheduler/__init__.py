"""Schedulers: they fire the schedules that are due. Any number may run, in workers or on their own."""

from leasehold.scheduler.fire_loop import FireLoop
from leasehold.scheduler.scheduler import Scheduler, SchedulerSettings
from leasehold.scheduler.step import fire_due_schedules

__all__ = ["FireLoop", "Scheduler", "SchedulerSettings", "fire_due_schedules"]
