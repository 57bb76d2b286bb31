"""The cases of the plan tests for error groups: all failed jobs of the large tenant are one group."""

from uuid import UUID

from tests.postgres.plan_database import BIG, ended_id
from tests.postgres.plans import NO_TRAITS, Case

from leasehold.model.error_group import error_group

_GROUP = bytes.fromhex(error_group("deep", None, None))
_SHARED = dict.fromkeys(
    ("definitions", "source", "correlation_id", "due", "tried", "created_after", "created_before")
)
_BY_ERROR = {"jobs_done": {"jobs_done_errors"}}
# The job itself is read by its key, from either table.
_FOUND = {"jobs": {"jobs_pkey"}, "jobs_done": {"jobs_done_errors", "jobs_done_pkey"}}
_FIND = {
    **_SHARED,
    "error_group": _GROUP,
    "unusual": ["failed", "dead_letter"],
    "up_to": UUID(int=2**128 - 1),
    "limit": 50,
}
_EVERYWHERE = {**_FIND, "last_tenant": "", "up_to_later": UUID(int=2**128 - 1)}

ERRORS = (
    Case("error groups", "tenant/error_groups", {"tenant": BIG, "limit": 50, "counted": 50, "only": None}, _BY_ERROR),
    Case(
        "an error group", "tenant/error_groups", {"tenant": BIG, "limit": 2, "counted": 50, "only": _GROUP}, _BY_ERROR
    ),
    Case("error groups of all", "administration/error_groups", {"limit": 50, "counted": 50, "only": None}, _BY_ERROR),
    Case("find in an error group", "tenant/find_in_error_group", {"tenant": BIG, **_FIND}, _FOUND),
    Case(
        "look in an error group for a payload",
        "tenant/look_in_error_group",
        {
            **{name: value for name, value in _FIND.items() if name != "limit"},
            **NO_TRAITS,
            "tenant": BIG,
            "share": 50,
            "payload_path": ["name"],
            "payload_value": "unused",
        },
        _BY_ERROR,
    ),
)
OF_EACH_TENANT = (
    Case(
        "an error group of all",
        "administration/error_groups",
        {"limit": 50, "counted": 50, "only": _GROUP},
        _BY_ERROR,
    ),
    Case("find in an error group of all", "administration/find_in_error_group", _EVERYWHERE, _FOUND),
)
LOOKS = (
    Case(
        "look at an error group for a rare definition",
        "operations/look_at_error_group",
        {
            **_SHARED,
            "tenant": BIG,
            "definitions": ["rare"],
            "statuses": ["dead_letter"],
            "error_group": _GROUP,
            "up_to": UUID(int=2**128 - 1),
            "began": None,
            "scan": 300,
            "limit": 50,
        },
        _BY_ERROR,
    ),
    Case(
        "look at named jobs",
        "operations/look_at_chosen",
        {
            "tenant": BIG,
            "jobs": [ended_id(number) for number in range(1, 51)],
            "statuses": ["dead_letter", "failed"],
            "up_to": UUID(int=2**128 - 1),
            "began": None,
            "limit": 50,
        },
        {"jobs": {"jobs_pkey"}, "jobs_done": {"jobs_done_pkey"}},
    ),
)
