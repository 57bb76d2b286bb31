"""Fixtures for the command line: a queue with a bench beside it, and commands that are typed at it."""

import pytest
from tests.cli.dev_process import acme, started  # noqa: F401
from tests.cli.terminal import CommandLine
from tests.conftest import Clock
from tests.postgres_parts import engine_on
from tests.store.bench import EMAIL, REPORT, Bench

from leasehold.model.definition import Definition
from leasehold.store import Store

ORDER = Definition(
    "order",
    description="Ships an order.",
    schema={
        "type": "object",
        "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}, "gift": {"type": "boolean"}},
        "required": ["sku"],
        "additionalProperties": False,
    },
)


@pytest.fixture
def leasehold(database_url: str) -> CommandLine:
    return CommandLine(database_url)


@pytest.fixture
async def bench(store: Store, database_url: str, clock: Clock) -> Bench:
    """The tenant acme, workers for it, and the definitions report, email and order."""
    await store.sync_definitions([REPORT, EMAIL, ORDER])
    return Bench(engine_on(store, database_url, clock))
