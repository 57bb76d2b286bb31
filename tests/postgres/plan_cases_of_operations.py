"""The cases of the plan tests for batches of operations, on the link that runs them. They are planned each time."""

from collections.abc import Mapping
from uuid import UUID

from tests.postgres.plan_database import BIG, ended_id, queued_id, running_id
from tests.postgres.plans import Case

_PKEY = {"jobs": {"jobs_pkey"}}
_TRIGGERS = {"triggers": {"triggers_pkey", "triggers_of_tenant", "triggers_deleted"}}
_LOOK = {
    "tenant": BIG,
    "up_to": UUID(int=2**128 - 1),
    "began": None,
    "scan": 300,
    "limit": 50,
    **dict.fromkeys(("definitions", "source", "correlation_id", "due", "tried", "created_after", "created_before")),
}


def _removal(what: str, statement: str, ways: Mapping[str, set[str]]) -> Case:
    return Case(f"remove {what}", f"operations/{statement}", {"tenant": BIG, "limit": 50}, ways)


# A removal meets a tenant of any size.
OPERATIONS = (
    Case(
        "look at dead letters",
        "operations/look_at_ended",
        {**_LOOK, "status": "dead_letter"},
        {"jobs_done": {"jobs_done_unusual", "jobs_done_pkey"}},
    ),
    Case(
        "look at succeeded jobs for a rare definition",
        "operations/look_at_ended",
        {**_LOOK, "status": "succeeded", "definitions": ["rare"]},
        {"jobs_done": {"jobs_done_unusual", "jobs_done_pkey"}},
    ),
    Case(
        "look at active jobs for a rare definition",
        "operations/look_at_active",
        {**_LOOK, "statuses": ["queued"], "definitions": ["rare"]},
        _PKEY,
    ),
    Case(
        "retry a batch",
        "tenant/retry",
        {"tenant": BIG, "jobs": [ended_id(number) for number in range(1, 51)], "attempts": [1] * 50},
        {
            "jobs": {"jobs_pkey"},
            "jobs_done": {"jobs_done_pkey"},
            "dedupe_holds": {"dedupe_holds_pkey"},
            "job_attempts": {"job_attempts_pkey"},
        },
    ),
    Case(
        "cancel a batch",
        "tenant/cancel",
        {"tenant": BIG, "jobs": [queued_id(1), queued_id(2), running_id(1)]},
        {"jobs": {"jobs_pkey"}, "jobs_done": {"jobs_done_pkey"}},
    ),
    Case("take an operation", "operations/take", {"only": None}, {"operations": {"operations_due"}}),
    _removal("waiting jobs", "remove_waiting", {"jobs": {"jobs_pkey", "Tid Scan"}}),
    _removal("running jobs", "stop_running", {"jobs": {"jobs_running", "Tid Scan"}}),
    _removal("lines", "remove_lines", {"job_lines": {"job_lines_pkey", "Tid Scan"}}),
    _removal("attempts", "remove_attempts", {"job_attempts": {"job_attempts_pkey", "Tid Scan"}}),
    _removal("ended jobs", "remove_ended", {"jobs_done": {"jobs_done_pkey", "Tid Scan"}}),
    _removal("keys", "remove_keys", {"dedupe_holds": {"dedupe_holds_pkey", "Tid Scan"}}),
    _removal("events", "remove_events", {"events": {"events_pkey", "Tid Scan"}}),
    _removal(
        "decisions",
        "remove_decisions",
        {**_TRIGGERS, "trigger_decisions": {"trigger_decisions_of_trigger", "Tid Scan"}},
    ),
    _removal("triggers", "remove_triggers", _TRIGGERS),
    _removal("limits", "remove_limits", {}),
    _removal("tokens", "remove_tokens", {"api_tokens": {"api_tokens_tenant", "api_tokens_pkey"}}),
    _removal("figures of minutes", "remove_series_minutes", {"series_minutes": {"series_minutes_pkey", "Tid Scan"}}),
    _removal("figures of hours", "remove_series_hours", {"series_hours": {"series_hours_pkey", "Tid Scan"}}),
    _removal("usage", "remove_usage", {"usage_hours": {"usage_hours_pkey", "Tid Scan"}}),
    _removal("active triggers", "stop_triggers", _TRIGGERS),
)
