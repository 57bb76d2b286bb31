"""The emulator: one process for each home, on the loopback address, that ends with its last client."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from aiobotocore.session import get_session
from tests.conftest import eventually

from leasehold.engines.dynamodb import emulator
from leasehold.errors import EmbeddedError

if TYPE_CHECKING:
    from types_aiobotocore_dynamodb import DynamoDBClient

OWNER = """
import sys
from leasehold.engines.dynamodb.emulator import start
print(start(sys.argv[1]).pid, flush=True)
sys.stdin.read()
"""


@asynccontextmanager
async def client_of(endpoint: str) -> "AsyncIterator[DynamoDBClient]":
    async with get_session().create_client(
        "dynamodb",
        region_name=emulator.REGION,
        endpoint_url=endpoint,
        aws_access_key_id="test",
        aws_secret_access_key="test",
    ) as client:
        yield client


async def make_table(endpoint: str) -> None:
    async with client_of(endpoint) as client:
        await client.create_table(
            TableName="kept",
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "PK", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "PK", "AttributeType": "S"}],
        )
        await client.put_item(TableName="kept", Item={"PK": {"S": "one"}})


async def tables(endpoint: str) -> list[str]:
    async with client_of(endpoint) as client:
        return (await client.list_tables())["TableNames"]


def lives(pid: int) -> bool:
    """A process that has ended and waits for its parent counts as ended."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


async def ended(pid: int) -> None:
    async def is_gone() -> bool:
        return not lives(pid)

    await eventually(is_gone, what=f"the end of process {pid}")


def test_starts_of_one_home_share_a_process(tmp_path: Path) -> None:
    with emulator.emulator(tmp_path) as first, emulator.emulator(tmp_path) as second:
        assert first.pid == second.pid
        assert first.endpoint.startswith("http://127.0.0.1:")
        assert second.url == f"dynamodb://leasehold?region=us-east-1&endpoint={first.endpoint}"


async def test_it_ends_with_its_last_client(tmp_path: Path) -> None:
    first, second = emulator.start(tmp_path), emulator.start(tmp_path)
    first.stop()
    assert await tables(second.endpoint) == []
    second.stop()
    second.stop()
    await ended(first.pid)


async def test_it_ends_with_an_owner_that_is_killed(tmp_path: Path) -> None:
    owner = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", OWNER, str(tmp_path)), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert owner.stdout is not None
    pid = int(await owner.stdout.readline())
    assert lives(pid)
    owner.kill()
    await owner.wait()
    await ended(pid)


async def test_its_data_and_its_url_outlive_its_end(tmp_path: Path) -> None:
    with emulator.emulator(tmp_path) as before:
        await make_table(before.endpoint)
    with emulator.emulator(tmp_path) as after:
        assert after.pid != before.pid
        assert after.url == before.url
        async with client_of(after.endpoint) as client:
            assert (await client.get_item(TableName="kept", Key={"PK": {"S": "one"}}))["Item"] == {"PK": {"S": "one"}}


async def test_a_home_that_keeps_nothing_begins_empty(tmp_path: Path) -> None:
    with emulator.emulator(tmp_path, keep=False) as before:
        await make_table(before.endpoint)
    with emulator.emulator(tmp_path, keep=False) as after:
        assert await tables(after.endpoint) == []


@pytest.mark.skipif(sys.platform != "linux", reason="the environment of a process is read from /proc")
def test_it_does_not_get_the_credentials_of_its_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-a-real-account")
    with emulator.emulator(tmp_path) as server:
        assert b"of-a-real-account" not in Path(f"/proc/{server.pid}/environ").read_bytes()


def test_a_missing_package_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulator, "find_spec", lambda _name: None)
    with pytest.raises(EmbeddedError, match=r"pip install 'leasehold\[emulator\]'"):
        emulator.start(tmp_path / "home")
    assert not (tmp_path / "home").exists()


def test_a_home_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    with pytest.raises(EmbeddedError, match="can't be started"):
        emulator.start(tmp_path / "home")
