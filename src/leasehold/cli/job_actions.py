"""`leasehold retry`, `cancel` and `run-now`: acting on one job or several, one after the other."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import typer

from leasehold.app import Leasehold
from leasehold.cli.options import JobIds, Json, OfTenant, Schema, Url, ask, read_tenant
from leasehold.cli.output import explain_errors, print_json, say_error, stdout
from leasehold.cli.tables import show_line
from leasehold.errors import LeaseholdError, Unreachable
from leasehold.model.job import JobId, TenantId
from leasehold.operations import jobs, views
from leasehold.operations.lookup import find_job
from leasehold.operations.statuses import exit_code
from leasehold.store import Store

Action = Callable[[Store, TenantId, JobId], Awaitable[str]]


def retry(ids: JobIds, tenant: OfTenant = None, url: Url = None, schema: Schema = None, json: Json = False) -> None:
    """Queue ended jobs again.

    They keep their id and their history, and get all their tries again.
    """
    _act_on(ids, tenant, url, schema, json, _retry)


def cancel(ids: JobIds, tenant: OfTenant = None, url: Url = None, schema: Schema = None, json: Json = False) -> None:
    """Cancel jobs.

    Waiting jobs are canceled at once; running jobs are asked to stop.
    """
    _act_on(ids, tenant, url, schema, json, jobs.cancel)


def run_now(ids: JobIds, tenant: OfTenant = None, url: Url = None, schema: Schema = None, json: Json = False) -> None:
    """Make waiting jobs due now.

    Instead of at the time that they are scheduled for, or after their backoff.
    """
    _act_on(ids, tenant, url, schema, json, _run_now)


async def _retry(store: Store, tenant: TenantId, job: JobId) -> str:
    await jobs.retry(store, tenant, job)
    return "queued"


async def _run_now(store: Store, tenant: TenantId, job: JobId) -> str:
    await jobs.run_now(store, tenant, job)
    return "due"


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
        answers = ask(url, schema, lambda app: _answers(app, ids, owner, act, json))
        if json:
            print_json([answer.document() for answer in answers])
    raise typer.Exit(max(answer.code for answer in answers))


async def _answers(
    app: Leasehold, ids: Sequence[str], tenant: TenantId | None, act: Action, json: bool
) -> list[Answer]:
    answers = []
    for text in ids:
        answers.append(await _answer(app, text, tenant, act))
        _show(answers[-1], json)
        if isinstance(answers[-1].error, Unreachable):
            break
    return answers


async def _answer(app: Leasehold, text: str, tenant: TenantId | None, act: Action) -> Answer:
    try:
        address = await find_job(app.store, text, tenant)
        return Answer(address.job, address.tenant, await act(app.store, address.tenant, address.job))
    except LeaseholdError as error:
        return Answer(text, error=error)


def _show(answer: Answer, json: bool) -> None:
    if answer.error:
        say_error(answer.error)
    elif answer.answer and not json:
        show_line(stdout, f"✓ {answer.id}  {_PHRASES[answer.answer]}")
