"""Error groups: jobs that gave up for the same reason, and the fields of their payloads that they share."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leasehold.errors import InvalidInput, UnknownJob
from leasehold.model.error_group import GROUPED, problems_of_error_group
from leasehold.model.job import JobRecord, TenantId
from leasehold.model.redaction import REDACTED
from leasehold.operations import views
from leasehold.store import ErrorGroup, ErrorGroups, Filter, Store

# Groups of one answer, and the newest jobs of each that are counted.
MOST_GROUPS = 200
COUNTED = 1000
# The same for all tenants together.
MOST_OF_ALL = 500
COUNTED_OF_ALL = 200
# Jobs of a group that are read for its page, of whose payloads the fields are counted.
NEWEST = 100
SHOWN_FIELDS = 12
SHOWN_VALUES = 4
LONGEST_VALUE = 80


@dataclass(frozen=True, slots=True)
class FieldShare:
    """A top-level field of payloads: its commonest values with their counts, and how many others there are.

    `present` is how many of the payloads have it.
    """

    name: str
    present: int
    values: Sequence[tuple[str, int]]
    others: int


@dataclass(frozen=True, slots=True)
class GroupStory:
    """A group with its newest jobs."""

    group: ErrorGroup
    jobs: Sequence[JobRecord]


async def read(store: Store, tenant: TenantId | None) -> ErrorGroups:
    """Reads the groups of a tenant, or of each tenant."""
    if tenant is None:
        return await store.error_groups_of_tenants(MOST_OF_ALL, COUNTED_OF_ALL)
    return await store.tenant(tenant).error_groups(MOST_GROUPS, COUNTED)


async def read_one(store: Store, group: str) -> ErrorGroups:
    """Reads one group of all tenants that have it."""
    return await store.error_groups_of_tenants(MOST_OF_ALL, COUNTED_OF_ALL, require_id(group))


async def get(store: Store, tenant: TenantId, group: str) -> GroupStory:
    """Reads a group and its newest jobs. Raises UnknownJob."""
    jobs = store.tenant(tenant)
    found = (await jobs.error_groups(1, COUNTED, require_id(group))).groups
    if not found:
        raise UnknownJob(
            f'tenant "{tenant}" has no failed or dead job with the error group {group}. Nothing was changed.',
            fix="Its jobs may be queued again, or pruned. List the groups: leasehold errors",
        )
    page = await jobs.find(Filter(statuses=GROUPED, error_group=group), None, NEWEST)
    return GroupStory(found[0], page.jobs)


def require_id(group: str) -> str:
    """Returns the id of a group. Raises InvalidInput for another text."""
    if problems := list(problems_of_error_group(group)):
        raise InvalidInput(f"{problems[0]}.", fix="Nothing was read. Copy it from: leasehold errors")
    return group


def count_fields(payloads: Iterable[Any]) -> list[FieldShare]:
    """Counts values of top-level fields. Fields whose values agree most are first: they may be the cause."""
    counters: dict[str, Counter[str]] = {}
    for payload in payloads:
        if isinstance(payload, Mapping):
            for name, value in payload.items():
                counters.setdefault(name, Counter())[_text(value)] += 1
    shares = [_share(name, counter) for name, counter in counters.items()]
    return sorted(shares, key=_rank)[:SHOWN_FIELDS]


def _rank(share: FieldShare) -> tuple[bool, int, int, str]:
    """Orders fields: those without a value to be read are last."""
    value, jobs = share.values[0]
    return REDACTED in value, -jobs, share.others, share.name


def as_document(share: FieldShare) -> dict[str, Any]:
    return views.fields_of(share) | {"values": [{"value": value, "jobs": jobs} for value, jobs in share.values]}


def _share(name: str, counter: Counter[str]) -> FieldShare:
    common = sorted(counter.items(), key=lambda each: (-each[1], each[0]))[:SHOWN_VALUES]
    return FieldShare(name, counter.total(), common, len(counter) - len(common))


def _text(value: Any) -> str:
    text = " ".join(views.printable(views.as_json(value).decode()).split())
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"
