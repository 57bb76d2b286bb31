"""Chaos on DynamoDB: an emulator of its own, whose table has a stream that tells of each write.

The emulator keeps its data in memory, so it is stopped for a while and never killed.
"""

import asyncio
import os
import signal
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.dynamodb.raw_table import SESSION, open_table, plain
from tests.faults.chaos.nemesis import Fault
from tests.faults.chaos.witnesses import Fence, Transition, Written

from leasehold.engines import engine_for
from leasehold.engines.dynamodb.emulator import Emulator, emulator
from leasehold.engines.dynamodb.items import status_of
from leasehold.engines.dynamodb.keys import read_job_pk
from leasehold.model.status import Status

LONGEST_STANDSTILL = 3.0
SHARES = {
    Fault.KILL: 16,
    Fault.STOP: 12,
    Fault.STOP_AT_FINISH: 24,
    Fault.STOP_AT_POINT: 12,
    Fault.CUT: 10,
    Fault.HOLD: 8,
    Fault.SWALLOW: 8,
    Fault.STANDSTILL: 4,
}


@dataclass
class DynamoServer:
    url: str
    emulator: Emulator
    shares = SHARES
    finish = b'attempt\\"'  # of the result, which is a text inside of JSON

    async def suffer(self, fault: Fault, jitter: float) -> None:
        assert fault is Fault.STANDSTILL
        os.kill(self.emulator.pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(LONGEST_STANDSTILL * jitter)
        finally:
            os.kill(self.emulator.pid, signal.SIGCONT)

    async def written(self) -> Written:
        audit: dict[str, list[Transition]] = defaultdict(list)
        effects: dict[str, list[Fence]] = defaultdict(list)
        async for old, new in self._changes():
            item = new or old
            if item["SK"] != "job" or _is_bar(old, new):
                continue
            job = read_job_pk(item["PK"])[1]
            was, became = (status_of(each) if each else None for each in (old, new))
            attempt_was = old["attempts"] if old else item["attempts"]
            edges = [(was, became)]
            if became and became.final and was and not was.final:  # where Postgres moves the row to another table
                edges = [(was, None), (None, became)]
            for before, after in edges:
                worker = item.get("worker_id", "")
                audit[job].append(Transition(before or "", after or "", attempt_was, item["attempts"], worker))
            if became is Status.SUCCEEDED:
                effects[job].append((job, item["attempts"], item["worker_id"]))
        return Written(audit, effects)

    async def _changes(self) -> AsyncIterator[tuple[dict[str, Any], dict[str, Any]]]:
        """Yields each item as it was and as it became, in the order of the writes."""
        async with open_table(self.url) as table:
            described = await table.client.describe_table(TableName=table.name)
        arn = described["Table"]["LatestStreamArn"]
        client: Any
        async with SESSION.create_client("dynamodbstreams", **_reached_by(self.emulator)) as client:
            (shard,) = (await client.describe_stream(StreamArn=arn))["StreamDescription"]["Shards"]
            iterator = await client.get_shard_iterator(
                StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
            )
            position = iterator["ShardIterator"]
            while (page := await client.get_records(ShardIterator=position))["Records"]:
                for record in page["Records"]:
                    images: Mapping[str, Any] = record["dynamodb"]
                    yield plain(images.get("OldImage", {})), plain(images.get("NewImage", {}))
                position = page["NextShardIterator"]


def _is_bar(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether a write only bars a batch from a job, which keeps its state and its fence (docs/decisions/0080)."""
    return old | {"barred": None} == new | {"barred": None}


@asynccontextmanager
async def dynamodb() -> AsyncIterator[DynamoServer]:
    """One shard, since each costs requests, and clocks that may differ by a little."""
    with tempfile.TemporaryDirectory(prefix="chaos-dynamodb-") as home, emulator(home, keep=False) as server:
        url = f"{server.url}&shards=1&skew=0.2&poll=1"
        await engine_for(url).prepare()
        async with open_table(url) as table:
            await table.client.update_table(
                TableName=table.name,
                StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
            )
        yield DynamoServer(url, server)


def _reached_by(server: Emulator) -> dict[str, Any]:
    return {
        "region_name": "us-east-1",
        "endpoint_url": server.endpoint,
        "aws_access_key_id": "test",
        "aws_secret_access_key": "test",
    }
