"""`engine_for` alone looks at a URL: a second engine is one module, and everything above it stays as it is."""

import sys
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from typing import NoReturn

import asyncpg
import pytest

from leasehold import Leasehold
from leasehold.engine import Finding, Login, SchemaStatus
from leasehold.engines import engine_for, register_engine
from leasehold.errors import InvalidInput
from leasehold.store import Abilities, Caller, Store


class MemoryEngine:
    """An engine without SQL and without transactions of callers; it opens nothing real."""

    abilities = Abilities(
        caller_transaction=False,
        exact_caps=False,
        priorities=False,
        exact_fairness=False,
        atomic_bulk=False,
        wakes=False,
        adaptive_polling=False,
        fenced_logs=False,
        schedules=False,
        atomic_audit=False,
        series=False,
        upkeep=False,
    )

    def __init__(self, url: str, schema: str, listen_url: str | None) -> None:
        self.url, self.address, self.schema = url, url, schema

    def url_of(self, database: str, login: Login | None = None) -> NoReturn:
        raise NotImplementedError

    async def open(self, *, statement_timeout: timedelta | None = None) -> Store:
        raise InvalidInput("memory was opened.", fix="None.")

    async def schema_status(self) -> SchemaStatus:
        return SchemaStatus(self.schema, 1, 1, 1)

    async def prepare(self, tell: Callable[[str], None] = lambda _text: None) -> Sequence[str]:
        return []

    async def examine(self) -> AsyncIterator[Finding]:
        return
        yield

    def join(self, connection: object) -> Caller:
        raise AssertionError("an engine without transactions of callers is not asked to join one")

    def scripts(self) -> NoReturn:
        raise InvalidInput("this engine has no SQL.", fix="None.")

    def test_kit(self) -> NoReturn:
        raise NotImplementedError


@pytest.fixture
def memory() -> None:
    """The scheme stays registered to the end of the run: no other test has such a URL."""
    register_engine("memory", MemoryEngine)


@pytest.mark.usefixtures("memory")
async def test_another_engine_is_opened_by_its_scheme() -> None:
    engine = engine_for("memory://here", "rented")
    assert (engine.url, engine.schema) == ("memory://here", "rented")
    with pytest.raises(InvalidInput, match="memory was opened"):
        async with Leasehold("memory://here").open():
            pass


@pytest.mark.usefixtures("memory")
def test_within_is_refused_by_an_engine_without_that_ability() -> None:
    with pytest.raises(InvalidInput, match=r"the engine of memory://here has none\. Nothing was enqueued\."):
        Leasehold("memory://here").tenant("acme").within(object())


@pytest.mark.parametrize("url", ["mysql://here/jobs", "here", ""])
def test_a_url_without_an_engine_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match=r"which names no engine\. Nothing was opened\."):
        engine_for(url)


async def test_the_schema_may_stand_in_the_url(database_url: str) -> None:
    separator = "&" if "?" in database_url else "?"
    engine = engine_for(f"{database_url}{separator}schema=rented")
    assert (engine.url, engine.schema) == (database_url, "rented")
    assert await engine.prepare()
    connection = await asyncpg.connect(database_url)
    assert await connection.fetchval("select count(*) from rented.tenants") == 0
    await connection.close()


def test_a_schema_that_is_named_twice_must_be_the_same() -> None:
    assert engine_for("postgresql://here/jobs?schema=rented", "rented").schema == "rented"
    with pytest.raises(InvalidInput, match="schema=rented, and the schema 'other' was asked for"):
        engine_for("postgresql://here/jobs?schema=rented", "other")


def test_an_engine_without_its_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    for name in [name for name in sys.modules if name.startswith("leasehold.engines.http")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(InvalidInput, match="need the package httpx") as raised:
        engine_for("https://jobs.example.com")
    assert "leasehold[http]" in raised.value.fix
