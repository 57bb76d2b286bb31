"""One database, one server and one browser for all tests of the console.

    world     the app with its jobs, and the address of its console
    visitors  browsers of people: `await visitors.open("/t/acme/jobs", Role.VIEWER)`

After each test no page may have logged an error, broken the content security policy or opened a dialog.
"""

from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import Browser, expect
from tests.conftest import PATIENCE
from tests.console.browser import Visitors, chromium, open_browser
from tests.console.world import World, make_world
from tests.database_server import DatabaseServer


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def world(database_server: DatabaseServer) -> AsyncIterator[World]:
    chromium()
    async with database_server.fresh() as url, make_world(url) as made:
        yield made


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(world: World) -> AsyncIterator[Browser]:
    expect.set_options(timeout=PATIENCE.total_seconds() * 1000)
    async with open_browser() as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="session")
async def visitors(browser: Browser, world: World) -> AsyncIterator[Visitors]:
    made = Visitors(browser, world)
    yield made
    await made.close()
