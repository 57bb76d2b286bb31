"""`leasehold retry`, `cancel` and `run-now`: acting on one job or several, one after the other."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import typer

from leasehold.app import Leasehold, Tenant
from leasehold.cli import documents
from leasehold.cli.ids import find_job
from leasehold.cli.options import JobIds, Json, OfTenant, Schema, Url, ask, named
from leasehold.cli.output import exit_code, explained, print_json, say_error, shown
from leasehold.cli.tables import show_line
from leasehold.errors import LeaseholdError, Unreachable
from leasehold.model.job import JobId, TenantId

Act = Callable[[Tenant, JobId], Awaitable[str]]


def retry(ids: JobIds, tenant: OfTenant = None, url: Url = None, schema: Schema = None, json: Json = False) -> None:
    """Queue ended jobs again.

    They keep their id and their history, and get all their tries anew.
    """
    _act_on(ids, tenant, url, schema, json, _retry)


def cancel(ids: JobIds, tenant: OfTenant = None, url: Url = None, schema: Schema = None, json: Json = False) -> None:
    """Cancel jobs.

    What waits is canceled at once; what runs is asked to stop.
    """
    _act_on(ids, tenant, url, schema, json, _cancel)


def run_now(ids: JobIds, tenant: OfTenant = None, url: Url = None, schema: Schema = None, json: Json = False) -> None:
    """Make waiting jobs due now.

    Instead of at the time that they are scheduled for, or after their backoff.
    """
    _act_on(ids, tenant, url, schema, json, _run_now)


async def _retry(door: Tenant, job: JobId) -> str:
    await door.aretry(job)
    return "queued"


async def _cancel(door: Tenant, job: JobId) -> str:
    return await door.acancel(job)


async def _run_now(door: Tenant, job: JobId) -> str:
    await door.arun_now(job)
    return "due"


# The answers, as people read them.
_SPOKEN = {"queued": "queued again", "canceled": "canceled", "requested": "asked to stop", "due": "due now"}


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one of the jobs that were named."""

    id: str
    tenant: TenantId | None = None
    answer: str | None = None
    error: LeaseholdError | None = None

    @property
    def code(self) -> int:
        return exit_code(self.error) if self.error else 0

    def document(self) -> dict[str, Any]:
        if self.error:
            return {"id": self.id} | documents.error(self.error)
        return {"id": self.id, "tenant": self.tenant, "answer": self.answer}


def _act_on(
    ids: Sequence[str], tenant: str | None, url: str | None, schema: str | None, json: bool, act: Act
) -> None:
    """Each job gets its answer, whatever became of the others; the worst one is the exit code."""
    with explained(json):
        whose = named(tenant)
        answers = ask(url, schema, lambda app: _answers(app, ids, whose, act, json))
        if json:
            print_json([answer.document() for answer in answers])
    raise typer.Exit(max(answer.code for answer in answers))


async def _answers(app: Leasehold, ids: Sequence[str], tenant: TenantId | None, act: Act, json: bool) -> list[Answer]:
    answers = []
    for text in ids:
        answers.append(await _answer(app, text, tenant, act))
        _show(answers[-1], json)
        if isinstance(answers[-1].error, Unreachable):
            break
    return answers


async def _answer(app: Leasehold, text: str, tenant: TenantId | None, act: Act) -> Answer:
    try:
        address = await find_job(app.store, text, tenant)
        return Answer(address.job, address.tenant, await act(Tenant(address.tenant, app), address.job))
    except LeaseholdError as error:
        return Answer(text, error=error)


def _show(answer: Answer, json: bool) -> None:
    if answer.error:
        say_error(answer.error)
    elif answer.answer and not json:
        show_line(shown, f"✓ {answer.id}  {_SPOKEN[answer.answer]}")
