"""The jobs of a server: lists, one job with its story, enqueue, log lines, changes; and operations on many."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any
from uuid import UUID

from leasehold.control import records
from leasehold.control.protocol import JobQuery
from leasehold.control.requests import Topic, of_tenant, path_of
from leasehold.errors import NotPermitted, UnknownJob
from leasehold.model.explanation import Explanation
from leasehold.model.job import EnqueueResult, JobId, JobRecord, TenantId, job_id
from leasehold.model.operation import Pace
from leasehold.model.status import Status
from leasehold.model.tries import FREE
from leasehold.operations.jobs import LAST_LINES, NumberedLine, Reasons, Story
from leasehold.operations.lookup import Address
from leasehold.store import NewOperation, Operation, OperationPage, Page
from leasehold.store.operations import Plan, selection_document

# Seconds between two looks at a job or an operation; a job that ends at once is seen at once.
FIRST_LOOK, BETWEEN_LOOKS = 0.05, 0.5
LINES_AT_ONCE = 1000
_DIRECT = ("priority", "correlation_id", "dedupe_key")


class ServerJobs(Topic):
    async def list(
        self, tenant: TenantId | None, query: JobQuery, cursor: str | None, limit: int
    ) -> tuple[Page, Reasons]:
        wanted = {"status": sorted(state.name.lower() for state in query.states), "definition": query.definitions}
        single = {
            "correlation_id": query.correlation_id,
            "source": query.source and query.source.value,
            "created_after": _text(query.created_after),
            "created_before": _text(query.created_before),
            "error_group": query.error_group,
            **query.traits,
        }
        params = {**wanted, **{name: value for name, value in single.items() if value}, **of_tenant(tenant)}
        documents, following = await self.requests.pages("/jobs", "jobs", params, cursor, limit)
        return Page([self._job(each) for each in documents], following), _reasons(documents)

    async def find(self, text: str, tenant: TenantId | None) -> Address:
        """Finds a job. The whole id of a named tenant needs no request."""
        if tenant is not None:
            with suppress(ValueError):
                return Address(tenant, JobId(str(UUID(text.strip()))))
        found = self._job(await self.requests.get("/jobs/find", {"id": text.strip(), **of_tenant(tenant)}))
        return Address(found.tenant, found.id, found)

    async def get(self, job: Address) -> JobRecord:
        return self._job(await self.requests.get(_path(job), of_tenant(job.tenant)))

    async def story(self, job: Address) -> Story:
        document = await self.requests.get(_path(job), of_tenant(job.tenant))
        found = await self._attempts(job)
        numbers = {each.number: each.tries or 0 for each in found}
        return Story(self._job(document), document["held_by"], found, numbers, await self._last_lines(job))

    async def _attempts(self, job: Address) -> Sequence[Any]:
        documents = (await self.requests.get(f"{_path(job)}/attempts", of_tenant(job.tenant)))["attempts"]
        for each in documents:
            self.requests.note_hidden(each)
        return [records.attempt(each) for each in documents]

    async def _last_lines(self, job: Address) -> Sequence[NumberedLine]:
        """Returns the last lines; none if the token may not read them, which `hidden` tells."""
        params = {"last": "true", "limit": str(LAST_LINES), **of_tenant(job.tenant)}
        try:
            found = await self.requests.get(f"{_path(job)}/logs", params)
        except NotPermitted:
            self.requests.note_hidden({"hidden": ["lines"]})
            return []
        return [records.line(each) for each in found["lines"]]

    async def explain(self, job: Address) -> Explanation:
        record = await self.get(job)
        return records.explanation(record, await self.requests.get(f"{_path(job)}/explain", of_tenant(job.tenant)))

    async def tries(self, job: Address) -> tuple[JobRecord, Sequence[int]]:
        record = job.record or await self.get(job)
        return record, [each.tries or 0 for each in await self._attempts(job)]

    async def lines(self, job: Address, only: int | None, *, follow: bool) -> AsyncGenerator[NumberedLine, None]:
        """Yields lines page by page. To follow a job, it asks twice a second, as a command with a database does."""
        path, cursor = f"{_path(job)}/logs", "0-0"
        while True:
            over = follow and only is not None and await self._is_over(job, only)
            params = {"after": cursor, "limit": str(LINES_AT_ONCE), **of_tenant(job.tenant)}
            page = await self.requests.get(path, params)
            cursor = page["next"]
            for attempt, tries, line in map(records.line, page["lines"]):
                if only in (None, tries):
                    yield attempt, tries, line
            if len(page["lines"]) == LINES_AT_ONCE:
                continue
            if not follow or over or page["ended"]:
                return
            await asyncio.sleep(BETWEEN_LOOKS)

    async def _is_over(self, job: Address, only: int) -> bool:
        found = [each for each in await self._attempts(job) if each.tries == only]
        return any(each.finished_at and each.status not in FREE for each in found)

    async def counts(self, tenant: TenantId) -> Mapping[Status, int]:
        found = await self.requests.get("/jobs/summary", of_tenant(tenant))
        return {Status(name): number for name, number in found["counts"].items()}

    async def enqueue(
        self, tenant: TenantId, key: str, payload: Mapping[str, Any], options: Mapping[str, Any]
    ) -> EnqueueResult:
        given = {name: value for name, value in options.items() if value is not None}
        sent: dict[str, Any] = {"definition_key": key, "payload": payload}
        sent |= {name: given[name] for name in _DIRECT if name in given}
        if "at" in given:
            sent["scheduled_for"] = _text(given["at"])
        if "delay" in given:
            sent["delay_seconds"] = given["delay"].total_seconds()
        headers = {"Idempotency-Key": str(given["id"])} if "id" in given else {}
        made = await self.requests.post("/jobs", sent, of_tenant(tenant), headers)
        return EnqueueResult(job_id(made["id"]), made["created"], made["replaced"])

    async def wait(self, job: Address, limit: timedelta) -> JobRecord | None:
        until, pause = monotonic() + limit.total_seconds(), FIRST_LOOK
        while True:
            try:
                record = await self.get(job)
            except UnknownJob:
                return None
            left = until - monotonic()
            if record.status.final or left <= 0:
                return record
            await asyncio.sleep(min(pause, left))
            pause = min(2 * pause, BETWEEN_LOOKS)

    async def cancel(self, job: Address) -> str:
        return str((await self._change(job, "cancel"))["answer"])

    async def retry(self, job: Address) -> None:
        await self._change(job, "retry")

    async def run_now(self, job: Address) -> None:
        await self._change(job, "run-now")

    async def _change(self, job: Address, verb: str) -> Any:
        return await self.requests.post(f"{_path(job)}/{verb}", None, of_tenant(job.tenant))

    def _job(self, document: Mapping[str, Any]) -> JobRecord:
        self.requests.note_hidden(document)
        return records.job(document)


class ServerOperations(Topic):
    async def plan(self, new: NewOperation) -> Plan:
        return records.plan(new, await self._post(new, plan=True))

    async def begin(self, new: NewOperation) -> Operation:
        return records.operation(await self._post(new, plan=False))

    async def _post(self, new: NewOperation, *, plan: bool) -> Any:
        sent = {"kind": new.kind.value, **selection_document(new), "canary": new.canary, "plan": plan}
        if new.reason is not None:
            sent["reason"] = new.reason
        if new.pace is not None:
            sent["pace"] = pace_text(new.pace)
        return await self.requests.post("/operations", sent, of_tenant(new.tenant))

    async def list(self, tenant: TenantId | None, cursor: str | None, limit: int) -> OperationPage:
        found, following = await self.requests.pages("/operations", "operations", of_tenant(tenant), cursor, limit)
        return OperationPage([records.operation(each) for each in found], following)

    async def get(self, operation: str) -> Operation:
        return records.operation(await self.requests.get(path_of("/operations", operation)))

    async def abort(self, operation: str) -> Operation:
        path = path_of("/operations", operation, "abort")
        return records.operation(await self.requests.post(path, None))

    async def follow(self, operation: Operation) -> AsyncGenerator[Operation, None]:
        """Yields the operation as workers move it on."""
        pause = FIRST_LOOK
        while not operation.state.ended:
            await asyncio.sleep(pause)
            pause = min(2 * pause, BETWEEN_LOOKS)
            operation = await self.get(operation.id)
            yield operation


def pace_text(pace: Pace) -> str:
    return f"{pace.jobs_per_second * 3600:f}/h"


def _path(job: Address) -> str:
    return f"/jobs/{job.job}"


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat()


def _reasons(documents: Sequence[Mapping[str, Any]]) -> Reasons:
    held = (each for each in documents if each["held_by"])
    return Reasons({(each["definition_key"], each["tenant_id"]): each["held_by"] for each in held})
