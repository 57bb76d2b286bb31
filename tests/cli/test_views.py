"""`leasehold views list`, `save` and `delete`."""

from tests.cli.terminal import CommandLine

from leasehold.cli.actor import cli_actor
from leasehold.model.access import Principal, Role
from leasehold.model.job import tenant_id
from leasehold.operations import saved_views
from leasehold.store import Store

ACME = tenant_id("acme")
OTHER = Principal("eve", Role.OPERATOR, ACME)


async def test_a_shared_view_is_saved_for_all_people(leasehold: CommandLine, store: Store) -> None:
    search = "status:failed created:<2h"
    made = await leasehold("views", "save", "late", search, "--limit", "100", "--shared", "-t", "acme")
    assert (made.code, "shared view late is saved" in made.err) == (0, True)
    (view,) = await saved_views.read(store, ACME, OTHER)
    assert (view.name, view.query) == ("late", "q=status%3Afailed+created%3A%3C2h&limit=100")
    assert view.created_by == cli_actor().name
    assert await saved_views.read(store, None, OTHER) == []


async def test_a_view_of_ones_own_is_listed_for_oneself(leasehold: CommandLine, store: Store) -> None:
    await leasehold("views", "save", "mine", "status:failed definition:a", "--column", "due", "-t", "acme")
    await saved_views.save(store, ACME, OTHER, "theirs", "limit=25")
    await saved_views.save(store, ACME, OTHER, "ours", "limit=25", shared=True)
    listed = await leasehold("views", "list", "-t", "acme")
    assert listed.rows == [
        ["mine", "you", cli_actor().name, "'status:failed definition:a' --column due"],
        ["ours", "all", "eve", "'' --limit 25"],
    ]


async def test_a_saved_view_is_replaced_and_deleted(leasehold: CommandLine) -> None:
    for search in ("status:failed", "status:running"):
        await leasehold("views", "save", "mine", search, "-t", "acme")
    (listed,) = (await leasehold("views", "list", "-t", "acme", "--json")).document
    assert (listed["query"], listed["shared"]) == ("q=status%3Arunning", False)
    assert (await leasehold("views", "delete", "mine", "-t", "acme")).code == 0
    again = await leasehold("views", "delete", "mine", "-t", "acme")
    assert (again.code, "Nothing was deleted" in again.err) == (2, True)


async def test_a_view_has_a_size_that_the_console_has(leasehold: CommandLine) -> None:
    assert (await leasehold("views", "save", "mine", "status:failed", "--limit", "60")).code == 2
