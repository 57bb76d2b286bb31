"""The cases of the plan tests for figures of charts, tokens and lists of operations: all are planned each time."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from tests.postgres.plan_database import BIG, DEEP, operation_uuid, token_text
from tests.postgres.plans import Case

# The rows of the database end at the beginning of an hour, so windows from now would be empty at its end.
_BEFORE = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
_HOUR = {"since": _BEFORE - timedelta(hours=1), "till": _BEFORE + timedelta(hours=1), "step": 60}
_WEEK = {"since": _BEFORE - timedelta(days=7), "till": _BEFORE + timedelta(hours=1), "step": 7200}
_MINUTES, _HOURS = {"series_minutes": {"series_minutes_pkey"}}, {"series_hours": {"series_hours_pkey"}}
_USED = {
    "since": _BEFORE - timedelta(hours=24),
    "till": _BEFORE,
    "step": None,
    "by_definition": True,
    "definition": None,
    "limit": 10_001,
}
_TOKENS = {"api_tokens": {"api_tokens_pkey", "api_tokens_tenant"}}
_OPERATIONS = {"operations": {"operations_pkey", "operations_of_tenant", "operations_due"}}
_LAST = UUID(int=2**128 - 1)


def _busiest(rows: str, length: timedelta) -> Case:
    values = {"since": _BEFORE - length, "till": _BEFORE, "limit": 8}
    ways = {f"series_{rows}": {f"series_{rows}_at", f"series_{rows}_pkey"}}
    return Case(f"busiest tenants by {rows}", f"administration/busiest_tenants_{rows}", values, ways)


FIGURES = (
    Case("oldest waiting job", "tenant/oldest_queued", {"tenant": BIG}, {"jobs": {"jobs_pkey"}}),
    Case(
        "last worker of a definition",
        "tenant/last_worker",
        {"tenant": BIG, "definition": "rare", "most": 500},
        {"jobs_done": {"jobs_done_pkey"}, "worker_names": {"worker_names_pkey"}},
    ),
    Case("progress of figures", "administration/series_progress", {}, {}),
    Case("minutes of a tenant", "tenant/series_minutes", {"tenant": BIG, "definitions": [""], **_HOUR}, _MINUTES),
    Case("hours of a tenant", "tenant/series_hours", {"tenant": BIG, "definitions": [""], **_WEEK}, _HOURS),
    Case(
        "minutes of two tenants",
        "administration/series_minutes",
        {"tenants": ["", BIG], "definition": "", **_HOUR},
        _MINUTES,
    ),
    Case(
        "hours of two tenants",
        "administration/series_hours",
        {"tenants": ["", BIG], "definition": "", **_WEEK},
        _HOURS,
    ),
    Case(
        "minutes of definitions",
        "administration/series_definitions_minutes",
        {"definitions": ["", DEEP], **_HOUR},
        _MINUTES,
    ),
    Case(
        "hours of definitions",
        "administration/series_definitions_hours",
        {"definitions": ["", DEEP], **_WEEK},
        _HOURS,
    ),
    _busiest("minutes", timedelta(minutes=25)),
    _busiest("hours", timedelta(hours=25)),
    Case(
        "hours of usage of a tenant", "tenant/usage", {"tenant": BIG, **_USED}, {"usage_hours": {"usage_hours_pkey"}}
    ),
    Case(
        "hours of usage of all tenants",
        "administration/usage",
        {"by_tenant": True, **_USED},
        {"usage_hours": {"usage_hours_at", "usage_hours_pkey"}},
    ),
    Case("token", "tokens/get", {"token": token_text(7)}, _TOKENS),
    Case("use of a token", "tokens/note_use", {"token": token_text(7)}, _TOKENS),
    Case("end of a token", "tokens/revoke", {"token": token_text(7)}, _TOKENS),
    Case("tokens", "tokens/list", {"after": "", "limit": 50}, _TOKENS),
    Case("tokens of a tenant", "tokens/list_of_tenant", {"tenant": BIG, "after": "", "limit": 50}, _TOKENS),
    Case("operation", "operations/get", {"operation": operation_uuid(7), "tenant": None}, _OPERATIONS),
    Case("operations", "operations/list", {"before": _LAST, "limit": 50}, _OPERATIONS),
    Case(
        "operations of a tenant",
        "operations/list_of_tenant",
        {"tenant": BIG, "before": _LAST, "limit": 50},
        _OPERATIONS,
    ),
    Case("next batch of any operation", "operations/next", {"only": None}, _OPERATIONS),
    Case("operation that deletes a tenant", "operations/removal", {"tenant": BIG}, _OPERATIONS),
)
