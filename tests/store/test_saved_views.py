"""Saved views of lists, on every engine."""

import pytest
from tests.store.bench import Bench
from tests.tenant_kit import ACME, OTHER

from leasehold.errors import InvalidInput
from leasehold.model.access import Principal, Role
from leasehold.model.job import TenantId
from leasehold.operations import saved_views
from leasehold.store import saved_views as bounds

ADA, BOB = Principal("ada", Role.OPERATOR, ACME), Principal("ada#", Role.OPERATOR, ACME)
BY_TOKEN = Principal("ada", Role.OPERATOR, ACME, token="t1")


async def names(bench: Bench, principal: Principal, tenant: TenantId | None = ACME) -> list[tuple[str, bool]]:
    return [(view.name, view.owner is None) for view in await saved_views.read(bench.store, tenant, principal)]


async def test_people_have_views_of_their_own_and_shared_ones(bench: Bench) -> None:
    await saved_views.save(bench.store, ACME, ADA, "mine", "q=status%3Afailed")
    await saved_views.save(bench.store, ACME, ADA, "ours", "q=definition%3Areport", shared=True)
    await saved_views.save(bench.store, OTHER, ADA, "elsewhere", "limit=25")
    await saved_views.save(bench.store, None, ADA, "of all", "limit=25")
    assert await names(bench, ADA) == [("mine", False), ("ours", True)]
    for other in (BOB, BY_TOKEN):
        assert await names(bench, other) == [("ours", True)]
    assert await names(bench, ADA, None) == [("of all", False)]


async def test_a_view_takes_the_place_of_its_namesake(bench: Bench) -> None:
    await saved_views.save(bench.store, ACME, ADA, "mine", "limit=25")
    await saved_views.save(bench.store, ACME, ADA, " mine ", "limit=100")
    (view,) = await saved_views.read(bench.store, ACME, ADA)
    assert (view.query, view.created_by, view.created_at is not None) == ("limit=100", "ada", True)


async def test_a_deleted_view_is_gone_for_its_owner_only(bench: Bench) -> None:
    for person in (ADA, BOB):
        await saved_views.save(bench.store, ACME, person, "mine", "limit=25")
    await saved_views.save(bench.store, ACME, ADA, "mine", "limit=25", shared=True)
    assert await saved_views.delete(bench.store, ACME, ADA, "mine")
    assert not await saved_views.delete(bench.store, ACME, ADA, "mine")
    assert await names(bench, ADA) == [("mine", True)]
    assert await names(bench, BOB) == [("mine", True), ("mine", False)]


async def test_a_view_is_deleted_by_its_name_as_it_was_saved(bench: Bench) -> None:
    await saved_views.save(bench.store, ACME, ADA, " mine ", "limit=25")
    assert await saved_views.delete(bench.store, ACME, ADA, " mine ")


async def test_the_views_of_a_person_are_bounded(bench: Bench) -> None:
    for number in range(bounds.MOST_VIEWS):
        await saved_views.save(bench.store, ACME, ADA, f"view {number}", "limit=25")
    with pytest.raises(InvalidInput, match="50 views are yours"):
        await saved_views.save(bench.store, ACME, ADA, "one more", "limit=25")
    await saved_views.save(bench.store, ACME, ADA, "view 7", "limit=100")
    await saved_views.save(bench.store, ACME, ADA, "shared", "limit=25", shared=True)
    assert len(await names(bench, ADA)) == bounds.MOST_VIEWS + 1


@pytest.mark.parametrize(
    ("name", "query"), [("", "q=x"), ("x" * 61, "q=x"), ("a\nb", "q=x"), ("x", ""), ("x", "q" * 4001)]
)
async def test_a_view_that_can_not_be_shown_is_refused(bench: Bench, name: str, query: str) -> None:
    with pytest.raises(InvalidInput, match="Nothing was saved"):
        await saved_views.save(bench.store, ACME, ADA, name, query)
