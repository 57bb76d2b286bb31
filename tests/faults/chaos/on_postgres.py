"""Chaos on Postgres: a server of its own, triggers that write down each transition, and effects beside the finish."""

from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass

import asyncpg
from tests.faults.chaos.nemesis import Fault
from tests.faults.chaos.witnesses import Fence, Transition, Written
from tests.lossy_proxies import through_a_pooler
from tests.postgres.crashes import crash, own_server

from leasehold.embedded import Server
from leasehold.engines.postgres.migrate import migrate

SETTINGS = {"max_connections": "200", "shared_buffers": "64MB"}
SHARES = {
    Fault.KILL: 16,
    Fault.STOP: 12,
    Fault.STOP_AT_FINISH: 24,
    Fault.STOP_AT_POINT: 12,
    Fault.CUT: 10,
    Fault.HOLD: 8,
    Fault.SWALLOW: 8,
    Fault.TERMINATE: 6,
    Fault.RESTART: 4,
}
TRIGGERS = """
create schema chaos;

create table chaos.audit (
    number       bigint generated always as identity primary key,
    job          uuid not null,
    was          text not null,
    became       text not null,
    attempt_was  integer not null,
    attempt      integer not null,
    worker       uuid
);

-- Without a unique key: a second effect of one job must be seen, not refused.
create table chaos.effects (job uuid not null, attempt integer not null, worker uuid);

create function chaos.write_transition() returns trigger language plpgsql as $$
begin
    if tg_op = 'INSERT' then
        insert into chaos.audit (job, was, became, attempt_was, attempt, worker)
        values (new.id, '', new.status, new.attempt, new.attempt, new.worker_id);
    elsif tg_op = 'UPDATE' then
        insert into chaos.audit (job, was, became, attempt_was, attempt, worker)
        values (new.id, old.status, new.status, old.attempt, new.attempt, new.worker_id);
    else
        insert into chaos.audit (job, was, became, attempt_was, attempt, worker)
        values (old.id, old.status, '', old.attempt, old.attempt, old.worker_id);
    end if;
    return null;
end $$;

create function chaos.write_effect() returns trigger language plpgsql as $$
begin
    insert into chaos.effects values (new.id, new.attempt, new.worker_id);
    return null;
end $$;

create trigger audit after insert or update or delete on leasehold.jobs
    for each row execute function chaos.write_transition();
create trigger audit after insert or update or delete on leasehold.jobs_done
    for each row execute function chaos.write_transition();
create trigger effect after insert on leasehold.jobs_done
    for each row when (new.status = 'succeeded') execute function chaos.write_effect();
"""


@dataclass
class PostgresServer:
    """`url` leads through a pooler, if there is one."""

    url: str
    server: Server
    shares = SHARES
    finish = b'"attempt"'

    async def suffer(self, fault: Fault, jitter: float) -> None:
        if fault is Fault.RESTART:
            await crash(self.server)
        else:
            await self._terminate_one(jitter)

    async def _terminate_one(self, jitter: float) -> None:
        with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            connection = await asyncpg.connect(self.server.url)
            try:
                pids = [
                    row["pid"]
                    for row in await connection.fetch(
                        "select pid from pg_stat_activity where application_name = 'leasehold' order by pid"
                    )
                ]
                for pid in _some(pids, jitter):
                    await connection.execute("select pg_terminate_backend($1)", pid)
            finally:
                await connection.close()

    async def written(self) -> Written:
        connection = await asyncpg.connect(self.server.url)
        try:
            audit: dict[str, list[Transition]] = defaultdict(list)
            for row in await connection.fetch("select * from chaos.audit order by number"):
                transition = Transition(
                    row["was"], row["became"], row["attempt_was"], row["attempt"], _text(row["worker"])
                )
                audit[str(row["job"])].append(transition)
            effects: dict[str, list[Fence]] = defaultdict(list)
            for row in await connection.fetch("select * from chaos.effects"):
                effects[str(row["job"])].append((str(row["job"]), row["attempt"], _text(row["worker"])))
        finally:
            await connection.close()
        return Written(audit, effects)


@asynccontextmanager
async def postgres(*, pooled: bool = False) -> AsyncIterator[PostgresServer]:
    """`pooled`: `url` leads through a pgbouncer in transaction mode."""
    with own_server(SETTINGS) as server:
        await migrate(server.url)
        connection = await asyncpg.connect(server.url)
        await connection.execute(TRIGGERS)
        await connection.close()
        async with through_a_pooler(server.url, size=40) if pooled else nullcontext(server.url) as url:
            yield PostgresServer(url, server)


def _some(pids: list[int], jitter: float) -> Iterator[int]:
    """One, or all of them."""
    if jitter > 0.8:
        yield from pids
    elif pids:
        yield pids[int(jitter * len(pids))]


def _text(worker: object) -> str:
    return "" if worker is None else str(worker)
