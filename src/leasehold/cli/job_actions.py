"""`leasehold retry`, `cancel` and `run-now`: acting on named jobs, one after the other, or on all that match."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import typer

from leasehold.cli import bulk
from leasehold.cli.options import JobIds, Json, OfTenant, Schema, SomeJobIds, Url, ask, read_tenant
from leasehold.cli.output import explain_errors, print_json, say_error, stdout
from leasehold.cli.tables import show_line
from leasehold.control import Control
from leasehold.errors import InvalidInput, LeaseholdError, Unreachable
from leasehold.model.job import TenantId
from leasehold.model.operation import OperationKind
from leasehold.operations import views
from leasehold.operations.lookup import Address
from leasehold.operations.statuses import exit_code

Action = Callable[[Control, Address], Awaitable[str]]


def retry(
    ids: SomeJobIds = None,
    tenant: OfTenant = None,
    all_: bulk.All = False,
    state: bulk.State = None,
    definition: bulk.OfDefinition = None,
    correlation_id: bulk.Correlation = None,
    source: bulk.OfSource = None,
    after: bulk.After = None,
    before: bulk.Before = None,
    error: bulk.Error = None,
    plan: bulk.OnlyPlan = False,
    pace: bulk.PaceOption = None,
    canary: bulk.Canary = False,
    detach: bulk.Detach = False,
    reason: bulk.Reason = None,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """Queue ended jobs again: those named, or all that match.

    They keep their id and their history, and get all their tries again.
    """
    choice = bulk.Choice(
        *(all_, state, definition, correlation_id, source, after, before, plan, pace, canary, detach, error, reason)
    )
    _act(OperationKind.RETRY, ids, choice, tenant, url, schema, json, _retry)


def cancel(
    ids: SomeJobIds = None,
    tenant: OfTenant = None,
    all_: bulk.All = False,
    state: bulk.State = None,
    definition: bulk.OfDefinition = None,
    correlation_id: bulk.Correlation = None,
    source: bulk.OfSource = None,
    after: bulk.After = None,
    before: bulk.Before = None,
    plan: bulk.OnlyPlan = False,
    pace: bulk.PaceOption = None,
    detach: bulk.Detach = False,
    reason: bulk.Reason = None,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """Cancel jobs: those named, or all that match.

    Waiting jobs are canceled at once; running jobs are asked to stop.
    """
    choice = bulk.Choice(
        *(all_, state, definition, correlation_id, source, after, before, plan, pace, False, detach),
        reason=reason,
    )
    _act(OperationKind.CANCEL, ids, choice, tenant, url, schema, json, _cancel)


def run_now(ids: JobIds, tenant: OfTenant = None, url: Url = None, schema: Schema = None, json: Json = False) -> None:
    """Make waiting jobs due now.

    Instead of at the time that they are scheduled for, or after their backoff.
    """
    _act_on(ids, tenant, url, schema, json, _run_now)


async def _cancel(control: Control, job: Address) -> str:
    return await control.jobs.cancel(job)


async def _retry(control: Control, job: Address) -> str:
    await control.jobs.retry(job)
    return "queued"


async def _run_now(control: Control, job: Address) -> str:
    await control.jobs.run_now(job)
    return "due"


def _act(
    kind: OperationKind,
    ids: Sequence[str] | None,
    choice: bulk.Choice,
    tenant: str | None,
    url: str | None,
    schema: str | None,
    json: bool,
    act: Action,
) -> None:
    """Acts on the named jobs one by one, or on all that match by an operation."""
    with explain_errors(json):
        if bool(ids) == choice.is_used:
            raise InvalidInput(
                "Name jobs by their ids, or choose them by options such as --all; not both.",
                fix=f"Nothing was changed. Try: leasehold {kind} --all --tenant acme --plan",
            )
        read_tenant(tenant)
    if ids:
        _act_on(ids, tenant, url, schema, json, act)
    else:
        bulk.act_on_many(kind, choice, tenant, url, schema, json)


# Answers for people.
_PHRASES = {"queued": "queued again", "canceled": "canceled", "requested": "asked to stop", "due": "due now"}


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of the action on one of the named jobs."""

    id: str
    tenant: TenantId | None = None
    answer: str | None = None
    error: LeaseholdError | None = None

    @property
    def code(self) -> int:
        return exit_code(self.error) if self.error else 0

    def document(self) -> dict[str, Any]:
        if self.error:
            return {"id": self.id} | views.error(self.error)
        return {"id": self.id, "tenant": self.tenant, "answer": self.answer}


def _act_on(
    ids: Sequence[str], tenant: str | None, url: str | None, schema: str | None, json: bool, act: Action
) -> None:
    """Acts on each job, even if another one was refused; the highest exit code counts."""
    with explain_errors(json):
        owner = read_tenant(tenant)
        answers = ask(url, schema, lambda control: _answers(control, ids, owner, act, json))
        if json:
            print_json([answer.document() for answer in answers])
    raise typer.Exit(max(answer.code for answer in answers))


async def _answers(
    control: Control, ids: Sequence[str], tenant: TenantId | None, act: Action, json: bool
) -> list[Answer]:
    answers = []
    for text in ids:
        answers.append(await _answer(control, text, tenant, act))
        _show(answers[-1], json)
        if isinstance(answers[-1].error, Unreachable):
            break
    return answers


async def _answer(control: Control, text: str, tenant: TenantId | None, act: Action) -> Answer:
    try:
        address = await control.jobs.find(text, tenant)
        return Answer(address.job, address.tenant, await act(control, address))
    except LeaseholdError as error:
        return Answer(text, error=error)


def _show(answer: Answer, json: bool) -> None:
    if answer.error:
        say_error(answer.error)
    elif answer.answer and not json:
        show_line(stdout, f"✓ {answer.id}  {_PHRASES[answer.answer]}")
