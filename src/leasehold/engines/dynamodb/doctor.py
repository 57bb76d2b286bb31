"""The findings of `leasehold doctor` about a table. Changes nothing."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from leasehold.engine import Finding, Severity
from leasehold.engines.dynamodb import schema
from leasehold.engines.dynamodb.client import Client
from leasehold.engines.dynamodb.urls import TableAddress
from leasehold.errors import LeaseholdError

TOO_FAR = timedelta(seconds=2)


async def examine(address: TableAddress) -> AsyncIterator[Finding]:
    client = Client(address, timeout=5.0)
    try:
        try:
            found = await schema.describe(client)
            if found is not None:
                schema.require_fitting(found)
            schema.status_of(address.table, await schema.read_meta(client)).require_usable()
        except LeaseholdError as error:
            yield Finding("table", Severity.PROBLEM, error.happened, error.code, error.fix)
            return
        yield Finding("table", Severity.OK, f'the table "{address.table}" has the keys and indexes of this release')
        yield await _clock(client, address)
        yield await _ttl(client)
    finally:
        await client.close()


async def _clock(client: Client, address: TableAddress) -> Finding:
    """Compares the clock of this machine with that of the service, which counts whole seconds."""
    answer = await client.call("DescribeTable", TableName=address.table)
    said = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    if not said:
        return Finding("clock", Severity.OK, "the endpoint does not tell its time")
    apart = abs(datetime.now(UTC) - parsedate_to_datetime(said))
    if apart > max(TOO_FAR, address.skew):
        return Finding(
            "clock",
            Severity.PROBLEM,
            f"the clock of this machine is {apart.total_seconds():.0f} s apart from that of the service; a lease "
            f"would be taken as lost up to {(apart - address.skew).total_seconds():.0f} s too early",
            code="LH-3004",
            fix="Let NTP set the clock, or allow for more: ?skew=… in the URL of all workers.",
        )
    return Finding("clock", Severity.OK, f"the clock is within {max(TOO_FAR, address.skew).total_seconds():g} s")


async def _ttl(client: Client) -> Finding:
    answer = await client.call("DescribeTimeToLive", TableName=client.address.table)
    if answer.get("TimeToLiveDescription", {}).get("TimeToLiveStatus") in ("ENABLED", "ENABLING"):
        return Finding("ttl", Severity.OK, "expired dedupe keys are deleted by the table's TTL")
    return Finding(
        "ttl",
        Severity.WARNING,
        "the table's TTL is off: expired dedupe keys stay for ever, though none is obeyed",
        fix="Run: leasehold migrate",
    )
