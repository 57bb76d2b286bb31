"""The cases of the plan tests on connections of the pool: each statement, and the indexes that it may use."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import orjson
from tests.postgres.plan_cases_of_errors import OF_EACH_TENANT as OF_ERRORS
from tests.postgres.plan_database import (
    BIG,
    DEEP,
    RUNNING,
    WIDE,
    due_id,
    ended_id,
    event_trigger_uuid,
    lane_tenant,
    queued_id,
    running_id,
    trigger_uuid,
)
from tests.postgres.plan_events import decided, emit
from tests.postgres.plans import ENQUEUE_JOBS, NO_TRAITS, Case, ConnectionKind


def _alike(**jobs: Any) -> dict[str, Any]:
    shared = dict.fromkeys(
        ("priority", "max_attempts", "at", "deadline", "source_ref", "correlation_id", "created_by", "trace_context"),
        None,
    )
    told = {"tenant": BIG, "definition": DEEP, "version": 1, "delay": timedelta(), "source": "manual"}
    return {**shared, **told, **jobs}


_NEW_IDS = [f"01900009-0000-7000-8000-{number:012x}" for number in range(100)]
_NEW_ID = UUID(_NEW_IDS[0])
_PKEY = {"jobs": {"jobs_pkey"}}
_BY_ID = {"jobs": {"jobs_pkey"}, "jobs_done": {"jobs_done_pkey"}}
_FACTS = {
    "jobs": {"jobs_pkey", "jobs_ready", "jobs_active_dedupe"},
    "jobs_done": {"jobs_done_pkey"},
    "dedupe_holds": {"dedupe_holds_pkey"},
}
_FIND = {
    "tenant": BIG,
    "up_to": UUID(int=2**128 - 1),
    "active": ["blocked", "queued", "running"],
    "running": False,
    "succeeded": True,
    "unusual": ["failed", "canceled", "dead_letter"],
    "definitions": None,
    "source": None,
    "correlation_id": None,
    "due": None,
    "tried": None,
    "created_after": None,
    "created_before": None,
    "limit": 50,
}
_FIND_WAYS = {
    "jobs": {"jobs_pkey", "jobs_correlation"},
    "jobs_done": {"jobs_done_pkey", "jobs_done_unusual", "jobs_done_correlation"},
}
# No job matches, so that nothing but the shares ends the look.
_LOOK = {
    **{name: _FIND[name] for name in ("succeeded", "unusual", "source", "correlation_id", "due", "tried", "running")},
    **NO_TRAITS,
    "active": ["queued", "running", "blocked"],
    "tenants": [BIG, lane_tenant(7)],
    "up_to": [UUID(int=2**128 - 1)] * 2,
    "shares": [50, 50],
    "definitions": ["unused"],
    "created_after": None,
    "created_before": None,
}
_NONE_BUT_RUNNING = {"active": [], "running": True, "succeeded": False, "unusual": []}
_LOOK_FOR_A_PAYLOAD = {
    **{name: value for name, value in _FIND.items() if name != "limit"},
    **NO_TRAITS,
    "payload_path": ["name"],
    "payload_value": "unused",
    "share": 50,
}


def _placed(name: str, fields: Mapping[str, str]) -> Case:
    """Makes a case of twenty jobs with numbered keys or ids. A function shows its buffers, not its indexes."""
    jobs = [
        {"definition": DEEP, "payload": {"n": 1}} | {field: value.format(number) for field, value in fields.items()}
        for number in range(2, 42, 2)
    ]
    return Case(name, ENQUEUE_JOBS, {"tenant": BIG, "jobs": orjson.dumps(jobs).decode(), "wakes": True}, {})


# Statements of the pool.
POOLED = (
    _placed("place new", {"dedupe_key": "new-{}"}),
    _placed("place for ever", {"dedupe_key": "new-{}", "dedupe": "always"}),
    _placed("place with ids", {"id": "01900007-0000-7000-8000-{:012}"}),
    _placed("place with ids that were used", {"id": "01900006-0000-7000-8000-{:012}"}),
    _placed("place what is there", {"dedupe_key": "key:{}"}),
    _placed("place what is held", {"dedupe_key": "held:{}", "dedupe": "always"}),
    _placed("replace", {"dedupe_key": "key:{}", "on_conflict": "replace"}),
    Case(
        "enqueue one of which little is said",
        "tenant/enqueue_one",
        {
            "tenant": BIG,
            "id": _NEW_ID,
            "definition": DEEP,
            "version": 1,
            "payload": "{}",
            "source": "manual",
            "trace_context": None,
        },
        {},
    ),
    Case(
        "enqueue a hundred alike",
        "tenant/enqueue_plain_jobs",
        _alike(
            ids=",".join(_NEW_IDS),
            payloads="\n".join(["{}"] * 100),
            wakes=True,
        ),
        {},
    ),
    Case("emit without triggers", "events/write", emit("nothing.matches"), {}),
    Case("emit with triggers", "events/write", emit("a.b"), {}),
    Case("place an event", "events/place", decided(UUID(int=7), "a.b"), {}),
    Case("wake for many", "tenant/wake", {"tenant": BIG, "definitions": [DEEP], "dues": [None]}, {}),
    Case("get", "tenant/get", {"tenant": BIG, "jobs": [ended_id(1)]}, _BY_ID),
    Case("cancel", "tenant/cancel", {"tenant": BIG, "jobs": [queued_id(1), queued_id(2), running_id(1)]}, _BY_ID),
    Case(
        "reschedule",
        "tenant/reschedule",
        {"tenant": BIG, "jobs": [queued_id(1), queued_id(2)], "delay": timedelta(hours=1), "priority": None},
        _BY_ID,
    ),
    Case(
        "retry",
        "tenant/retry",
        {"tenant": BIG, "jobs": [ended_id(number) for number in range(1, 51)], "attempts": [1] * 50},
        {**_BY_ID, "dedupe_holds": {"dedupe_holds_pkey"}, "job_attempts": {"job_attempts_pkey"}},
    ),
    Case("await", "tenant/await", {"tenant": BIG, "job": queued_id(1)}, _PKEY),
    Case(
        "counts",
        "tenant/counts",
        {"tenant": BIG, "cap": 50},
        {
            "jobs": {"jobs_pkey", "jobs_ready", "jobs_running", "jobs_blocked"},
            "jobs_done": {"jobs_done_pkey", "jobs_done_unusual"},
        },
    ),
    Case(
        "counts of a small tenant",
        "tenant/counts",
        {"tenant": lane_tenant(7), "cap": 50},
        {
            "jobs": {"jobs_pkey", "jobs_ready", "jobs_running", "jobs_blocked"},
            "jobs_done": {"jobs_done_pkey", "jobs_done_unusual"},
        },
    ),
    Case(
        "attempts",
        "tenant/attempts",
        {"tenant": BIG, "job": ended_id(1)},
        {**_BY_ID, "job_attempts": {"job_attempts_pkey"}, "worker_names": {"worker_names_pkey"}},
    ),
    Case(
        "lines",
        "tenant/lines",
        {"tenant": BIG, "job": ended_id(1), "attempt": 1, "after": 0, "limit": 1000},
        {"job_lines": {"job_lines_pkey"}},
    ),
    Case(
        "last lines",
        "tenant/last_lines",
        {"tenant": BIG, "job": ended_id(1), "since": 1, "limit": 10, "kind": None},
        {"job_lines": {"job_lines_pkey"}},
    ),
    Case(
        "last progress",
        "tenant/last_lines",
        {"tenant": BIG, "job": ended_id(1), "since": 1, "limit": 1, "kind": "progress"},
        {"job_lines": {"job_lines_pkey"}},
    ),
    Case("facts of a waiting job", "tenant/facts", {"tenant": BIG, "job": queued_id(90), "most": 100}, _FACTS),
    Case("facts of a due job", "tenant/facts", {"tenant": BIG, "job": due_id(1), "most": 100}, _FACTS),
    Case("facts of a running job", "tenant/facts", {"tenant": BIG, "job": running_id(1), "most": 100}, _FACTS),
    Case("facts of an ended job", "tenant/facts", {"tenant": BIG, "job": ended_id(1), "most": 100}, _FACTS),
    Case(
        "workers of a lane",
        "fleet/lane_workers",
        {"definition": RUNNING, "tenant": BIG, "most": 10_000, "limit": 100},
        {"jobs": {"jobs_running"}},
    ),
    Case(
        "lanes",
        "administration/lanes",
        {
            "definitions": [DEEP, RUNNING, *[WIDE] * 18],
            "tenants": [BIG, BIG, *(lane_tenant(number) for number in range(1, 19))],
        },
        {"jobs": {"jobs_running"}},
    ),
)

# Planned for each run, by the filters that are set.
FINDING = (
    Case("find", "tenant/find", _FIND, _FIND_WAYS),
    Case("find a small tenant's", "tenant/find", {**_FIND, "tenant": lane_tenant(7)}, _FIND_WAYS),
    Case("find further below", "tenant/find", {**_FIND, "up_to": ended_id(60)}, _FIND_WAYS),
    Case("find by correlation", "tenant/find", {**_FIND, "correlation_id": "c2"}, _FIND_WAYS),
    Case(
        "find dead letters",
        "tenant/find",
        {**_FIND, "active": [], "succeeded": False, "unusual": ["dead_letter"]},
        _FIND_WAYS,
    ),
    Case("find what is due", "tenant/find", {**_FIND, "due": True}, _FIND_WAYS),
    Case("find what was tried", "tenant/find", {**_FIND, "tried": True}, _FIND_WAYS),
    Case(
        "find running",
        "tenant/find",
        {**_FIND, "active": [], "running": True, "succeeded": False, "unusual": []},
        {**_FIND_WAYS, "jobs": {"jobs_pkey", "jobs_running"}},
    ),
    Case("look at tenants", "administration/look_at_tenants", _LOOK, _BY_ID),
    Case(
        "look at dead letters of tenants",
        "administration/look_at_tenants",
        {**_LOOK, "active": [], "succeeded": False, "unusual": ["dead_letter"]},
        {**_BY_ID, "jobs_done": {"jobs_done_unusual"}},
    ),
    Case("look for a payload", "tenant/look", _LOOK_FOR_A_PAYLOAD, _BY_ID),
    Case(
        "look for the jobs of a worker",
        "tenant/look",
        {**_LOOK_FOR_A_PAYLOAD, **NO_TRAITS, **_NONE_BUT_RUNNING, "worker": UUID(int=7)},
        {"jobs": {"jobs_running"}, "jobs_done": {"jobs_done_unusual"}},
    ),
    Case(
        "look for slow dead letters",
        "tenant/look",
        {
            **_LOOK_FOR_A_PAYLOAD,
            **NO_TRAITS,
            "active": [],
            "succeeded": False,
            "unusual": ["dead_letter"],
            "shortest": timedelta(hours=1),
        },
        {"jobs_done": {"jobs_done_unusual"}},
    ),
    Case(
        "taken keys",
        "tenant/taken_keys",
        {"tenant": BIG, "jobs": [ended_id(number) for number in range(1, 51)]},
        {"jobs": {"jobs_active_dedupe"}, "jobs_done": {"jobs_done_pkey"}, "dedupe_holds": {"dedupe_holds_pkey"}},
    ),
    Case("tenants that run", "administration/tenants_that_run", {}, {"jobs": {"jobs_running"}}),
    Case(
        "jobs by id",
        "administration/jobs_by_id",
        {"tenants": [BIG, BIG], "jobs": [ended_id(1), queued_id(1)]},
        _BY_ID,
    ),
)

# Statements of administrators; planned for each run.
_EVERYWHERE = {**_FIND, "last_tenant": "", "up_to_later": UUID(int=2**128 - 1), "only_running": False}
del _EVERYWHERE["tenant"]
_ONLY_RUNNING = {
    **_EVERYWHERE,
    "active": [],
    "running": True,
    "succeeded": False,
    "unusual": [],
    "only_running": True,
}
_AUDIT = {"tenant": None, "action": None, "from_id": UUID(int=0), "up_to": UUID(int=2**128 - 1), "limit": 50}
# Later than all rows: a look reads what is new, and steps over everything else.
_CHANGES = {
    "since": datetime(2100, 1, 1, tzinfo=UTC),
    "overlap": timedelta(seconds=5),
    "tenants": [BIG, lane_tenant(7)],
    "everything": False,
    "limit": 1000,
    "of_tenant": 120,
    "operations": 20,
}
_CHANGED_WAYS = {
    "jobs": {"jobs_pkey", "jobs_running"},
    "jobs_done": {"jobs_done_prune", "jobs_done_kept"},
    "job_attempts": {"job_attempts_finished"},
    "audit_log": {"audit_log_pkey"},
    "operations": {"operations_pkey", "operations_due"},
}
_ACTIVITY = {"span": timedelta(minutes=1), "limit": 500, "lanes": 20, "ready": 10}
_ACTIVE_WAYS = {
    "jobs": {"jobs_ready", "jobs_running", "jobs_pkey"},
    "jobs_done": {"jobs_done_prune", "jobs_done_kept", "jobs_done_pkey"},
    "job_attempts": {"job_attempts_finished"},
}
LOOKING_ROUND = (
    Case("changes of tenants", "administration/changes", _CHANGES, _CHANGED_WAYS),
    Case("changes of all", "administration/changes", {**_CHANGES, "everything": True}, _CHANGED_WAYS),
    Case("activity", "administration/activity", _ACTIVITY, _ACTIVE_WAYS),
    Case("audit", "audit/page", _AUDIT, {"audit_log": {"audit_log_pkey"}}),
    Case("audit of a tenant", "audit/page", {**_AUDIT, "tenant": "few"}, {"audit_log": {"audit_log_tenant"}}),
    Case("audit of an action", "audit/page", {**_AUDIT, "action": "rare"}, {"audit_log": {"audit_log_action"}}),
    Case("prune the audit log", "audit/prune", {"limit": 50}, {"audit_log": {"audit_log_pkey"}}),
    Case(
        "usage of a tenant",
        "administration/tenant_usage",
        {"tenant": BIG, "cap": 50},
        {**_PKEY, "triggers": {"triggers_of_tenant"}},
    ),
    Case("tenants", "administration/tenants", {"limit": 50, "after": ""}, {}),
    Case(
        "triggers of a tenant",
        "triggers/list",
        {"tenant": BIG, "after": None, "limit": 50},
        {"triggers": {"triggers_of_tenant", "triggers_pkey"}},
    ),
    Case(
        "events of a tenant",
        "events/list",
        {"tenant": BIG, "before": None, "name": None, "limit": 50},
        {"events": {"events_pkey"}},
    ),
    Case(
        "holders of keys",
        "events/holders",
        {"tenant": BIG, "keys": [f"held:{number}" for number in range(1, 21)]},
        {"dedupe_holds": {"dedupe_holds_pkey"}},
    ),
    Case("triggers", "administration/triggers", {"after": None, "limit": 50}, {"triggers": {"triggers_pkey"}}),
    Case(
        "decisions of a trigger",
        "triggers/decisions",
        {"tenant": BIG, "trigger": trigger_uuid(1), "limit": 50},
        {"trigger_decisions": {"trigger_decisions_of_trigger", "trigger_decisions_fire"}},
    ),
    Case(
        "latest decisions of triggers",
        "triggers/latest_decisions",
        {"tenant": BIG, "triggers": [trigger_uuid(number) for number in range(1, 51)]},
        {"trigger_decisions": {"trigger_decisions_of_trigger", "trigger_decisions_fire"}},
    ),
    Case(
        "decisions about events",
        "events/decisions",
        {
            "tenant": BIG,
            "events": [UUID(int=number) for number in range(1, 51)],
            "triggers": [event_trigger_uuid(number) for number in range(1, 21)],
        },
        {"trigger_decisions": {"trigger_decisions_event"}},
    ),
    Case(
        "triggers of the code",
        "administration/triggers_of_code",
        {"triggers": [trigger_uuid(100)], "definitions": [DEEP]},
        {"triggers": {"triggers_of_code", "triggers_pkey"}},
    ),
    Case(
        "count the workers",
        "doctor/workers",
        {"most": 10_000},
        {"jobs": {"jobs_running", "jobs_ready", "jobs_future"}},
    ),
    Case("count the schedules", "doctor/schedules", {"most": 50}, {"triggers": {"triggers_due"}}),
    Case(
        "find what runs everywhere",
        "administration/find_all_tenants",
        _ONLY_RUNNING,
        {**_FIND_WAYS, "jobs": {"jobs_running", "jobs_pkey"}},
    ),
)
# No index lists these: they cost some probes for each tenant.
OF_EACH_TENANT = tuple(
    case.on(ConnectionKind.FRESH)
    for case in (
        Case("find everywhere", "administration/find_all_tenants", _EVERYWHERE, _FIND_WAYS),
        Case(
            "find further below everywhere",
            "administration/find_all_tenants",
            {**_EVERYWHERE, "last_tenant": lane_tenant(7), "up_to": ended_id(60), "up_to_later": ended_id(61)},
            _FIND_WAYS,
        ),
        Case(
            "find dead letters everywhere",
            "administration/find_all_tenants",
            {**_EVERYWHERE, "active": [], "succeeded": False, "unusual": ["dead_letter"]},
            _FIND_WAYS,
        ),
        Case(
            "find by correlation everywhere",
            "administration/find_all_tenants",
            {**_EVERYWHERE, "correlation_id": "c2"},
            _FIND_WAYS,
        ),
        *OF_ERRORS,
        Case("jobs with id", "administration/jobs_with_id", {"job": ended_id(1)}, _BY_ID),
        Case("jobs with an unknown id", "administration/jobs_with_id", {"job": UUID(int=1)}, _BY_ID),
    )
)
