"""The definitions that a worker serves, by keys and patterns."""

import pytest
from tests.worker.shop import Payload, Shop, only

from leasehold.errors import InvalidInput
from leasehold.model.definition import Definition
from leasehold.model.status import Status
from leasehold.worker import Job, WorkerSettings
from leasehold.worker.selection import select_definitions

KNOWN = ("sync-folder", "sync-user", "report", "resize")


def select(*only: str, exclude: tuple[str, ...] = ()) -> tuple[str, ...]:
    return select_definitions(KNOWN, only, exclude)


def test_all_definitions_are_selected_if_none_is_named() -> None:
    assert select() == KNOWN


def test_keys_and_patterns_select_definitions() -> None:
    assert select("report", "sync-*") == ("sync-folder", "sync-user", "report")
    assert select("*-user") == ("sync-user",)


def test_excluded_definitions_are_left_out() -> None:
    assert select(exclude=("sync-*",)) == ("report", "resize")
    assert select("sync-*", exclude=("sync-user",)) == ("sync-folder",)


def test_letters_of_another_case_do_not_match() -> None:
    with pytest.raises(InvalidInput):
        select("Report")


def test_a_key_with_a_wildcard_in_it_matches_itself() -> None:
    assert select_definitions(["a[1]", "a1"], ["a[1]"], []) == ("a[1]", "a1")


@pytest.mark.parametrize("exclude", [False, True])
def test_a_name_that_matches_nothing_is_refused(exclude: bool) -> None:
    with pytest.raises(InvalidInput, match=r'matches "sync-foldr"\. Did you mean "sync-folder"\?') as refused:
        select(exclude=("sync-foldr",)) if exclude else select("sync-foldr")
    assert refused.value.fix == "The app has these: sync-folder, sync-user, report, resize."


def test_a_pattern_that_matches_nothing_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r'matches "reprot\*"\. Did you mean "report"\?'):
        select("reprot*")


def test_a_selection_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(InvalidInput, match="sync-folder, sync-user are all excluded"):
        select("sync-*", exclude=("sync-*",))


def test_a_selection_may_name_what_this_machine_can_not_run() -> None:
    serves = WorkerSettings(only=["sync-*"]).subscription(KNOWN, usable={"sync-user", "report"})
    assert serves.definitions == ("sync-user",)


def test_a_text_instead_of_a_tuple_is_refused() -> None:
    for name in ("only", "exclude", "tenants"):
        with pytest.raises(InvalidInput, match=f"{name}='report' is one text, and a tuple is needed"):
            WorkerSettings(**{name: "report"})  # type: ignore[arg-type]


def test_tenants_of_a_worker_are_checked() -> None:
    assert WorkerSettings(tenants=["acme"]).tenants == ("acme",)
    with pytest.raises(InvalidInput):
        WorkerSettings(tenants=[" acme"])


async def test_a_worker_runs_the_selected_definitions_only(shop: Shop) -> None:
    async def work(job: Job, payload: Payload) -> None: ...

    handlers = only(work)
    handlers.add(Definition("email"))(work)
    await shop.store.sync_definitions(handlers.definitions)
    left, run = await shop.enqueue("email"), await shop.enqueue("report")
    async with shop.working(handlers, exclude=("email",)) as worker:
        await shop.ended(run)
        await shop.at_rest(worker)
    assert (await shop.job(left)).status is Status.QUEUED


async def test_a_worker_registers_definitions_that_it_does_not_run(shop: Shop) -> None:
    async def work(job: Job, payload: Payload) -> None: ...

    handlers = only(work)
    handlers.add(Definition("email"))(work)
    async with shop.working(handlers, only=("report",)):
        registered = {found.definition.key for found in await shop.store.definitions()}
        (listed,) = await shop.store.workers()
    assert registered == {"report", "email"}
    assert listed.serves.definitions == ("report",)
