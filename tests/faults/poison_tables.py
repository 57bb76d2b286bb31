"""The entry of the poison run past all checks: rows that are changed by hand."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from tests.cli.terminal import CommandLine
from tests.conftest import Raw
from tests.faults.poison_run import VILLAIN, Run
from tests.faults.poison_values import (
    DEFINITIONS_BY_HAND,
    ENDED_JOBS_BY_HAND,
    LIMITS_BY_HAND,
    LINES_BY_HAND,
    TENANTS_BY_HAND,
    TRIES_BY_HAND,
    WAITING_JOBS_BY_HAND,
    WORKERS_BY_HAND,
)

from leasehold.model.job import JobId
from leasehold.model.limits import Limits, Scope, ScopeKind
from leasehold.store import Filter

LIMITED = (Scope(ScopeKind.TENANT, VILLAIN), Scope(ScopeKind.DEFINITION, "strange"))


@dataclass
class TablesByHand:
    """Rows of definitions, limits, jobs, attempts, lines, tenants and workers, changed by SQL."""

    run: Run
    connection: Raw
    leasehold: CommandLine

    async def change_all(self) -> None:
        """Changes rows by hand: of definitions, limits, jobs, attempts, lines, tenants and workers."""
        for changes, change in (
            (DEFINITIONS_BY_HAND, self._change_definition),
            (LIMITS_BY_HAND, self._change_limits),
            (ENDED_JOBS_BY_HAND, self._change_ended_job),
            (WAITING_JOBS_BY_HAND, self._change_waiting_job),
            (LINES_BY_HAND, self._add_line),
            (TRIES_BY_HAND, self._add_attempt),
            (TENANTS_BY_HAND, self._add_tenant),
            (WORKERS_BY_HAND, self._add_worker),
        ):
            for column, value in changes:
                await self.run.put("tables", change, column, value)
        await type_commands(
            self.leasehold, ["jobs", "-n", "1000"], ["jobs", "-n", "1000", "--json"], ["counts", "-t", VILLAIN]
        )

    async def _change_definition(self, column: str, value: str) -> None:
        """Enqueues a job that fails once under the changed row."""
        await self.connection.execute(
            f"update leasehold.definition_versions set {column} = {value} where key = 'odd'"  # noqa: S608
        )
        await self.run.enqueue(VILLAIN, definition="odd")
        await self.run.store.definitions()
        await type_commands(self.leasehold, ["definitions"])

    async def _change_limits(self, column: str, value: str) -> None:
        """Holds a job back by the changed row, if that does so, until the limits are lifted."""
        await self.connection.execute("delete from leasehold.limits where key = 'villain'")
        await self._insert("limits", {"kind": "'tenant'", "key": "'villain'", column: value})
        try:
            await self.run.enqueue(VILLAIN)
            await self.run.store.scopes()
            await type_commands(self.leasehold, ["limits"])
        finally:
            await lift_limits(self.run)

    async def _change_ended_job(self, column: str, value: str) -> None:
        job = await ended_job(self.run)
        await self.connection.execute(
            f"update leasehold.jobs_done set {column} = {value} where tenant_id = 'villain' and id = $1::uuid",  # noqa: S608
            job,
        )
        await self._show(job)
        if column == "definition":
            return  # after a retry the job would wait until such a definition is registered
        seen = await self.run.store.tenant(VILLAIN).get(job)
        assert seen is not None
        await self.run.store.tenant(VILLAIN).retry({job: seen.attempt})

    async def _change_waiting_job(self, column: str, value: str) -> None:
        handle = self.run.store.tenant(VILLAIN)
        job = await self.run.enqueue(VILLAIN, delay=timedelta(hours=1))
        await self.connection.execute(
            f"update leasehold.jobs set {column} = {value} where tenant_id = 'villain' and id = $1::uuid",  # noqa: S608
            job,
        )
        await self._show(job)
        await handle.reschedule([job], delay=timedelta())

    async def _add_line(self, column: str, value: str) -> None:
        job = await ended_job(self.run)
        columns = {"attempt": "1", "number": "1", "at": "now()", "kind": "'log'", "text": "'by hand'"} | {
            column: value
        }
        await self._insert("job_lines", {"tenant_id": "'villain'", "job_id": f"'{job}'"} | columns)
        await self._show(job)
        await type_commands(self.leasehold, ["logs", job], ["logs", job, "--json"])

    async def _add_attempt(self, column: str, value: str) -> None:
        job = await ended_job(self.run)
        columns = {"attempt": "2", "status": "'failed'", "started_at": "now()", "finished_at": "now()"}
        await self._insert(
            "job_attempts", {"tenant_id": "'villain'", "job_id": f"'{job}'"} | columns | {column: value}
        )
        await self._show(job)

    async def _add_tenant(self, column: str, value: str) -> None:
        name = f"'by hand {self.run.counts['tables']}'"
        await self._insert("tenants", {"id": name, "created_at": "now()"} | {column: value})
        await self.run.store.tenants()
        await type_commands(self.leasehold, ["tenants"])

    async def _add_worker(self, column: str, value: str) -> None:
        columns = {"id": "gen_random_uuid()", "host": "'by hand'", "pid": "1", "version": "''", "slots": "1"}
        moments = {"started_at": "now()", "last_seen_at": "now()", "lease_expires_at": "now() + interval '1 hour'"}
        await self._insert("workers", columns | moments | {"definitions": "'{taken}'"} | {column: value})
        try:
            await self.run.store.workers()
            await type_commands(self.leasehold, ["workers"])
            await self.run.enqueue(VILLAIN)
        finally:
            await self.connection.execute("delete from leasehold.workers where host = 'by hand' or pid = 1")

    async def _insert(self, table: str, values: dict[str, str]) -> None:
        await self.connection.execute(
            f"insert into leasehold.{table} ({', '.join(values)}) values ({', '.join(values.values())})"  # noqa: S608
        )

    async def _show(self, job: JobId) -> None:
        """Reads the job by every way that there is."""
        handle = self.run.store.tenant(VILLAIN)
        assert await handle.get(job) is not None
        assert job in {each.id for each in (await handle.find(Filter(), None, 20)).jobs}
        assert job in {each.id for each in (await self.run.store.find_all_tenants(Filter(), None, 200)).jobs}
        for attempt in await handle.attempts(job):
            await handle.lines(job, attempt.number)
        await type_commands(self.leasehold, ["job", job])


async def ended_job(run: Run) -> JobId:
    job = await run.enqueue(VILLAIN)
    assert await run.store.tenant(VILLAIN).wait_until_final(job, timedelta(seconds=30)) is not None
    return job


async def type_commands(leasehold: CommandLine, *lines: Sequence[str]) -> None:
    """Types commands, each of which has to succeed."""
    for words in lines:
        answer = await leasehold(*words)
        assert answer.code == 0, f"{words}: {answer}"


async def lift_limits(run: Run) -> None:
    for scope in LIMITED:
        await run.store.pause(scope, None)
        await run.store.limit(scope, Limits())
