"""The findings of `leasehold doctor` about a table. Changes nothing."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from leasehold.engine import Finding, Severity
from leasehold.engines.dynamodb import schema
from leasehold.engines.dynamodb.client import Client
from leasehold.engines.dynamodb.store import DynamoStore
from leasehold.engines.dynamodb.urls import TableAddress
from leasehold.engines.findings import examine_fires, examine_leases, list_names
from leasehold.errors import LeaseholdError
from leasehold.store import WorkerRecord

TOO_FAR = timedelta(seconds=2)


async def examine(address: TableAddress, open_store: Callable[[], Awaitable[DynamoStore]]) -> AsyncIterator[Finding]:
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
    store = await open_store()
    try:
        now = await store.now()
        workers = await store.workers()
        yield await _workers(store, [each for each in workers if each.lease_expires_at > now])
        wait, _ = await store.schedules.next_fire(now)
        yield examine_fires(None if wait is None else -wait)
        gone = [each for each in workers if each.lease_expires_at <= now]
        running = sum(each.running for each in gone)
        yield examine_leases(len(gone), running, len(workers) - len(gone))
    finally:
        await store.close()


async def _workers(store: DynamoStore, living: Sequence[WorkerRecord]) -> Finding:
    start = "Start one: leasehold worker TARGET"
    if not living:
        return Finding("workers", Severity.WARNING, "none lives", fix=f"{start}.")
    served = {key for each in living for key in each.serves.definitions}
    active = {each.definition.key for each in await store.definitions() if each.active}
    slots, running = sum(each.facts.slots for each in living), sum(each.running for each in living)
    text = f"{len(living)} live, {slots} slots, {running} running"
    if missing := sorted(active - served):
        return Finding(
            "workers",
            Severity.WARNING,
            f"{text}; none of them serves {list_names(missing)}",
            fix=f"{start}, with handlers for them. Unused ones: leasehold definitions deactivate KEY.",
        )
    return Finding("workers", Severity.OK, text)


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
