"""`leasehold retry` and `cancel` for all jobs that match a filter, by an operation."""

from contextlib import aclosing
from dataclasses import dataclass
from time import monotonic
from typing import Annotated

import typer

from leasehold.cli.actor import cli_actor
from leasehold.cli.options import ask, require_tenant
from leasehold.cli.output import explain_errors, print_json, stderr, stdout
from leasehold.cli.payload import read_moment
from leasehold.cli.tables import show_line
from leasehold.control import Control
from leasehold.errors import InvalidInput, NoTenant
from leasehold.model.job import Source
from leasehold.model.operation import OperationKind, OperationState, read_pace
from leasehold.operations import bulk, views
from leasehold.operations.statuses import FAILED
from leasehold.operations.views import format_count, printable, visible
from leasehold.store import Filter, NewOperation, Operation
from leasehold.store.operations import Plan

BETWEEN_LINES = 1.0

All = Annotated[bool, typer.Option("--all", help="All that can be changed.")]
State = Annotated[list[str] | None, typer.Option("--state", "-s", help="Jobs in this state; may be repeated.")]
OfDefinition = Annotated[list[str] | None, typer.Option("--definition", "-d", help="Of this definition; repeatable.")]
Correlation = Annotated[str | None, typer.Option(help="With this correlation id.")]
OfSource = Annotated[Source | None, typer.Option(metavar="<word>", help="From this source.", show_default=False)]
After = Annotated[str | None, typer.Option(help="Enqueued since 2030-01-31T09:00Z, say.")]
Before = Annotated[str | None, typer.Option(help="Enqueued before a time.")]
Error = Annotated[str | None, typer.Option("--error", help="Of this error group, as in leasehold errors.")]
Reason = Annotated[str | None, typer.Option(help="Why; the audit log keeps it.")]
OnlyPlan = Annotated[bool, typer.Option("--plan", help="Only count them.")]
PaceOption = Annotated[str | None, typer.Option("--pace", help="At most 50/s, say, or 300/m.")]
Canary = Annotated[bool, typer.Option("--canary", help="One first; the rest if it succeeds.")]
Detach = Annotated[bool, typer.Option("--detach", help="Leave the work to workers.")]


@dataclass(frozen=True, slots=True)
class Choice:
    """The options that choose jobs, and how they are changed."""

    all_: bool = False
    state: list[str] | None = None
    definition: list[str] | None = None
    correlation_id: str | None = None
    source: Source | None = None
    after: str | None = None
    before: str | None = None
    plan: bool = False
    pace: str | None = None
    canary: bool = False
    detach: bool = False
    error: str | None = None
    reason: str | None = None

    @property
    def is_used(self) -> bool:
        return self != Choice()

    def filter(self, kind: OperationKind) -> Filter:
        chosen = (self.state, self.definition, self.correlation_id, self.source, self.after, self.before, self.error)
        if not self.all_ and not any(each is not None for each in chosen):
            raise InvalidInput(
                "Nothing says which jobs are meant.",
                fix="Nothing was changed. Add --all, or options like --definition.",
            )
        return Filter(
            statuses=bulk.read_statuses(kind, self.state or ()),
            definitions=tuple(self.definition or ()),
            correlation_id=self.correlation_id,
            source=self.source,
            created_after=None if self.after is None else read_moment(self.after, "--after"),
            created_before=None if self.before is None else read_moment(self.before, "--before"),
            error_group=self.error,
        )


def act_on_many(
    kind: OperationKind, choice: Choice, tenant: str | None, url: str | None, schema: str | None, json: bool
) -> None:
    """Plans an operation, begins it and follows it to its end; a failed one exits with 1."""
    with explain_errors(json):
        missing = NoTenant(f"A {kind} by filter needs a tenant. Nothing was changed.", fix="Write --tenant acme.")
        owner = require_tenant(url, tenant, missing)
        pace = None if choice.pace is None else read_pace(choice.pace)
        where = choice.filter(kind)

        async def new(control: Control) -> NewOperation:
            whose, name = await control.tenant(owner, missing), cli_actor().name
            return bulk.new_operation(
                kind, whose, where, pace, canary=choice.canary, created_by=name, reason=choice.reason
            )

        async def plan(control: Control) -> Plan:
            return await control.operations.plan(await new(control))

        async def begin(control: Control) -> Operation:
            operation = await control.operations.begin(await new(control))
            return operation if choice.detach else await follow(control, operation, json)

        if choice.plan:
            planned = ask(url, schema, plan)
            print_json(views.plan(planned)) if json else _show_plan(planned)
            return
        operation = ask(url, schema, begin)
        show_end(operation, json, detached=choice.detach)
    raise typer.Exit(FAILED if operation.state is OperationState.FAILED else 0)


async def follow(control: Control, operation: Operation, json: bool) -> Operation:
    """Follows an operation to its end, and says how far it is about once a second.

    With a database it runs here, beside the workers.
    """
    said = monotonic()
    if not json:
        stderr.print(
            f"operation {operation.id}: it goes on without this command; leasehold operations abort ends it",
            markup=False,
            style="dim",
        )
    async with aclosing(control.operations.follow(operation)) as steps:
        async for operation in steps:
            if not json and monotonic() - said >= BETWEEN_LINES and not operation.state.ended:
                said = monotonic()
                stderr.print(printable(progress(operation)), markup=False, style="dim")
    return operation


def show_end(operation: Operation, json: bool, *, detached: bool = False) -> None:
    if json:
        print_json(views.operation(operation))
    elif detached:
        show_line(stdout, operation.id)
        stderr.print(f"✓ begun. Look at it: leasehold operations show {operation.id}", markup=False)
    else:
        mark = {OperationState.DONE: "✓", OperationState.FAILED: "✕"}.get(operation.state, "!")
        show_line(stdout, f"{mark} {operation.id}  {progress(operation)}")


def progress(operation: Operation) -> str:
    """Returns one line: how far an operation is."""
    total = "" if operation.total is None else f" of {operation.total:,}{'+' if operation.total_is_cap else ''}"
    noun = "rows removed" if operation.kind is OperationKind.DELETE_TENANT else "done"
    parts = [f"{operation.state}: {operation.done:,}{total} {noun}"]
    if operation.state is OperationState.PLANNED:
        parts.append("waits for a worker to begin it")
    if operation.skipped:
        parts.append(f"{operation.skipped:,} skipped")
    if operation.refused:
        parts.append(f"{operation.refused:,} refused")
    if operation.kind is not OperationKind.DELETE_TENANT and operation.details:
        parts.append("(" + ", ".join(f"{name} {count:,}" for name, count in sorted(operation.details.items())) + ")")
    if operation.error:
        parts.append(str(views.operation(operation)["error"]))
    return ", ".join(parts)


def _show_plan(planned: Plan) -> None:
    new = planned.operation
    number = f"{planned.matching:,} or more jobs" if planned.is_cap else format_count(planned.matching, "job")
    statuses = ", ".join(new.where.statuses)
    verb = {OperationKind.RETRY: "queued again", OperationKind.CANCEL: "canceled, or asked to stop"}[new.kind]
    show_line(stdout, f"{number} of {visible(new.tenant)} ({statuses}) would be {verb}")
    if planned.duplicates:
        number = (
            f"{planned.duplicates:,} of the first {bulk.CHECKED_KEYS:,}"
            if planned.is_cap
            else f"{planned.duplicates:,}"
        )
        show_line(stdout, f"  skipped: {number} whose dedupe key another job holds")
    for job in planned.sample:
        show_line(stdout, f"  {job}")
    if planned.matching > len(planned.sample):
        show_line(stdout, "  …")
    stderr.print("nothing was changed: leave out --plan to do it", markup=False)
