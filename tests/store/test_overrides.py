"""Overrides: fields of a definition that an administrator sets, and that a sync of the code keeps."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from tests.store.bench import REPORT, Bench
from tests.tenant_kit import ACME

from leasehold.errors import ChangedMeanwhile, InvalidInput, PayloadInvalid, UnknownDefinition, WrongState
from leasehold.model.audit import Actor
from leasehold.model.backoff import Steps
from leasehold.model.definition import Definition, Registered, Retention
from leasehold.model.job import NewJob
from leasehold.operations import admin, definitions
from leasehold.operations.catalog import Catalog
from leasehold.operations.definitions import Details
from leasehold.operations.enqueue import Target, pin

ANNA, BEN = Actor("anna"), Actor("ben")
SLOWER = replace(REPORT, timeout=timedelta(hours=2), max_attempts=9)


async def known(bench: Bench, key: str = "report") -> Registered:
    return await admin.definition(bench.store, key)


def origin_of(shown: Details, field: str) -> tuple[str, str | None]:
    return next((each.origin, each.by) for each in shown.origins if each.field == field)


async def test_an_override_stands_in_place_of_the_codes_value(bench: Bench) -> None:
    shown = await definitions.override(bench.store, "report", {"max_attempts": 8, "timeout": "10m"}, ANNA)
    found = await known(bench)
    assert found.definition == replace(REPORT, max_attempts=8, timeout=timedelta(minutes=10))
    assert (found.version, found.revision, found.base) == (2, 1, 1)
    assert origin_of(shown, "max_attempts") == ("admin", "anna")
    assert origin_of(shown, "retention") == ("code", None)


async def test_every_field_comes_back_as_it_was_set(bench: Bench) -> None:
    values = {
        "description": "réport",
        "schema": {"type": "object", "properties": {"n": {"type": "integer"}}},
        "timeout": timedelta(milliseconds=1500),
        "backoff": Steps(0.5, 30),
        "retention": Retention(succeeded="36h", failed="90d"),
    }
    await definitions.override(bench.store, "report", values, ANNA)
    assert (await known(bench)).definition == replace(REPORT, **values)  # type: ignore[arg-type]


async def test_waiting_jobs_keep_the_version_without_the_override(bench: Bench) -> None:
    before = await bench.enqueue("report")
    await definitions.override(bench.store, "report", {"max_attempts": 8}, ANNA)
    after = await bench.enqueue("report")
    records = [await bench.jobs.get(job) for job in (before, after)]
    assert [each.max_attempts for each in records if each] == [REPORT.max_attempts, 8]
    assert [claim.version for claim in await bench.claim()] == [1, 2]


async def test_a_sync_keeps_the_override_and_says_so(bench: Bench) -> None:
    await definitions.override(bench.store, "report", {"max_attempts": 8}, ANNA)
    (planned,) = await admin.sync(bench.store, [SLOWER], dry_run=True)
    (change,) = await bench.store.sync_definitions([SLOWER])
    assert (await known(bench)).definition == replace(SLOWER, max_attempts=8)
    for each in (planned, change):
        assert each.overridden == {"max_attempts": (9, 8)}
        assert each.fields == {"timeout": (REPORT.timeout, SLOWER.timeout)}


async def test_syncs_of_old_and_new_code_add_no_version_each_time(bench: Bench) -> None:
    await definitions.override(bench.store, "report", {"max_attempts": 8}, ANNA)
    versions = [(await bench.store.sync_definitions([code]))[0].version for code in (SLOWER, REPORT) * 2]
    assert versions == [4, 2, 4, 2]


async def test_a_reset_restores_what_the_code_says_now(bench: Bench) -> None:
    await definitions.override(bench.store, "report", {"max_attempts": 8, "description": "mine"}, ANNA)
    await bench.store.sync_definitions([SLOWER])
    await definitions.reset(bench.store, "report", ["max_attempts"], BEN)
    assert (await known(bench)).definition == replace(SLOWER, description="mine")
    shown = await definitions.reset(bench.store, "report", [], BEN)
    assert (shown.registered.definition, shown.registered.overrides) == (SLOWER, {})


async def test_the_second_of_two_administrators_is_told(bench: Bench) -> None:
    seen = (await known(bench)).revision
    changes = [
        definitions.override(bench.store, "report", {"max_attempts": tries}, ANNA, revision=seen) for tries in (7, 8)
    ]
    answers = await asyncio.gather(*changes, return_exceptions=True)
    (told,) = (answer for answer in answers if isinstance(answer, BaseException))
    assert isinstance(told, ChangedMeanwhile)
    assert told.revision == 1


async def test_an_override_holds_jobs_and_names_who_did_it(bench: Bench) -> None:
    await bench.enqueue("report")
    shown = await definitions.override(bench.store, "report", {"active": False}, ANNA)
    assert origin_of(shown, "active") == ("admin", "anna")
    assert not await bench.claim()
    await definitions.reset(bench.store, "report", ["active"], BEN)
    assert len(await bench.claim()) == 1


async def test_a_definition_without_code_is_created_and_run(bench: Bench) -> None:
    created = await definitions.create(bench.store, "resize", {"timeout": "5m"}, ANNA)
    assert (created.registered.declared, origin_of(created, "max_attempts")) == (False, ("default", None))
    await bench.enqueue("resize")
    (claim,) = await bench.claim(registration=await bench.join("resize"))
    assert claim.definition == Definition("resize", timeout=timedelta(minutes=5))
    with pytest.raises(WrongState, match="exists"):
        await definitions.create(bench.store, "resize", {}, BEN)


async def test_code_that_comes_later_keeps_what_was_set(bench: Bench) -> None:
    await definitions.create(bench.store, "resize", {"timeout": "5m"}, ANNA)
    code = Definition("resize", max_attempts=2)
    (change,) = await bench.store.sync_definitions([code])
    found = await known(bench, "resize")
    assert (found.declared, found.definition) == (True, replace(code, timeout=timedelta(minutes=5)))
    assert change.overridden == {"timeout": (code.timeout, timedelta(minutes=5))}


async def test_a_producer_asks_for_its_version_and_replaces_none(bench: Bench) -> None:
    await bench.store.sync_definitions([SLOWER])
    await definitions.override(bench.store, "report", {"max_attempts": 8}, ANNA)
    (change,) = await bench.store.sync_definitions([REPORT], adopt=False)
    pinned = await bench.store.definition_version("report", change.version)
    assert pinned == replace(REPORT, max_attempts=8)
    assert (await known(bench)).definition == replace(SLOWER, max_attempts=8)


@pytest.mark.parametrize(
    "given",
    [
        {"max_attempts": 0},
        {"priority": 5},
        {"timeout": "soon"},
        {"schema": {"type": "nonsense"}},
        {"schema": None},
        {"backoff": {"base": -1}},
        {"retention": {"done": "7d"}},
        {"active": "no"},
    ],
)
async def test_an_unusable_override_changes_nothing(bench: Bench, given: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match="Nothing was"):
        await definitions.override(bench.store, "report", given, ANNA)
    assert await known(bench) == Registered(REPORT, version=1, active=True)


async def test_an_unknown_definition_is_not_overridden(bench: Bench) -> None:
    with pytest.raises(UnknownDefinition, match="Did you mean"):
        await definitions.override(bench.store, "reprot", {"max_attempts": 2}, ANNA)


# ---------------------------------------------------------------------------------------------------------- producers


@dataclass(frozen=True)
class Code:
    """The definitions of a producer's code."""

    definitions: Sequence[Definition]

    @property
    def keys(self) -> Sequence[str]:
        return [definition.key for definition in self.definitions]


class Producer:
    """A producer whose process runs for long, and its clock."""

    def __init__(self, bench: Bench, *code: Definition) -> None:
        self.now = 0.0
        self.catalog = Catalog(bench.store, Code(code), monotonic=lambda: self.now)

    async def pinned(self, payload: Mapping[str, Any] | None = None) -> int | None:
        job = NewJob.of("report", payload or {})
        (found,) = await pin(Target(ACME, {}, lambda key: None), [job], self.catalog)
        return found.version


async def test_a_producer_has_an_override_after_30_seconds(bench: Bench) -> None:
    producer = Producer(bench, REPORT)
    assert await producer.pinned() == 1
    await definitions.override(bench.store, "report", {"max_attempts": 8}, ANNA)
    assert await producer.pinned() == 1
    producer.now += 31
    assert await producer.pinned() == 2


async def test_a_producer_with_older_code_does_not_bring_it_back(bench: Bench) -> None:
    producer = Producer(bench, REPORT)
    await producer.pinned()
    await bench.store.sync_definitions([SLOWER])
    await definitions.override(bench.store, "report", {"description": "new"}, ANNA)
    producer.now += 31
    version = await producer.pinned()
    assert version is not None
    assert await bench.store.definition_version("report", version) == replace(REPORT, description="new")
    assert (await known(bench)).definition == replace(SLOWER, description="new")


async def test_a_producer_checks_payloads_by_the_schema_that_was_set(bench: Bench) -> None:
    producer = Producer(bench, REPORT)
    await definitions.override(bench.store, "report", {"schema": {"required": ["month"]}}, ANNA)
    with pytest.raises(PayloadInvalid, match="month"):
        await producer.pinned({})
    assert await producer.pinned({"month": 5}) == 2
