"""The app that a user creates, its tenant handles, and its definitions."""

from leasehold.app.client import Leasehold
from leasehold.app.definition import TypedDefinition
from leasehold.app.enqueued import Enqueued
from leasehold.app.enqueued_many import EnqueuedMany
from leasehold.app.job_reader import JobReader
from leasehold.app.tenant import Tenant
from leasehold.app.triggers import TenantTriggers

__all__ = [
    "Enqueued",
    "EnqueuedMany",
    "JobReader",
    "Leasehold",
    "Tenant",
    "TenantTriggers",
    "TypedDefinition",
]
