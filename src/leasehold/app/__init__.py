"""What a user creates, and the doors it opens."""

from leasehold.app.app import Leasehold
from leasehold.app.bulk import EnqueuedMany
from leasehold.app.definition import TypedDefinition
from leasehold.app.tenant import Enqueued, Tenant

__all__ = [
    "Enqueued",
    "EnqueuedMany",
    "Leasehold",
    "Tenant",
    "TypedDefinition",
]
