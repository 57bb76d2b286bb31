"""The database as a witness: every transition of every job, and effects that commit with the finish."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import orjson
from tests.faults.chaos import history
from tests.faults.chaos.history import Entry

Fence = tuple[str, int, str]

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


@dataclass(frozen=True)
class Transition:
    was: str
    became: str
    attempt_was: int
    attempt: int
    worker: str


@dataclass(frozen=True)
class Final:
    """A row of jobs_done."""

    job: str
    status: str
    attempt: int
    worker: str
    forgiven: int
    max_attempts: int
    result: Mapping[str, object] | None

    @property
    def fence(self) -> Fence:
        return self.job, self.attempt, self.worker


@dataclass(frozen=True)
class Testimony:
    """All that the three witnesses say, after everything has come to rest."""

    history: Sequence[Entry]
    audit: Mapping[str, Sequence[Transition]]
    effects: Mapping[str, Sequence[Fence]]
    finals: Mapping[str, Final]
    unfinished: frozenset[str]
    reclaimed: int


async def install(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(TRIGGERS)
    finally:
        await connection.close()


async def testimony(url: str, histories: Sequence[Path]) -> Testimony:
    connection = await asyncpg.connect(url)
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
        done = await connection.fetch(
            "select id, status, attempt, worker_id, forgiven, max_attempts, result from leasehold.jobs_done"
        )
        unfinished = await connection.fetch("select id from leasehold.jobs")
        reclaimed = await connection.fetchval("select count(*) from leasehold.job_attempts where status = 'crashed'")
    finally:
        await connection.close()
    return Testimony(
        history=[entry for path in histories for entry in history.read(path)],
        audit=audit,
        effects=effects,
        finals={str(row["id"]): _final(row) for row in done},
        unfinished=frozenset(str(row["id"]) for row in unfinished),
        reclaimed=reclaimed,
    )


def _final(row: asyncpg.Record) -> Final:
    return Final(
        job=str(row["id"]),
        status=row["status"],
        attempt=row["attempt"],
        worker=_text(row["worker_id"]),
        forgiven=row["forgiven"],
        max_attempts=row["max_attempts"],
        result=None if row["result"] is None else orjson.loads(row["result"]),
    )


def _text(worker: object) -> str:
    return "" if worker is None else str(worker)
