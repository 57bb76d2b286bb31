"""The choice of a change of many jobs: which jobs, how fast, why; as an operation and as texts to paste. No I/O."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from shlex import quote
from typing import Any

from leasehold.console.queries import LONGEST, Query, read_query
from leasehold.errors import InvalidInput
from leasehold.model.error_group import GROUPED
from leasehold.model.job import JobId, TenantId, job_id
from leasehold.model.operation import OperationKind, Pace, read_pace
from leasehold.operations import bulk
from leasehold.operations.error_groups import require_id
from leasehold.store import Filter, NewOperation
from leasehold.store.operations import selection_document

MOST_JOBS = 200
USUAL_PACE = "120"


@dataclass(frozen=True, slots=True)
class BulkChoice:
    """Jobs that are chosen one by one, by an error group, or by the words of the search box."""

    kind: OperationKind
    jobs: tuple[JobId, ...] = ()
    group: str | None = None
    query: Query | None = None

    @property
    def text(self) -> str:
        """The words of the search box, without which all jobs are meant."""
        return "" if self.query is None else self.query.without()

    def where(self) -> Filter:
        """Returns the filter. Raises InvalidInput if no single filter has the words."""
        if self.group is not None:
            return Filter(statuses=GROUPED, error_group=self.group)
        if self.query is None:
            return Filter()
        if self.query.problems:
            word = self.query.problems[0]
            raise InvalidInput(f"{word}: {word.problem}. Nothing was changed.", fix="Correct the search.")
        if self.query.text:
            raise InvalidInput(
                f"{self.query.text[:80]!r} is not a filter. Nothing was changed.", fix="Write filters as name:value."
            )
        first, *others = self.query.filters()
        wrong = set(first.statuses) - self.kind.statuses
        if others or wrong:
            known = ", ".join(sorted(status.value for status in self.kind.statuses))
            raise InvalidInput(
                f"A {self.kind} can't change all jobs of these states together. Nothing was changed.",
                fix=f"Look for one state, of: {known}.",
            )
        return first


def kind_of_all(query: Query) -> str | None:
    """Returns the operation that can change all jobs of a list; None if its states don't tell one."""
    if query.problems or query.text or query.traits or not (query.states or query.error):
        return None
    first, *others = query.filters()
    if others:
        return None
    kinds = (OperationKind.RETRY, OperationKind.CANCEL)
    statuses = set(first.statuses) or set(GROUPED)
    return next((kind.value for kind in kinds if statuses <= kind.statuses), None)


def read_choice(kind: OperationKind, given: Mapping[str, Any], named: list[str], now: datetime) -> BulkChoice:
    """Reads the choice of an address or a form. Raises InvalidInput."""
    if "chosen" in given and not named:
        raise InvalidInput("No job is chosen. Nothing was changed.", fix="Go back, and choose some.")
    if named:
        if len(named) > MOST_JOBS:
            raise InvalidInput(
                f"{len(named)} jobs are chosen, of at most {MOST_JOBS}. Nothing was changed.",
                fix="Choose all that match instead.",
            )
        return BulkChoice(kind, jobs=tuple(dict.fromkeys(job_id(each) for each in named)))
    if group := given.get("group"):
        return BulkChoice(kind, group=require_id(str(group)))
    return BulkChoice(kind, query=read_query(str(given.get("q", ""))[:LONGEST], now))


def read_form_pace(form: Mapping[str, str]) -> Pace | None:
    """Reads the pace that was chosen; a bare number is jobs a minute. Raises InvalidInput."""
    if form.get("speed") != "paced":
        return None
    text = form.get("pace", "").strip()
    return read_pace(f"{text}/m" if text.replace(".", "", 1).isdigit() else text)


def operation_of(
    choice: BulkChoice, tenant: TenantId, form: Mapping[str, str], as_of: datetime, created_by: str
) -> NewOperation:
    """Makes the operation that a form asks for. Raises InvalidInput."""
    return bulk.new_operation(
        choice.kind,
        tenant,
        choice.where(),
        read_form_pace(form),
        canary=choice.kind is OperationKind.RETRY and "canary" in form,
        created_by=created_by,
        jobs=choice.jobs,
        as_of=as_of,
        reason=form.get("reason", "").strip() or None,
    )


def can_be_copied(new: NewOperation) -> bool:
    """Returns whether commands and requests know the filter: they tell no waiting jobs apart."""
    return new.where.due is None and new.where.tried is None


def as_command(new: NewOperation) -> str:
    """Returns the verb of the command line that does the same."""
    return " ".join(["leasehold", new.kind.value, *_options(new), "--tenant", quote(new.tenant)])


def _options(new: NewOperation) -> Iterator[str]:
    if new.jobs:
        yield from new.jobs
        return
    where = new.where
    if where.error_group is not None:
        yield from ("--error", where.error_group)
    elif replace(where, statuses=()) == Filter():
        yield "--all"
    for status in where.statuses if where.error_group is None else ():
        yield from ("--state", status.value)
    for definition in where.definitions:
        yield from ("--definition", quote(definition))
    if where.source is not None:
        yield from ("--source", where.source.value)
    if where.correlation_id is not None:
        yield from ("--correlation-id", quote(where.correlation_id))
    for option, moment in (("--after", where.created_after), ("--before", where.created_before)):
        if moment is not None:
            yield from (option, moment.isoformat())
    if new.pace is not None:
        yield from ("--pace", f"{new.pace.jobs_per_second * 60:g}/m")
    if new.canary:
        yield "--canary"
    if new.reason is not None:
        yield from ("--reason", quote(new.reason))


def as_body(new: NewOperation) -> dict[str, Any]:
    """Returns the body of the request that does the same."""
    chosen = {name: value for name, value in selection_document(new).items() if name != "as_of"}
    body = {"kind": new.kind.value, **chosen, **({"canary": True} if new.canary else {})}
    if new.pace is not None:
        body["pace"] = f"{new.pace.jobs_per_second * 60:g}/m"
    if new.reason is not None:
        body["reason"] = new.reason
    return body
