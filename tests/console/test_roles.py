"""Actions on triggers, events and definitions by role: a button is absent exactly where its page is refused."""

import pytest
from tests.console.trigger_world import IMPORT
from tests.console.world import World

from leasehold.model.access import Role

pytestmark = pytest.mark.asyncio(loop_scope="session")
LIST, DEFINITION = "/t/acme/triggers", f"/t/acme/definitions/{IMPORT}"
ADMINS = {Role.TENANT_ADMIN, Role.SUPER_ADMIN}
OPERATORS = ADMINS | {Role.OPERATOR}


def actions(world: World) -> list[tuple[str, str, set[Role]]]:
    """Returns (the page with the link, what it leads to, the roles that may)."""
    nightly = f"{LIST}/{world.triggers['nightly']}"
    hourly = f"{LIST}/{world.triggers['hourly']}"
    verbs = [(nightly, f"{nightly}/{verb}", ADMINS) for verb in ("edit", "pause", "disable", "delete")]
    return [
        *verbs,
        (hourly, f"{hourly}/enable", ADMINS),
        (LIST, f"{LIST}/new", ADMINS),
        (DEFINITION, f"{DEFINITION}/enqueue", OPERATORS),
        (DEFINITION, f"{DEFINITION}/override", {Role.SUPER_ADMIN}),
    ]


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.TENANT_ADMIN, Role.SUPER_ADMIN])
async def test_buttons_and_pages_agree_for_each_role(world: World, role: Role) -> None:
    async with await world.signed_in(role) as http:
        token = (await http.get(LIST)).text.partition('name="form_token" value="')[2].partition('"')[0]
        for page, target, roles in actions(world):
            shown = f'href="{target}"' in (await http.get(page)).text
            opened = (await http.get(target)).status_code == 200
            assert (shown, opened) == (role in roles, role in roles), (role, target)
            if role not in roles:
                sent = await http.post(target, data={"form_token": token}, headers={"Origin": world.address})
                assert sent.status_code == 403, (role, target)
