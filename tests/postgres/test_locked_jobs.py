"""A job whose row another transaction holds: claims pass over it, and its explanation names the session."""

from tests.conftest import Raw
from tests.postgres.race_tools import Connections
from tests.postgres.roles import SCHEMA, Roles
from tests.store.bench import Bench

from leasehold import Job
from leasehold.model.explain import explain
from leasehold.model.explanation import Check, CheckState
from leasehold.model.job import JobId

ROW = "select from leasehold.jobs where id = $1"


async def lock_of(bench: Bench, job: JobId) -> Check:
    facts = await bench.jobs.facts(job)
    assert facts is not None
    (check,) = (check for check in explain(facts).checks if check.name == "lock")
    return check


async def begin(connections: Connections, statement: str, job: JobId) -> Raw:
    connection = await connections.open(application_name="a report of yours")
    await connection.execute("begin")
    await connection.execute(statement.replace("$1", f"'{job}'"))
    return connection


async def test_the_session_that_holds_the_row_is_named(bench: Bench, connections: Connections) -> None:
    job = await bench.enqueue()
    holder = await begin(connections, f"{ROW} for update", job)
    check = await lock_of(bench, job)
    assert check.state is CheckState.BLOCKING
    assert check.evidence["session"] == f"process {holder.get_server_pid()}"
    assert check.evidence["application"] == "a report of yours"
    assert check.evidence["state"] == "idle in transaction"
    assert check.evidence["since"] is not None
    assert await bench.claimed_jobs() == []


async def test_a_lock_that_is_over_is_not_a_reason(bench: Bench, connections: Connections) -> None:
    job = await bench.enqueue()
    for end in ("rollback", "commit"):
        holder = await begin(connections, f"{ROW} for update", job)
        await holder.execute(end)
        assert (await lock_of(bench, job)).state is CheckState.OK
    assert await bench.claimed_jobs() == [job]


async def test_a_lock_that_several_transactions_share_is_found(bench: Bench, connections: Connections) -> None:
    job = await bench.enqueue()
    holders = [await begin(connections, f"{ROW} for share", job) for _ in range(3)]
    await holders[0].execute("rollback")
    assert (await lock_of(bench, job)).state is CheckState.BLOCKING
    assert await bench.claimed_jobs() == []
    for holder in holders[1:]:
        await holder.execute("rollback")
    assert (await lock_of(bench, job)).state is CheckState.OK
    assert await bench.claimed_jobs() == [job]


async def test_a_change_that_is_not_committed_holds_the_row(bench: Bench, connections: Connections) -> None:
    job = await bench.enqueue()
    await begin(connections, "update leasehold.jobs set priority = 1 where id = $1", job)
    assert (await lock_of(bench, job)).state is CheckState.BLOCKING


async def test_a_lock_taken_after_a_savepoint_is_found(bench: Bench, connections: Connections) -> None:
    job = await bench.enqueue()
    holder = await begin(connections, f"savepoint one; {ROW} for update", job)
    assert (await lock_of(bench, job)).state is CheckState.BLOCKING
    await holder.execute("rollback to savepoint one")
    assert (await lock_of(bench, job)).state is CheckState.OK


async def test_a_role_that_only_reads_sees_the_process(roles: Roles) -> None:
    """Without pg_read_all_stats, the state of other sessions is hidden."""
    producer, reader = roles.app("worker"), roles.app("reader")

    @producer.job
    def report(job: Job) -> None: ...

    async with producer.open():
        placed = await producer.tenant("acme").aenqueue(report)
    await roles.superuser.execute("begin")
    await roles.superuser.execute(f"select from {SCHEMA}.jobs for update")
    async with reader.open() as opened:
        facts = await opened.store.tenant(placed.tenant).facts(placed.id)
    await roles.superuser.execute("rollback")
    assert facts is not None
    assert facts.locked_by is not None
    assert facts.locked_by.session == f"process {roles.superuser.get_server_pid()}"
    assert facts.locked_by.state is None
