"""The list of definitions, and the page of one: settings, schema, versions, and the workers that serve it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from starlette.responses import Response

from leasehold.console.pages import Pages, Visit
from leasehold.console.segments import name_of, segment_of
from leasehold.model.access import Permission
from leasehold.model.backoff import Exponential, Steps
from leasehold.model.definition import Definition, Registered, differences
from leasehold.model.duration import span
from leasehold.model.job import TenantId
from leasehold.model.limits import ScopeKind
from leasehold.operations import admin, definitions, views
from leasehold.store import ScopeRecord, Store, WorkerRecord

pages = Pages()
VERSIONS = 6
_CHANGED_VALUE = 60


@dataclass(frozen=True, slots=True)
class DefinitionRow:
    """A definition of the list."""

    known: Registered
    href: str
    workers: int
    scope: ScopeRecord | None

    @property
    def definition(self) -> Definition:
        return self.known.definition


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a definition, and the fields that it has changed."""

    number: int
    changes: Mapping[str, tuple[str, str]]


def key_of(visit: Visit) -> str:
    return name_of(visit.request.path_params["key"])


def href_of(visit: Visit, key: str) -> str:
    return f"{visit.area.base}/definitions/{segment_of(key)}"


def list_serving(
    workers: Sequence[WorkerRecord], key: str, tenant: TenantId | None, now: datetime
) -> list[WorkerRecord]:
    """Returns the live workers that start jobs of a definition; in the scope of a tenant, those for its jobs."""
    return [
        each
        for each in workers
        if key in each.serves.definitions
        and each.lease_expires_at > now
        and each.drains_since is None
        and (tenant is None or each.serves.tenants is None or tenant in each.serves.tenants)
    ]


@pages.add("GET", "/definitions", Permission.DEFINITIONS_READ)
async def list_definitions(visit: Visit) -> Response:
    """Lists the kinds of jobs, with how many live workers serve each."""
    known = await visit.shared("definitions", admin.definitions)
    workers = await visit.shared("workers", admin.workers)
    scopes = await _scopes(visit)
    now, owner = datetime.now(UTC), visit.area.tenant
    rows = [
        DefinitionRow(
            each,
            href_of(visit, each.definition.key),
            len(list_serving(workers, each.definition.key, owner, now)),
            scopes.get(each.definition.key),
        )
        for each in sorted(known, key=lambda each: each.definition.key)
    ]
    facts = {"rows": rows, "may_enqueue": visit.may(Permission.JOBS_ENQUEUE), "may_see_limits": _sees_limits(visit)}
    return await visit.show("definitions.html", "definitions", facts)


@pages.add("GET", "/definitions/{key}", Permission.DEFINITIONS_READ)
async def show_definition(visit: Visit) -> Response:
    """Shows a definition."""
    # As in the API, tenants see a definition as it is now, and neither its history nor the names of administrators.
    key, is_admin = key_of(visit), visit.may(Permission.DEFINITIONS_WRITE)

    async def read(store: Store) -> tuple[definitions.Details, list[Version]]:
        details = await definitions.details(store, key)
        return details, await _versions(store, details.registered) if is_admin else []

    details, versions = await visit.context.ask(read)
    workers = await visit.shared("workers", admin.workers)
    found = list_serving(workers, key, visit.area.tenant, datetime.now(UTC))
    document = views.definition(details.registered)
    facts = {
        "known": details.registered,
        "definition": details.registered.definition,
        "here": href_of(visit, key),
        "origins": {each.field: each for each in details.origins},
        "overridden": [each for each in details.origins if each.origin == "admin"],
        "values": {each.field: said(each.value) for each in details.origins},
        "bases": {each.field: said(each.base) for each in details.origins},
        "versions": versions,
        "workers": found,
        "may_see_workers": visit.may(Permission.WORKERS_READ),
        "scope": (await _scopes(visit)).get(key),
        "may_see_limits": _sees_limits(visit),
        "schema": document["schema"],
        "may_enqueue": visit.may(Permission.JOBS_ENQUEUE) and details.registered.active,
        "may_override": is_admin,
    }
    return await visit.show("definition.html", "definitions", facts)


def _sees_limits(visit: Visit) -> bool:
    return visit.may(Permission.LIMITS_READ)


async def _scopes(visit: Visit) -> dict[str, ScopeRecord]:
    """Reads the limits and pauses of definitions, for those who may see them."""
    if not _sees_limits(visit):
        return {}
    found = await visit.shared("scopes", admin.scopes)
    return {each.scope.key: each for each in found if each.scope.kind is ScopeKind.DEFINITION}


async def _versions(store: Store, known: Registered) -> list[Version]:
    """Reads the latest versions, the newest first, with what each has changed."""
    key, newest = known.definition.key, known.version
    numbers = range(newest, max(newest - VERSIONS, 0), -1)
    read = {number: await store.definition_version(key, number) for number in numbers}
    found = []
    for number in numbers:
        after, before = read[number], read.get(number - 1)
        if after is not None:
            found.append(Version(number, _changes(before, after) if before is not None else {}))
    return found[: VERSIONS - 1]


def _changes(before: Definition, after: Definition) -> dict[str, tuple[str, str]]:
    return {name: (_short(old), _short(new)) for name, (old, new) in differences(before, after).items()}


def _short(value: Any) -> str:
    text = said(value)
    return text if len(text) <= _CHANGED_VALUE else f"{text[: _CHANGED_VALUE - 1]}…"


def said(value: Any) -> str:
    """Writes a field of a definition for people."""
    match value:
        case bool():
            return "yes" if value else "no"
        case Exponential():
            return f"{value.base:g} s, times {value.factor:g} after each try, at most {value.cap:g} s" + (
                "" if not value.jitter else f", up to {value.jitter:.0%} less by chance"
            )
        case Steps():
            return "after " + ", ".join(f"{each:g} s" for each in value.as_json()["steps"])
        case None:
            return "none"
        case str() | int():
            return str(value)
    shown = views.field_value(value)
    if isinstance(shown, dict) and "succeeded" in shown:
        kept = {name: "for ever" if each is None else span(each) for name, each in shown.items()}
        return ", ".join(f"{name.replace('_', ' ')}: {each}" for name, each in kept.items())
    return span(value) if hasattr(value, "total_seconds") else views.as_json(shown).decode()
