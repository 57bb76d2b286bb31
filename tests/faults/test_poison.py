"""The poison run: thousands of hostile values through every entry, while two other tenants work.

Every value is refused by an error that blames the input, or stored and then shown. No worker process ends. No job of
the two bystanders (`calm` and `quiet`) waits more than a second from the call of enqueue to the start of its handler.

Other programs may take the machine's cores, so an entry is judged against quiet phases of the same run, one before
each entry: it fails if waits over a second are more frequent than in the quiet phases, twice in a row. A poisonous
value delays others every time, a busy machine does not.
"""

import sys
from signal import SIGTERM

import pytest
from tests.cli.terminal import CommandLine
from tests.conftest import Raw
from tests.faults import poison_app
from tests.faults.poison_entries import APP, Entries
from tests.faults.poison_run import QUIET, Run, Waits, slow_entries
from tests.worker.shop import Processes

from leasehold.model.definition import Definition
from leasehold.model.job import JobId
from leasehold.store import Filter, Store

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1500)]

LEAST_VALUES = 2_500


async def all_shown(run: Run, leasehold: CommandLine) -> None:
    """Finds every accepted job in the listings of the store and of the command line, with its attempts and lines."""
    shown: dict[str, set[JobId]] = {"find": set(), "jobs": set()}
    cursor = None
    while True:
        page = await run.store.find_all_tenants(Filter(), cursor, 200)
        shown["find"] |= {job.id for job in page.jobs}
        if (cursor := page.next) is None:
            break
    for tenant, job in dict.fromkeys(run.jobs):
        handle = run.store.tenant(tenant)
        for attempt in await handle.attempts(job):
            await handle.lines(job, attempt.number)
    for tenant in {tenant for tenant, _ in run.jobs}:
        cursor = None
        while True:
            words = ["jobs", "--tenant", tenant, "-n", "1000", "--json"]
            answer = await leasehold(*words, *(["--cursor", cursor] if cursor else []))
            assert answer.code == 0, answer
            shown["jobs"] |= {JobId(job["id"]) for job in answer.document}
            if len(answer.document) < 1000:
                break
            cursor = answer.document[-1]["id"]
    for where, ids in shown.items():
        assert {job for _, job in run.jobs} <= ids, where


async def test_hostile_values_through_every_entry_disturb_no_other_tenant(
    store: Store, observer: Raw, processes: Processes, leasehold: CommandLine, database_url: str
) -> None:
    run = Run(store)
    entries = Entries(run, database_url, observer, leasehold, processes).all
    await store.sync_definitions([*poison_app.handlers.definitions, Definition("strange")])
    workers = [processes.worker("--slots", "10", handlers=APP) for _ in range(2)]
    await run.quiet_phase(Waits(), jobs=2)
    for worker in workers:
        await worker.says("10 slots")
    first = await run.pass_entries(entries)
    counts = dict(run.counts)
    values = sum(run.counts[name] for name in entries)
    ended = sum(record.status.final for record in run.settled.values())
    sys.stdout.write(f"\npoison: {values} values {counts}, {ended} of {len(run.settled)} jobs ended\n")
    sys.stdout.writelines(f"  {name}: {waits}\n" for name, waits in first.items())
    assert not run.wrong, f"{len(run.wrong)} values:\n" + "\n".join(run.wrong)
    await all_shown(run, leasehold)
    assert all(run.counts[name] for name in entries)
    assert values >= LEAST_VALUES
    if suspects := slow_entries(first):
        second = await run.pass_entries({name: entries[name] for name in suspects})
        sys.stdout.writelines(f"  {name}, again: {waits}\n" for name, waits in second.items())
        slow = {name: (first[name], second[name]) for name in slow_entries(second)}
        assert not slow, f"{slow}; in the quiet phases {first[QUIET]} and {second[QUIET]}"
    assert not any(worker.ended for worker in workers)
    for worker in workers:
        worker.send(SIGTERM)
    assert [await worker.code() for worker in workers] == [0, 0]
    assert not [worker.said for worker in workers if "can't go on" in worker.said]
