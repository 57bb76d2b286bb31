"""Refusals of tables, accounts and URLs are told in our words, with the fix."""

from collections.abc import Mapping
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError
from tests.dynamodb.raw_table import RawTable

from leasehold.engine import Engine, Severity
from leasehold.engines import engine_for
from leasehold.engines.dynamodb.client import Answer, Send
from leasehold.engines.dynamodb.engine import DynamoEngine
from leasehold.errors import InvalidInput, LeaseholdError, SchemaMismatch, Unreachable


def raising(error: Exception) -> DynamoEngine:
    """An engine whose requests fail so."""
    engine = DynamoEngine("dynamodb://some-table?region=us-east-1")

    async def intercept(send: Send, operation: str, parameters: Mapping[str, Any]) -> Answer:
        raise error

    engine.intercept = intercept
    return engine


def refused(code: str, message: str = "no") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "GetItem")


async def test_a_missing_table_is_created_by_migrate(dynamodb_url: str) -> None:
    engine: Engine = engine_for(engine_for(dynamodb_url).url_of("missing-table"))
    with pytest.raises(SchemaMismatch, match=r"LH-2001: .*missing-table.* does not exist.* Run: leasehold migrate"):
        await engine.open()
    assert (await engine.schema_status()).version == 0
    assert list(await engine.prepare()) == ["0001 table"]
    assert list(await engine.prepare()) == []
    assert (await engine.schema_status()).current
    await (await engine.open()).close()


async def test_a_table_of_another_program_is_refused(dynamodb_url: str, table: RawTable) -> None:
    await table.client.create_table(
        TableName="orders-of-others",
        KeySchema=[{"AttributeName": "order_id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "order_id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    engine = engine_for(engine_for(dynamodb_url).url_of("orders-of-others"))
    for call in (engine.open, engine.prepare):
        with pytest.raises(SchemaMismatch, match=r'LH-2004: .*order_id \(HASH\), not PK and SK.*no index "due"'):
            await call()
    found = [finding async for finding in engine.examine()]
    assert [(each.verdict, each.code) for each in found] == [(Severity.PROBLEM, "LH-2004")]


async def test_an_account_without_credentials_is_told_what_to_do() -> None:
    with pytest.raises(InvalidInput, match=r"NoCredentialsError.* Configure credentials and a region"):
        await raising(NoCredentialsError()).open()


@pytest.mark.parametrize("code", ["AccessDeniedException", "UnrecognizedClientException"])
async def test_a_denied_access_names_the_table_and_the_reason(code: str) -> None:
    with pytest.raises(InvalidInput, match=rf'denies access to the table "some-table" \({code}: no\)'):
        await raising(refused(code)).open()


async def test_an_endpoint_that_refuses_connections_is_unreachable() -> None:
    with pytest.raises(Unreachable, match="EndpointConnectionError"):
        await raising(EndpointConnectionError(endpoint_url="http://127.0.0.1:1")).open()


@pytest.mark.parametrize(
    "url",
    [
        "dynamodb://",
        "dynamodb://a",
        "dynamodb://table/other",
        "dynamodb://ta ble",
        "dynamodb://table?shards=0",
        "dynamodb://table?items=many",
        "dynamodb://table?poll=soon",
        "dynamodb://table?regoin=us-east-1",
        "dynamodb://table?endpoint=127.0.0.1:4566",
        "dynamodb://table?endpoint=http://127.0.0.1:4566,",
        "dynamodb://table?endpoint=http://",
    ],
)
def test_a_url_that_can_not_be_read_opens_nothing(url: str) -> None:
    with pytest.raises(InvalidInput, match="Nothing was opened"):
        engine_for(url)


def test_a_url_keeps_its_parameters() -> None:
    url = "dynamodb://table?region=eu-west-1&endpoint=http://127.0.0.1:4566&shards=8&skew=2.5&poll=10&items=50"
    assert engine_for(url).url == url
    assert engine_for(url).url_of("other") == url.replace("table", "other")


def test_a_schema_is_refused() -> None:
    with pytest.raises(InvalidInput, match="DynamoDB has no schemas"):
        engine_for("dynamodb://table", "reports")


@pytest.mark.parametrize("ask", [lambda engine: engine.join(object()), lambda engine: engine.scripts()])
def test_sql_and_transactions_of_others_are_refused(ask: Any) -> None:
    with pytest.raises(LeaseholdError, match="Nothing was changed"):
        ask(engine_for("dynamodb://table"))
