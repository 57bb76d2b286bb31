"""The values that the search box suggests, by the name of their filter."""

from collections.abc import Iterable

from leasehold.console.pages import Visit
from leasehold.console.queries import PAYLOAD
from leasehold.model.access import Permission
from leasehold.model.definition import Registered
from leasehold.model.job import Source
from leasehold.model.redaction import is_secret_name
from leasehold.model.status import DisplayState
from leasehold.operations import health

MOST_FIELDS = 40


async def completions_of(visit: Visit) -> dict[str, list[str]]:
    """Returns suggestions that the visitor may know."""
    readable = visit.may(Permission.DEFINITIONS_READ)
    definitions = await visit.shared("definitions", lambda store: store.definitions()) if readable else ()
    states = [state.value.replace(" ", "-") for state in DisplayState if state is not DisplayState.BLOCKED]
    known = {
        "status": [*states, "queued"],
        "definition": sorted(each.definition.key for each in definitions),
        "source": [source.value for source in Source],
        "created": ["<15m", "<1h", "<24h", "<7d", ">7d"],
        "duration": [">10s", ">1m", ">5m", ">1h", "<1s"],
        "priority": ["<50", "<100", ">100"],
        "worker": await _workers(visit),
        "dedupe": [],
        "correlation": [],
        "error": [],
    }
    if visit.may(Permission.PAYLOADS_READ):
        known |= {f"{PAYLOAD}.{name}": [] for name in _fields(definitions)}
    return known | {"tenant": await visit.tenants()} if visit.area.tenant is None else known


async def _workers(visit: Visit) -> list[str]:
    if not visit.may_all(Permission.WORKERS_READ):
        return []
    fleet = await visit.shared("fleet", health.read_fleet)
    return [each.id for each in fleet.workers]


def _fields(definitions: Iterable[Registered]) -> list[str]:
    """Returns the names of top-level fields of payloads that can be looked for."""
    schemas = (each.definition.schema or {} for each in definitions)
    names = {str(name) for schema in schemas for name in schema.get("properties", {})}
    return sorted(name for name in names if _can_be_typed(name) and not is_secret_name(name))[:MOST_FIELDS]


def _can_be_typed(name: str) -> bool:
    return bool(name) and not set(name) & set(' .:="')
