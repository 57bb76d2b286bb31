"""A look at the items of a table, by a client of its own."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from aiobotocore.session import get_session

from leasehold.engines.dynamodb.urls import read_url
from leasehold.model.job import JobId

if TYPE_CHECKING:
    from types_aiobotocore_dynamodb import DynamoDBClient

# Each session reads the descriptions of all services again, which takes 80 ms.
SESSION = get_session()


class RawTable:
    """The items of one table, with plain values."""

    def __init__(self, client: "DynamoDBClient", name: str) -> None:
        self.client = client
        self.name = name

    async def items(self) -> list[dict[str, Any]]:
        pages = self.client.get_paginator("scan").paginate(TableName=self.name, ConsistentRead=True)
        return [plain(item) async for page in pages for item in page["Items"]]

    async def job(self, job: JobId) -> dict[str, Any]:
        """The item of a job, whose tenant need not be known."""
        (found,) = [item for item in await self.items() if item["SK"] == "job" and item["PK"].endswith(f"#job#{job}")]
        return found

    async def query_due(self, before: str, due_pk: str = "job", limit: int = 25) -> list[dict[str, Any]]:
        """The query of seed 003, on the index that carries its key pair."""
        found = await self.client.query(
            TableName=self.name,
            IndexName="due",
            KeyConditionExpression="due_pk = :pk AND due_sk BETWEEN :first AND :last",
            ExpressionAttributeValues={
                ":pk": {"S": due_pk},
                ":first": {"S": "scheduled#"},
                ":last": {"S": f"scheduled#{before}~"},
            },
            Limit=limit,
        )
        return [plain(item) for item in found["Items"]]


def plain(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _value(value) for name, value in item.items()}


def _value(value: Mapping[str, Any]) -> Any:
    ((kind, held),) = value.items()
    match kind:
        case "N":
            return int(held) if held.lstrip("-").isdecimal() else float(held)
        case "M":
            return plain(held)
        case "L":
            return [_value(each) for each in held]
        case "NULL":
            return None
    return held


@asynccontextmanager
async def open_table(url: str) -> AsyncIterator[RawTable]:
    address = read_url(url)
    invented = {"aws_access_key_id": "test", "aws_secret_access_key": "test"} if address.endpoint else {}
    # An emulator speaks plain HTTP: to read the certificates that it has not would take 60 ms.
    async with SESSION.create_client(
        "dynamodb",
        region_name=address.region,
        endpoint_url=address.endpoint,
        verify=False if address.endpoint else None,
        **invented,
    ) as client:
        yield RawTable(client, address.table)
