"""Texts that attack the pages that show them: all of them stay texts, whichever field or address has them."""

from collections.abc import AsyncIterator, Sequence
from html import unescape
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page
from tests.console.browser import Visitors
from tests.console.hostile_world import EVALUATED, NUMBERS, HostileWorld, addresses, lists, make_hostile_world
from tests.database_server import DatabaseServer

from leasehold.model.access import Role

pytestmark = pytest.mark.asyncio(loop_scope="session")

LISTEN = """
window.hits = [];
window.hit = (mark) => window.hits.push(mark);
document.addEventListener('securitypolicyviolation', (event) => window.hits.push(event.violatedDirective));
"""
# Elements and attributes that no template and no module of the console makes.
FOREIGN = """(page) => {
  const found = [];
  for (const each of page.querySelectorAll(
    'body script, style, body link, body meta, base, img, iframe, object, embed, math, x, title ~ title, [hostile]'
  )) found.push(each.outerHTML.slice(0, 200));
  for (const each of page.querySelectorAll('*')) {
    for (const { name, value } of each.attributes) {
      const leads = ['href', 'src', 'action', 'formaction', 'data-href', 'srcdoc'].includes(name);
      const isForeign = leads && URL.parse(value, location.href)?.origin !== location.origin;
      if (/^on|^style$|^srcdoc$/.test(name) || isForeign) found.push(`${each.tagName} ${name}=${value}`);
    }
  }
  return found;
}"""
# Reads pages as a live page does, four at a time: a browser parses them, and runs nothing.
READ = f"""async (paths) => {{
  const foreign = {FOREIGN};
  const read = (path) => new Promise((resolve, reject) => {{
    const request = new XMLHttpRequest();
    request.open('GET', path);
    request.responseType = 'document';
    request.onload = () => resolve([path, foreign(request.response), request.response.documentElement.outerHTML]);
    request.onerror = reject;
    request.send();
  }});
  const found = [];
  while (paths.length) found.push(...await Promise.all(paths.splice(0, 4).map(read)));
  return found;
}}"""
# Fields of names refuse hidden characters.
FEWEST = 30


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def hostile(browser: Browser, database_server: DatabaseServer) -> AsyncIterator[HostileWorld]:
    async with make_hostile_world(database_server) as made:
        yield made


async def read(page: Page, paths: Sequence[str]) -> str:
    """Returns the texts of pages and of their attributes. Nothing in them may be foreign."""
    shown = []
    for path, found, text in await page.evaluate(READ, list(paths)):
        assert found == [], path
        assert EVALUATED not in text, path
        shown.append(unescape(text))
    return "".join(shown)


async def test_a_text_stays_a_text_on_every_page(browser: Browser, hostile: HostileWorld) -> None:
    visitors = Visitors(browser, hostile.world)
    page = await visitors.open("/all/health", Role.SUPER_ADMIN)
    shown = await read(page, hostile.paths)
    name = f"leasehold-session-{urlsplit(hostile.world.address).port}"
    for secret in hostile.secrets:
        await page.context.add_cookies([{"name": name, "value": secret, "url": hostile.world.address}])
        shown += await read(page, ["/t/acme/jobs?limit=25"])
    for field, marks in hostile.accepted.items():
        assert not [mark for mark in marks if mark not in shown], f"{field} was shown on no page"
        assert len(marks) >= FEWEST, f"{field} takes few of the texts"
    await visitors.close()


@pytest.mark.parametrize("policy", [True, False], ids=["policy", "no-policy"])
async def test_no_page_runs_a_text(browser: Browser, hostile: HostileWorld, policy: bool) -> None:
    """Escaping alone keeps every page whole: the policy, which would stop a script, is off the second time."""
    visitors = Visitors(browser, hostile.world)
    page = await visitors.open(role=Role.SUPER_ADMIN, bypass_csp=not policy)
    await page.add_init_script(LISTEN)
    for path in (*hostile.paths[:: len(hostile.paths) // len(NUMBERS) + 1], *lists()):
        await page.goto(path)
        assert await page.evaluate(f"[...window.hits, ...({FOREIGN})(document)]") == [], path
        assert await page.locator("main").is_visible(), path
    await visitors.close()


async def test_a_text_of_an_address_stays_a_text(browser: Browser, hostile: HostileWorld) -> None:
    visitors = Visitors(browser, hostile.world, expected=("422", "404", "400"))
    page = await visitors.open("/all/health", Role.SUPER_ADMIN)
    shown = await read(page, list(addresses()))
    assert len([number for number in NUMBERS if f"asked{number:02}" in shown]) >= FEWEST
    await visitors.close()
