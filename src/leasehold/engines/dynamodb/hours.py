"""The hours of usage: an item for each tenant, hour and definition, to which sums are added by transactions.

usage#<tenant>     <hour>#<definition>
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from leasehold.engines.dynamodb.keys import CATALOG, Key, read_timestamp, tenant_sk, timestamp
from leasehold.engines.dynamodb.table import MOST_IN_TRANSACTION, Table, Update, gather
from leasehold.engines.dynamodb.tally import Figures, Hour
from leasehold.model.job import TenantId
from leasehold.model.usage import LONGEST_OF_TENANT

# One item of a transaction is the ledger from which they come.
MOST_AT_ONCE = MOST_IN_TRANSACTION - 1
HISTORY = LONGEST_OF_TENANT
"""How long hours are kept. The TTL of the table deletes them later, so reads leave them out."""

_ADD = "ADD #attempts :attempts, #run_us :run, #cpu_us :cpu, #cpu_attempts :known"
_AT_LENGTH = len("2030-01-31T09:00:00.000000Z")


def usage_pk(tenant: TenantId) -> str:
    return f"usage#{tenant}"


def hour_key(hour: Hour) -> Key:
    return usage_pk(hour.tenant), f"{hour.at}#{hour.definition}"


async def additions(table: Table, tally: Mapping[Hour, Figures]) -> list[Update]:
    """Returns the writes that add to the hours. The usage of tenants that are deleted is left out."""
    names = {hour.tenant: (CATALOG, tenant_sk(hour.tenant)) for hour in tally}
    listed = await table.get_many(names.values(), only=("deleted_by",))
    is_open = {tenant for tenant, key in names.items() if "deleted_by" not in listed.get(key, {"deleted_by": ""})}
    return [_addition(hour, figures) for hour, figures in tally.items() if hour.tenant in is_open]


def _addition(hour: Hour, figures: Figures) -> Update:
    values = {"attempts": figures.attempts, "run": figures.run, "cpu": figures.cpu, "known": figures.known}
    ends = int((read_timestamp(hour.at) + HISTORY + timedelta(days=1)).timestamp())
    return Update(hour_key(hour), {"ttl": ends}, None, values, _ADD)


async def read(
    table: Table, tenants: Sequence[TenantId], since: datetime, till: datetime, now: datetime
) -> dict[Hour, Figures]:
    """Reads the hours of tenants, from `since` on and before `till`."""
    begin = max(since, now - HISTORY)
    if begin >= till:
        return {}
    found = await gather(_of_tenant(table, tenant, timestamp(begin), timestamp(till)) for tenant in tenants)
    return {hour: figures for each in found for hour, figures in each.items()}


async def _of_tenant(table: Table, tenant: TenantId, begin: str, end: str) -> dict[Hour, Figures]:
    values = {"pk": usage_pk(tenant), "begin": begin, "end": end}
    listed = table.query("#PK = :pk AND #SK BETWEEN :begin AND :end", values)
    return {
        Hour(tenant, item["SK"][:_AT_LENGTH], item["SK"][_AT_LENGTH + 1 :]): Figures(
            item["attempts"], item["run_us"], item["cpu_us"], item["cpu_attempts"]
        )
        async for item in listed
    }
