"""The table as this code needs it: key schema, indexes, TTL, and the item that has its version."""

import asyncio
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from leasehold.engine import SchemaStatus
from leasehold.engines.dynamodb.client import Client
from leasehold.engines.dynamodb.errors import ConditionFailed
from leasehold.engines.dynamodb.keys import META
from leasehold.engines.dynamodb.table import DUE, LISTING, NEW, PRUNE, Table
from leasehold.engines.dynamodb.wire import Item
from leasehold.errors import LeaseholdError, SchemaMismatch

VERSION = 1
TITLE = "0001 table"
TTL = "ttl"
SECONDS_BETWEEN_LOOKS = 0.5

# Entries of the due index tell a claim whether a job waits; all else is read from the job itself.
_INDEXES: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    DUE: ("due_pk", "due_sk", ("status",)),
    LISTING: ("list_pk", "list_sk", ()),
    PRUNE: ("prune_pk", "prune_sk", ()),
}


def _parameters(table: str) -> dict[str, Any]:
    attributes = ["PK", "SK", *(name for pair in _INDEXES.values() for name in pair[:2])]
    return {
        "TableName": table,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in attributes],
        "KeySchema": _key_schema("PK", "SK"),
        "GlobalSecondaryIndexes": [
            {
                "IndexName": name,
                "KeySchema": _key_schema(pk, sk),
                "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": list(also)}
                if also
                else {"ProjectionType": "KEYS_ONLY"},
            }
            for name, (pk, sk, also) in _INDEXES.items()
        ],
    }


def _key_schema(pk: str, sk: str) -> list[dict[str, str]]:
    return [{"AttributeName": pk, "KeyType": "HASH"}, {"AttributeName": sk, "KeyType": "RANGE"}]


async def describe(client: Client) -> Mapping[str, Any] | None:
    """Returns the description of the table; None if it does not exist."""
    try:
        answer = await client.call("DescribeTable", TableName=client.address.table)
    except SchemaMismatch:
        return None
    found: Mapping[str, Any] = answer["Table"]
    return found


def require_fitting(found: Mapping[str, Any]) -> None:
    """Raises SchemaMismatch for a table of another form, for example one of another program."""
    problems = []
    keys = {each["AttributeName"]: each["KeyType"] for each in found["KeySchema"]}
    if keys != {"PK": "HASH", "SK": "RANGE"}:
        problems.append(f"its key is {', '.join(f'{name} ({kind})' for name, kind in keys.items())}, not PK and SK")
    indexes = {index["IndexName"]: index for index in found.get("GlobalSecondaryIndexes") or ()}
    for name, (pk, sk, _) in _INDEXES.items():
        has = [each["AttributeName"] for each in indexes[name]["KeySchema"]] if name in indexes else None
        if has is None:
            problems.append(f'it has no index "{name}"')
        elif has != [pk, sk]:
            problems.append(f'its index "{name}" has the key {", ".join(has)}, not {pk}, {sk}')
    if problems:
        raise SchemaMismatch(
            f'the table "{found["TableName"]}" can\'t hold jobs: {"; ".join(problems)}. Nothing was changed.',
            fix="Name another table in LEASEHOLD_URL; leasehold migrate creates it.",
            code="LH-2004",
        )


async def read_meta(client: Client) -> Item | None:
    """Returns the item with the version of the table; None if the table or the item does not exist."""
    try:
        return await Table(client, 1).get(META)
    except SchemaMismatch as error:
        if error.code != "LH-2001":
            raise
        return None
    except LeaseholdError:
        # The key of the request does not fit the table: the description tells why.
        if (found := await describe(client)) is not None:
            require_fitting(found)
        raise


def status_of(table: str, meta: Item | None) -> SchemaStatus:
    version, needs = (meta["version"], meta["needs"]) if meta else (0, 0)
    return SchemaStatus(table, version, needs, VERSION)


async def create(client: Client, more: Mapping[str, Any] | None = None) -> bool:
    """Creates the table and its item, unless they exist. Returns whether anything was missing.

    `more` are further attributes of the item, for a table that tests use.
    """
    found = await describe(client)
    if found is None:
        found = await _create_table(client)
    require_fitting(found)
    await _wait_until_active(client, found)
    if more is None:  # the times of a test may be past ones, whose items the service would delete
        await _enable_ttl(client)
    meta = {"PK": META[0], "SK": META[1], "version": VERSION, "needs": VERSION, "shards": client.address.shards}
    try:
        await Table(client, 1).put({**meta, **(more or {})}, NEW)
    except ConditionFailed:
        return False
    return True


async def _create_table(client: Client) -> Mapping[str, Any]:
    try:
        await client.call("CreateTable", **_parameters(client.address.table))
    except (LeaseholdError, ClientError):
        # Another process may create it at the same time.
        if (found := await describe(client)) is None:
            raise
        return found
    created = await describe(client)
    assert created is not None
    return created


async def _wait_until_active(client: Client, found: Mapping[str, Any]) -> None:
    while found["TableStatus"] != "ACTIVE" or any(
        index.get("IndexStatus", "ACTIVE") != "ACTIVE" for index in found.get("GlobalSecondaryIndexes") or ()
    ):
        await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
        again = await describe(client)
        assert again is not None
        found = again


async def _enable_ttl(client: Client) -> None:
    answer = await client.call("DescribeTimeToLive", TableName=client.address.table)
    if answer.get("TimeToLiveDescription", {}).get("TimeToLiveStatus") in ("ENABLED", "ENABLING"):
        return
    await client.call(
        "UpdateTimeToLive",
        TableName=client.address.table,
        TimeToLiveSpecification={"Enabled": True, "AttributeName": TTL},
    )
