"""Leasehold behind interfaces that other code was written against."""

from leasehold.compat.jobs_repository import EnqueueJobInput, JobsRepository

__all__ = ["EnqueueJobInput", "JobsRepository"]
