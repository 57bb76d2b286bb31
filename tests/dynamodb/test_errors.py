"""Errors of a first minute on AWS: no credentials, no table, another program's table, no rights, a large payload."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.dynamodb.raw_table import RawTable
from tests.store.bench import Bench

from leasehold.engines import engine_for
from leasehold.engines.dynamodb.client import Answer, Send
from leasehold.engines.dynamodb.engine import DynamoEngine
from leasehold.errors import InvalidInput, LeaseholdError, PayloadInvalid, SchemaMismatch


async def test_missing_credentials_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    with pytest.raises(LeaseholdError, match=r"(?i)credentials") as raised:
        await engine_for("dynamodb://jobs?region=eu-west-1").open()
    assert isinstance(raised.value, InvalidInput)


async def test_a_missing_table_names_the_command_that_creates_it(dynamodb_url: str) -> None:
    with pytest.raises(SchemaMismatch, match="leasehold migrate") as raised:
        await engine_for(dynamodb_url.replace("//leasehold", "//missing")).open()
    assert raised.value.code == "LH-2001"


async def test_migrate_creates_the_table_once(dynamodb_url: str) -> None:
    engine = engine_for(dynamodb_url.replace("//leasehold", "//created"))
    assert [list(await engine.prepare()) for _ in range(2)] == [["0001 table"], []]
    await (await engine.open()).close()


async def test_a_table_of_another_program_is_refused(table: RawTable, dynamodb_url: str) -> None:
    await table.client.create_table(
        TableName="orders",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "order_id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "order_id", "AttributeType": "S"}],
    )
    for act in ("open", "prepare"):
        with pytest.raises(SchemaMismatch, match=r"its key is order_id \(HASH\)") as raised:
            await getattr(engine_for(dynamodb_url.replace("//leasehold", "//orders")), act)()
        assert raised.value.code == "LH-2004"


async def test_denied_access_names_the_table_and_the_reason(database_url: str) -> None:
    async def deny(_send: Send, operation: str, _parameters: Mapping[str, Any]) -> Answer:
        error = {"Code": "AccessDeniedException", "Message": "not authorized to perform: dynamodb:GetItem"}
        raise ClientError({"Error": error, "ResponseMetadata": {"HTTPStatusCode": 400}}, operation)

    engine = DynamoEngine(database_url)
    engine.intercept = deny
    with pytest.raises(InvalidInput, match=r"denies access to the table .*not authorized to perform"):
        await engine.open()


async def test_a_payload_above_the_limit_is_refused_with_its_size(bench: Bench) -> None:
    with pytest.raises(PayloadInvalid, match=r"400,\d\d\d bytes of JSON, at most 262,144"):
        await bench.enqueue(payload={"text": "x" * 400_000})
    assert (await bench.jobs.counts(10)) == dict.fromkeys(await bench.jobs.counts(10), 0)


async def test_a_payload_at_the_limit_and_a_large_result_fit(bench: Bench) -> None:
    claim = await bench.running(payload={"text": "x" * 262_000})
    await bench.succeed(claim, '"' + "y" * 260_000 + '"')
    job = await bench.job(claim.job)
    assert (len(job.payload["text"]), len(job.result)) == (262_000, 260_000)
