"""`leasehold why`."""

from rich.text import Text

from leasehold.cli.format import STYLES, SYMBOLS, at
from leasehold.cli.options import Json, OfTenant, Schema, TheJob, Url, ask, read_tenant
from leasehold.cli.output import explain_errors, print_json, stdout
from leasehold.cli.tables import show_line
from leasehold.config import process_redactor
from leasehold.control import Control
from leasehold.model.duration import span
from leasehold.model.explanation import Check, CheckState, Explanation
from leasehold.model.job import TenantId
from leasehold.model.status import Status
from leasehold.operations import views
from leasehold.operations.views import printable, visible

MARKS = {
    CheckState.BLOCKING: ("✕", "red"),
    CheckState.SLOW: ("!", "yellow"),
    CheckState.UNKNOWN: ("?", "yellow"),
    CheckState.OK: ("✓", "green"),
}


def why(job: TheJob, tenant: OfTenant = None, url: Url = None, schema: Schema = None, json: Json = False) -> None:
    """Tell why a job does not run.

    Each condition of a claim, what holds the job, and what to do about it. Changes nothing.
    """
    with explain_errors(json):
        owner = read_tenant(tenant)
        explained = ask(url, schema, lambda control: _explain(control, job, owner))
        if json:
            print_json(views.explanation(explained))
        else:
            _show(explained)


async def _explain(control: Control, text: str, tenant: TenantId | None) -> Explanation:
    return await control.jobs.explain(await control.jobs.find(text, tenant))


def _show(explained: Explanation) -> None:
    """Shows problems first, with details and remedies, then in one line all that is well."""
    job = explained.job
    state = (f"{SYMBOLS[job.display]} {job.display}", STYLES[job.display])
    show_line(stdout, Text.assemble(state, f"  {visible(job.definition)}  {visible(job.tenant)}  {job.id}"))
    for told in CheckState.BLOCKING, CheckState.SLOW, CheckState.UNKNOWN:
        for check in explained.checks:
            if check.state is told:
                _show_check(check)
    if well := [check.text for check in explained.checks if check.state is CheckState.OK]:
        show_line(stdout, Text.assemble(("✓ ", "green"), (_printed(", ".join(well)), "dim")))
    if job.status is Status.QUEUED:
        show_line(stdout, _prospect(explained))


def _show_check(check: Check) -> None:
    mark, style = MARKS[check.state]
    show_line(stdout, Text.assemble((f"{mark} ", style), _printed(check.text[:1].upper() + check.text[1:])))
    for detail in check.details:
        show_line(stdout, f"  {_printed(detail)}")
    if check.fix:
        show_line(stdout, Text.assemble("  ", ("fix: ", "dim"), _printed(check.fix)))


def _printed(text: str) -> str:
    return printable(process_redactor().text(text))


def _prospect(explained: Explanation) -> str:
    start = explained.starts_at
    if start is None:
        return "It is not known when it will start."
    if start <= explained.at:
        return "Nothing holds it: it starts as soon as a worker looks."
    return f"It should start in {span(start - explained.at)}, at {at(start)}."
