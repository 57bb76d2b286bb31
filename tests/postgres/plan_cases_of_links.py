"""The cases of the plan tests on a worker's own links: each statement, and the indexes that it may use."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import orjson
from tests.model.claims import a_claim
from tests.postgres.plan_database import (
    BIG,
    DEEP,
    DEFINITIONS,
    LATER,
    WIDE,
    event_uuid,
    lane_tenant,
    running_id,
    trigger_uuid,
    worker_id,
)
from tests.postgres.plan_events import decided
from tests.postgres.plans import Case

from leasehold.engines.postgres import rows
from leasehold.engines.postgres.claim.positions import Gap, Lane, LaneRange, ReadyRanges
from leasehold.model.outcome import Verdict
from leasehold.model.status import AttemptStatus, Status


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


def _endings(numbers: Sequence[int]) -> dict[str, Any]:
    """Values of jobs that end alike: what they share comes once."""
    worker, verdict = str(worker_id(1)), Verdict(Status.FAILED, AttemptStatus.FAILED)
    jobs = [str(running_id(number)) for number in numbers]
    return rows.endings([(a_claim(tenant=BIG, job=job, worker=worker, batch=0), verdict) for job in jobs])


_ARRAYS = {
    "tenant": "tenants",
    "attempt": "attempts",
    "worker": "workers",
    "batch": "batches",
    "status": "statuses",
    "attempt_status": "attempt_statuses",
    "keep": "keeps",
}


def _in_arrays(endings: dict[str, Any], count: int) -> dict[str, Any]:
    """The same values, but all in arrays."""
    texts = {each: "null" if endings[one] is None else str(endings[one]) for one, each in _ARRAYS.items()}
    return {
        **endings,
        **{each: f"{{{','.join([text] * count)}}}" for each, text in texts.items()},
        **dict.fromkeys(_ARRAYS, None),
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
        "cheap": 0.002,
    }
    return {"worker": worker_id(1), "batch": 1, "definitions": definitions, "tenants": None, **start}


def _few(definitions: Sequence[str], ranges: ReadyRanges | None = None) -> dict[str, Any]:
    whole = ReadyRanges([Gap(definition) for definition in definitions])
    fixed = {"worker": worker_id(1), "batch": 1, "limit": 16, "due_from": None, "cheap": 0.002}
    return {"definitions": definitions, **fixed, **(ranges or whole).columns()}


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


_MINE = range(1, 51)
_ENDINGS = _endings(_MINE)
_READY = {"jobs": {"jobs_ready", "Tid Scan", "jobs_running"}}
_FOUND = {"jobs": {"jobs_ready", "Tid Scan", "jobs_running", "jobs_future"}}
_PKEY = {"jobs": {"jobs_pkey"}}
_TENANTS_64 = [lane_tenant(number) for number in range(1, 65)]

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
    Case(
        "claim a few behind the positions of a lane",
        "fleet/claim_few",
        _few(
            [DEEP],
            ReadyRanges(
                [Gap(DEEP, before=BIG), Gap(DEEP, after=BIG)],
                [
                    LaneRange(Lane(DEEP, BIG, capped=False), to_priority=99),
                    LaneRange(Lane(DEEP, BIG, capped=False), 100, 2**40),
                ],
            ),
        ),
        _FOUND,
    ),
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
    Case("finish", "fleet/finish", _ENDINGS, _PKEY),
    Case("finish what shares nothing", "fleet/finish", _in_arrays(_ENDINGS, 50), _PKEY),
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
            "operations": {"operations_due"},
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
        "prune figures of minutes",
        "fleet/prune_series_minutes",
        {"limit": 10},
        {"series_minutes": {"series_minutes_at", "Tid Scan"}},
    ),
    Case(
        "prune figures of hours",
        "fleet/prune_series_hours",
        {"limit": 10},
        {"series_hours": {"series_hours_at", "Tid Scan"}},
    ),
    Case("prune usage", "fleet/prune_usage", {"limit": 10}, {"usage_hours": {"usage_hours_at", "Tid Scan"}}),
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
    Case("expand an event", "events/place", decided(event_uuid(1), None), {}),
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
