"""The cases of the plan tests: each hot statement with typical values, and the indexes that it may use."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import orjson
from tests.postgres.plan_database import (
    BIG,
    DEEP,
    DEFINITIONS,
    LATER,
    WIDE,
    ended_id,
    event_trigger_uuid,
    event_uuid,
    lane_tenant,
    queued_id,
    running_id,
    trigger_uuid,
    worker_id,
)
from tests.postgres.plans import ENQUEUE_JOBS, Case, ConnectionKind


def _lanes(tenants: Sequence[str], definition: str) -> dict[str, Any]:
    count = len(tenants)
    return {
        "worker": worker_id(1),
        "batch": 1,
        "definitions": [definition] * count,
        "tenants": tenants,
        "from_priorities": [-(2**15)] * count,
        "from_seqs": [-1] * count,
        "to_priorities": [2**15 - 1] * count,
        "locked_definitions": [],
        "advance": False,
    }


def _held(numbers: Sequence[int]) -> dict[str, Any]:
    return {
        "tenants": [BIG] * len(numbers),
        "jobs": [running_id(number) for number in numbers],
        "attempts": [1] * len(numbers),
        "batches": [0] * len(numbers),
    }


def _verdicts(numbers: Sequence[int], attempt_status: str) -> dict[str, Any]:
    count = len(numbers)
    return {
        **_held(numbers),
        "workers": [worker_id(1)] * count,
        "attempt_statuses": [attempt_status] * count,
        "errors": [None] * count,
        "error_codes": [None] * count,
        "exit_codes": [None] * count,
        "details": [None] * count,
    }


def _taking(definitions: Sequence[str]) -> dict[str, Any]:
    """Values that look at the first tenants; with a limit, they claim."""
    start = {
        "after": "",
        "until": None,
        "around": True,
        "most": 64,
        "limit": 0,
        "even_if_due": True,
        "due_from": None,
    }
    return {"worker": worker_id(1), "batch": 1, "definitions": definitions, "tenants": None, **start}


def _alike(**jobs: Any) -> dict[str, Any]:
    shared = dict.fromkeys(
        ("priority", "max_attempts", "at", "deadline", "source_ref", "correlation_id", "created_by"), None
    )
    told = {"tenant": BIG, "definition": DEEP, "version": 1, "delay": timedelta(), "source": "manual"}
    return {**shared, **told, **jobs}


_NEW_IDS = [f"01900009-0000-7000-8000-{number:012x}" for number in range(100)]
_NEW_ID = UUID(_NEW_IDS[0])
_MINE = range(1, 51)


def _few(definitions: Sequence[str]) -> dict[str, Any]:
    return {"worker": worker_id(1), "batch": 1, "definitions": definitions, "limit": 16, "due_from": None}


def _fires(count: int) -> dict[str, Any]:
    """Decisions about the first schedules, each with a job."""
    job = {"definition": DEEP, "version": 1, "payload": {}, "source": "schedule", "at": "2027-01-01T00:00:00Z"}
    jobs = orjson.dumps([job]).decode()
    return {
        "triggers": [trigger_uuid(number) for number in range(1, count + 1)],
        "tenants": [BIG] * count,
        "fire_ats": [datetime(2027, 1, 1, tzinfo=UTC)] * count,
        "kinds": ["fired"] * count,
        "fires": [1] * count,
        "reasons": [None] * count,
        "whys": [None] * count,
        "jobs": [jobs] * count,
        "ids": [uuid4() for _ in range(count)],
    }


def _places(count: int) -> dict[str, Any]:
    """The places of the first schedules after a fire."""
    moments = [datetime(2027, 1, 1, tzinfo=UTC)] * count
    return {
        "triggers": [trigger_uuid(number) for number in range(1, count + 1)],
        "cursor_ats": moments,
        "cursor_locals": [None] * count,
        "last_fire_ats": moments,
        "next_fire_ats": moments,
        "tzdata": "2026a",
        "fan_out_ats": [None] * count,
        "fan_out_afters": [None] * count,
    }


def _emit(name: str) -> dict[str, Any]:
    return {"tenant": BIG, "id": UUID(int=7), "name": name, "data": "{}", "correlation_id": None, "created_by": None}


def _decided(event: UUID, name: str | None) -> dict[str, Any]:
    """An event with the decisions of twenty triggers, half of whose keys are held."""
    keys = [f"held:{number}" if number % 2 else f"new:{number}" for number in range(1, 21)]
    decisions = [
        {
            "trigger": str(event_trigger_uuid(number)),
            "kind": "fired",
            "trailing": True,
            "job": {
                "definition": DEEP,
                "payload": {},
                "source": "event",
                "dedupe": "window",
                "dedupe_key": key,
                "dedupe_for": "300 seconds",
            },
        }
        for number, key in enumerate(keys, 1)
    ]
    return {
        **_emit("a.b"),
        "id": event,
        "name": name,
        "emitted_at": "2027-01-01T00:00:00Z",
        "decisions": orjson.dumps(decisions).decode(),
        "wakes": True,
    }


_READY = {"jobs": {"jobs_ready", "Tid Scan", "jobs_running"}}
_FOUND = {"jobs": {"jobs_ready", "Tid Scan", "jobs_running", "jobs_future"}}
_PKEY = {"jobs": {"jobs_pkey"}}
_TENANTS_64 = [lane_tenant(number) for number in range(1, 65)]
_BY_ID = {"jobs": {"jobs_pkey"}, "jobs_done": {"jobs_done_pkey"}}
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

# Statements of a worker's own links.
ON_LINKS: tuple[Case, ...] = (
    Case(
        "claim from a deep lane",
        "fleet/claim_from_lanes",
        {**_lanes([BIG], DEEP), "share": 50, "limit": 50, "locked_tenants": []},
        _READY,
    ),
    Case(
        "claim behind a mark",
        "fleet/claim_from_lanes",
        {
            **_lanes([BIG], DEEP),
            "from_priorities": [1],
            "from_seqs": [0],
            "to_priorities": [1],
            "share": 20,
            "limit": 20,
            "locked_tenants": [],
        },
        _READY,
    ),
    Case(
        "claim from 64 capped lanes",
        "fleet/claim_from_lanes",
        {**_lanes(_TENANTS_64, WIDE), "share": 1, "limit": 50, "locked_tenants": _TENANTS_64},
        _READY,
    ),
    Case(
        "claim from 64 capped lanes and advance",
        "fleet/claim_from_lanes",
        {**_lanes(_TENANTS_64, WIDE), "share": 1, "limit": 50, "locked_tenants": _TENANTS_64, "advance": True},
        _READY,
    ),
    Case(
        "claim from 64 busy lanes",
        "fleet/claim_from_lanes",
        {**_lanes(_TENANTS_64, WIDE), "share": 1, "limit": 50, "locked_tenants": []},
        _READY,
    ),
    Case("take from a deep lane", "fleet/claim_next_tenants", {**_taking([DEEP]), "limit": 50}, _FOUND),
    Case("take from wide lanes", "fleet/claim_next_tenants", {**_taking([WIDE]), "limit": 100}, _FOUND),
    Case(
        "take from lanes of many definitions",
        "fleet/claim_next_tenants",
        {**_taking(DEFINITIONS), "limit": 100},
        _FOUND,
    ),
    Case(
        "take from three tenants",
        "fleet/claim_next_tenants",
        {**_taking(DEFINITIONS), "limit": 50, "tenants": [BIG, lane_tenant(7), "none"]},
        _FOUND,
    ),
    Case(
        "take from the end on at the beginning",
        "fleet/claim_next_tenants",
        {**_taking([WIDE]), "limit": 50, "after": "~", "until": "~", "around": False},
        _FOUND,
    ),
    Case("claim a few", "fleet/claim_few", _few(DEFINITIONS), _FOUND),
    Case("claim a few where there are many", "fleet/claim_few", _few([DEEP]), _FOUND),
    Case("only look", "fleet/claim_next_tenants", _taking(DEFINITIONS), _FOUND),
    Case("lock scopes", "fleet/lock_scopes", {"tenants": _TENANTS_64, "definitions": [WIDE] * 64}, {}),
    Case(
        "promote what is due",
        "fleet/promote",
        {"definitions": DEFINITIONS, "tenants": None, "limit": 50, "due_from": None},
        {"jobs": {"jobs_future", "Tid Scan"}},
    ),
    Case(
        "promote nothing",
        "fleet/promote",
        {"definitions": [DEEP, LATER], "tenants": None, "limit": 50, "due_from": None},
        {"jobs": {"jobs_future", "Tid Scan"}},
    ),
    Case(
        "finish",
        "fleet/finish",
        {
            **{
                name: values if values[0] is None else f"{{{','.join(map(str, values))}}}"
                for name, values in _verdicts(_MINE, "failed").items()
            },
            "statuses": f"{{{','.join(['failed'] * 50)}}}",
            "results": [None] * 50,
            "keeps": f"{{{','.join(['1 day'] * 50)}}}",
        },
        _PKEY,
    ),
    Case(
        "requeue",
        "fleet/requeue",
        {**_verdicts(_MINE, "failed"), "delays": [timedelta(minutes=1)] * 50, "forgiven": [0] * 50},
        _PKEY,
    ),
    Case(
        "append_log",
        "fleet/append_log",
        {
            **_held(_MINE),
            "workers": [worker_id(1)] * 50,
            "numbers": [1] * 50,
            "kinds": ["log"] * 50,
            "texts": ["said"] * 50,
            "progresses": [None] * 50,
        },
        _PKEY,
    ),
    Case(
        "renew",
        "fleet/renew",
        {
            "worker": worker_id(1),
            "lease": timedelta(minutes=1),
            "definitions": DEFINITIONS,
            "serves_tenants": None,
            "look": True,
            "probe": False,
            "thorough": True,
            "due_from": None,
            "cheap": 0.005,
            **_held(_MINE),
        },
        {
            "jobs": {"jobs_pkey", "jobs_running", "jobs_future"},
            "triggers": {"triggers_due"},
            "events": {"events_unexpanded"},
        },
    ),
    Case("sleep", "fleet/sleep", {"worker": worker_id(1), "definitions": DEFINITIONS, "tenants": None}, {}),
    Case("doze", "fleet/set_wake_time", {"sleep": 1, "next_due": timedelta(hours=1)}, {}),
    Case(
        "wake_another",
        "fleet/wake_another",
        {"worker": worker_id(1), "definitions": ["nothing"], "tenants": None},
        {},
    ),
    Case("evict", "fleet/evict", {"limit": 50}, {"jobs": {"jobs_running"}}),
    Case("held", "fleet/held", {"worker": worker_id(1)}, {"jobs": {"jobs_running"}}),
    Case(
        "prune",
        "fleet/prune",
        {"limit": 10},
        {
            "jobs_done": {"jobs_done_prune", "jobs_done_pkey"},
            "job_attempts": {"job_attempts_pkey"},
            "job_lines": {"job_lines_pkey"},
            "dedupe_holds": {"dedupe_holds_pkey"},
        },
    ),
    Case(
        "prune lines",
        "fleet/prune_lines",
        {"limit": 10, "lines": 50},
        {"jobs_done": {"jobs_done_prune"}, "job_lines": {"job_lines_pkey", "Tid Scan"}},
    ),
    Case("prune holds", "fleet/prune_holds", {"limit": 10}, {"dedupe_holds": {"dedupe_holds_expiry", "Tid Scan"}}),
    Case(
        "prune decisions",
        "fleet/prune_decisions",
        {"limit": 10},
        {"trigger_decisions": {"trigger_decisions_prune", "Tid Scan"}},
    ),
    Case("prune events", "fleet/prune_events", {"limit": 10}, {"events": {"events_prune", "Tid Scan"}}),
    Case(
        "prune worker names",
        "fleet/prune_worker_names",
        {"limit": 10},
        {"worker_names": {"worker_names_prune", "Tid Scan"}},
    ),
    Case(
        "find due schedules", "scheduler/due", {"only": None, "limit": 50, "left": []}, {"triggers": {"triggers_due"}}
    ),
    Case("fire two hundred", "scheduler/fire", _fires(200), {"trigger_decisions": {"trigger_decisions_fire"}}),
    Case("move fifty schedules on", "scheduler/advance", _places(50), {"triggers": {"triggers_pkey"}}),
    Case(
        "find the next fire",
        "scheduler/next",
        {"announce": True, "left": []},
        {"triggers": {"triggers_due"}, "events": {"events_unexpanded"}},
    ),
    Case("find events to expand", "scheduler/unexpanded", {"limit": 50}, {"events": {"events_unexpanded"}}),
    Case("expand an event", "events/place", _decided(event_uuid(1), None), {}),
    Case(
        "find fires of an older tzdata",
        "scheduler/outdated",
        {"tzdata": "2026b", "after_tzdata": "", "after": UUID(int=0), "limit": 200},
        {"triggers": {"triggers_of_tzdata"}},
    ),
    Case(
        "renew fires",
        "scheduler/renew_fires",
        {"tzdata": "2026a", "triggers": _places(50)["triggers"], "next_fire_ats": _places(50)["next_fire_ats"]},
        {"triggers": {"triggers_pkey"}},
    ),
    Case("find tenants to fire for", "scheduler/tenants", {"after": lane_tenant(7), "limit": 50}, {}),
    Case(
        "postpone a schedule",
        "scheduler/postpone",
        {"trigger": trigger_uuid(1), "by": timedelta(hours=1), "why": "it is broken"},
        {"triggers": {"triggers_pkey", "triggers_due"}},
    ),
)


def _placed(name: str, fields: Mapping[str, str]) -> Case:
    """Makes a case of twenty jobs with numbered keys or ids. A function shows its buffers, not its indexes."""
    jobs = [
        {"definition": DEEP, "payload": {"n": 1}} | {field: value.format(number) for field, value in fields.items()}
        for number in range(2, 42, 2)
    ]
    return Case(name, ENQUEUE_JOBS, {"tenant": BIG, "jobs": orjson.dumps(jobs).decode(), "wakes": True}, {})


# Statements of the pool.
_POOLED = (
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
        {"tenant": BIG, "id": _NEW_ID, "definition": DEEP, "version": 1, "payload": "{}", "source": "manual"},
        {},
    ),
    Case(
        "enqueue a hundred alike",
        "tenant/enqueue_plain_jobs",
        _alike(
            ids=",".join(f"01900009-0000-7000-8000-{number:012x}" for number in range(100)),
            payloads="\n".join(["{}"] * 100),
            wakes=True,
        ),
        {},
    ),
    Case("emit without triggers", "events/write", _emit("nothing.matches"), {}),
    Case("emit with triggers", "events/write", _emit("a.b"), {}),
    Case("place an event", "events/place", _decided(UUID(int=7), "a.b"), {}),
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
        {"tenant": BIG, "job": ended_id(1), "since": 1, "limit": 10},
        {"job_lines": {"job_lines_pkey"}},
    ),
)

# Planned for each run, by the filters that are set.
_FINDING = (
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
_LOOKING_ROUND = (
    Case("tenants", "administration/tenants", {"limit": 50}, {}),
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
        Case("jobs with id", "administration/jobs_with_id", {"job": ended_id(1)}, _BY_ID),
        Case("jobs with an unknown id", "administration/jobs_with_id", {"job": UUID(int=1)}, _BY_ID),
    )
)

# The first five enqueues on a connection are planned for each run, later ones once.
_ENQUEUING = [case for case in _POOLED if case.statement.startswith(("tenant/enqueue", "tenant/wake", "events/"))]
ON_THE_POOL = tuple(case.on(ConnectionKind.POOL) for case in _ENQUEUING)
PLANNED_EACH_TIME = tuple(case.on(ConnectionKind.FRESH) for case in (*_POOLED, *_FINDING, *_LOOKING_ROUND))
# In a transaction of the app.
ON_THE_CALLERS = tuple(case.on(ConnectionKind.CALLER) for case in _ENQUEUING)

EVERY = (*ON_LINKS, *ON_THE_POOL, *PLANNED_EACH_TIME, *ON_THE_CALLERS)

# These must have one sane plan, whatever the statistics were when it was made. Counts and lists are for people.
WITH_ONE_PLAN = (
    *ON_LINKS,
    *ON_THE_POOL,
    *ON_THE_CALLERS,
)
