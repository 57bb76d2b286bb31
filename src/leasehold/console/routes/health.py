"""The health of the queue: the findings of `leasehold doctor` for people of all tenants, a summary for others."""

from collections.abc import Sequence

from starlette.responses import Response

from leasehold.console.pages import Pages, Visit
from leasehold.engine import Finding, Severity
from leasehold.model.access import Permission
from leasehold.operations import health
from leasehold.operations.views import format_count
from leasehold.store import Store

pages = Pages()
_ORDER = (Severity.PROBLEM, Severity.WARNING, Severity.OK)


@pages.add("GET", "/health", Permission.JOBS_READ)
async def show_health(visit: Visit) -> Response:
    """Shows each finding with what to do about it, problems first."""
    whole = visit.area.tenant is None and visit.may_all(Permission.WORKERS_READ)
    findings = await visit.shared("findings", lambda _: _examine(visit)) if whole else await _summary(visit)
    facts = {
        "findings": sorted(findings, key=lambda each: _ORDER.index(each.verdict)),
        "worst": min((each.verdict for each in findings), key=_ORDER.index, default=Severity.OK).value,
        "whole": whole,
        "has_whole": visit.may_all(Permission.WORKERS_READ),
    }
    return await visit.show("health.html", "health", facts)


async def _examine(visit: Visit) -> Sequence[Finding]:
    found = await visit.context.guard.backend.examine()
    return [*found, await visit.context.ask(health.examine_figures)]


async def _summary(visit: Visit) -> Sequence[Finding]:
    """Returns what people of a tenant may know: nothing of hosts, versions or other tenants."""
    tenant = visit.area.tenant
    fleet = await visit.shared("fleet", health.read_fleet)
    serving = fleet.serving(tenant)
    waits = await visit.shared(("ready", tenant), lambda store: health.has_ready_jobs(store, tenant))
    if serving:
        workers = Finding("workers", Severity.OK, f"{format_count(len(serving), 'worker')} can run jobs")
    else:
        verdict = Severity.PROBLEM if waits else Severity.WARNING
        told = {True: ", and some wait", False: "", None: ", and some may wait"}
        text = "no live worker can run jobs" + told[waits]
        workers = Finding("workers", verdict, text, fix="The operators of this queue have to start one.")
    database = Finding("database", Severity.OK, "it answers, and its schema fits this server")
    return [database, workers, await visit.shared("figures", _figures)]


async def _figures(store: Store) -> Finding:
    return await health.examine_figures(store)
