"""The log lines of a known mix of jobs, on each engine: each attempt has its lines, after a kill -9 as well."""

import json
import signal
from collections.abc import Sequence
from typing import Any

from tests.conftest import eventually
from tests.tenant_kit import ACME, HOUR
from tests.worker import sample_handlers
from tests.worker.shop import Process, Processes, Workplace

from leasehold import engine
from leasehold.model.job import JobId
from leasehold.model.status import AttemptStatus

ALWAYS = {"event", "level", "timestamp", "job_id", "tenant_id", "definition_key", "attempt_no", "worker_id"}
CLAIMED = ALWAYS | {"item_id", "attempt"}
COMPLETED = CLAIMED | {"duration_ms"}
FAILED = COMPLETED | {"error_code", "will_retry", "error", "status", "retry_in_ms", "where"}
RECLAIMED = {"error_code", "will_retry", "by"}

Line = dict[str, Any]


def lines_of(process: Process) -> list[Line]:
    """Returns the lines of a worker that are JSON; a last line may be under way."""
    return [json.loads(line) for line in process.said.splitlines() if line.startswith("{") and line.endswith("}")]


def named(lines: Sequence[Line], event: str) -> list[Line]:
    return [line for line in lines if line["event"] == event]


async def attempts_of(shop: Workplace, jobs: Sequence[JobId], *statuses: AttemptStatus) -> list[tuple[str, int, str]]:
    """Returns the attempts that ended so, by job, number and worker, as the store has them."""
    found = [(job, each) for job in jobs for each in await shop.jobs.attempts(job)]
    return sorted((job, each.number, each.worker or "") for job, each in found if each.status in statuses)


def told(lines: Sequence[Line]) -> list[tuple[str, int, str]]:
    for line in lines:
        assert line["tenant_id"] == ACME
        assert line["attempt"] == line["attempt_no"]
    return sorted((line["job_id"], line["attempt_no"], line["worker_id"]) for line in lines)


async def until_logged(process: Process, event: str, count: int) -> None:
    async def is_logged() -> bool:
        return len(named(lines_of(process), event)) >= count

    await eventually(is_logged, what=f"{count} lines {event}")


async def test_each_attempt_of_a_known_mix_has_its_lines(shop: Workplace, processes: Processes) -> None:
    await shop.store.sync_definitions(sample_handlers.handlers.definitions)
    payload = {**processes.payload, "item_id": "i-7"}
    jobs = [
        *await shop.enqueue_many(3, "note", payload=payload),
        *await shop.enqueue_many(2, "fail", payload=payload),
    ]
    worker = processes.worker("--slots", "2", "--log-format", "json")
    await shop.all_ended(jobs)
    await until_logged(worker, "job_completed", 3)
    await until_logged(worker, "job_failed", 2)
    worker.send(signal.SIGTERM)
    assert await worker.code() == 0
    lines = lines_of(worker)
    claimed, completed, failed = (named(lines, f"job_{word}") for word in ("claimed", "completed", "failed"))
    succeeded = await attempts_of(shop, jobs, AttemptStatus.SUCCEEDED)
    gave_up = await attempts_of(shop, jobs, AttemptStatus.FAILED)
    assert told(completed) == succeeded
    assert told(failed) == gave_up
    assert told(claimed) == sorted([*succeeded, *gave_up])
    assert {line["item_id"] for line in (*claimed, *completed, *failed)} == {"i-7"}
    assert {frozenset(line) for line in claimed} == {frozenset(CLAIMED)}
    assert {frozenset(line) for line in completed} == {frozenset(COMPLETED)}
    assert all(line.keys() >= FAILED for line in failed)
    assert all(line["duration_ms"] > 0 for line in (*completed, *failed))
    facts = {(line["definition_key"], line["error_code"], line["will_retry"], line["status"]) for line in failed}
    assert facts == {("fail", "Fail", False, "failed")}


async def test_the_lines_of_two_workers_tell_of_a_kill_9(
    shop: Workplace, processes: Processes, kit: engine.TestKit
) -> None:
    await shop.store.sync_definitions(sample_handlers.handlers.definitions)
    job = await shop.enqueue("wait", payload=processes.payload)
    killed = processes.worker("--slots", "1", "--log-format", "json")
    await processes.noted("began")
    await until_logged(killed, "job_claimed", 1)
    killed.send(signal.SIGKILL)
    await killed.code()
    processes.go()
    await kit.clock().move(HOUR)
    heir = processes.worker("--slots", "1", "--log-format", "json")
    await shop.ended(job)
    await until_logged(heir, "job_completed", 1)
    await until_logged(heir, "job_reclaimed", 1)
    crashed = await attempts_of(shop, [job], AttemptStatus.CRASHED)
    succeeded = await attempts_of(shop, [job], AttemptStatus.SUCCEEDED)
    assert told(named(lines_of(killed), "job_claimed")) == crashed
    assert named(lines_of(killed), "job_completed") == named(lines_of(killed), "job_failed") == []
    after = lines_of(heir)
    assert told(named(after, "job_claimed")) == told(named(after, "job_completed")) == succeeded
    (reclaimed,) = named(after, "job_reclaimed")
    assert (reclaimed["job_id"], reclaimed["attempt_no"], reclaimed["worker_id"]) == crashed[0]
    assert reclaimed.keys() >= ALWAYS | RECLAIMED
    assert (reclaimed["error_code"], reclaimed["will_retry"]) == ("lease_lost", True)
    assert reclaimed["by"] == succeeded[0][2]
