"""Usage of tenants."""

from collections.abc import Sequence
from typing import Protocol

from leasehold.model.usage import UsageQuery, UsageRow


class UsageStore(Protocol):
    """Usage of all tenants; `TenantJobs.usage` is that of one."""

    async def usage(self, query: UsageQuery, limit: int) -> Sequence[UsageRow]:
        """Returns the usage of all tenants, at most so many rows: by time, then the longest run time first.

        It equals the attempts that have ended, at this moment.
        """
