"""Takes the pictures of the README, of the demo's console in both themes: `python -m tests.console.screenshots`.

They show the world of `make demo`. Its charts have minutes only while it runs, so an hour before it is made up.
"""

import asyncio
import math
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import asyncpg
import orjson
from playwright.async_api import Page
from tests.console.browser import open_browser

from leasehold import embedded

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs/images"
THEMES = ("light", "dark")
SIZE = {"width": 1200, "height": 760}
LARGEST = 150_000
SHOPS = {"alpine": 1.0, "harbor": 0.6, "meadow": 0.35}
# The pages, by the names of their pictures. A path that begins with "link:" is that of the first such link.
PAGES = {
    "workers": "/all/workers",
    "overview": "/t/alpine?window=1h",
    "why": "link:/t/harbor/jobs?q=status:ready+definition:frame_picture",
}
INSERT = """
insert into leasehold.series_minutes (tenant_id, definition, at, figures)
values ($1, '', $2, $3::text::jsonb) on conflict do nothing
"""


@asynccontextmanager
async def demo(home: Path) -> AsyncIterator[str]:
    """Runs the demo; yields the link to its console."""
    command = (sys.executable, str(ROOT / "examples/demo/demo.py"))
    environment = os.environ | {"LEASEHOLD_HOME": str(home)}
    running = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, env=environment)
    assert running.stdout is not None
    try:
        while line := (await running.stdout.readline()).decode():
            if found := re.search(r'topic=console text="(\S+)"', line):
                break
        else:
            raise SystemExit("the demo has ended without a link")
        reading = asyncio.create_task(running.stdout.read())
        yield found[1]
        reading.cancel()
    finally:
        running.terminate()
        await running.wait()


async def make_up_an_hour(url: str) -> None:
    """Writes figures of the last hour, with a rush and an outage of the provider."""
    random, connection = Random(7), await asyncpg.connect(url)
    first = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=62)
    try:
        for minute in range(62):
            everything: dict[str, float] = {}
            for shop, size in SHOPS.items():
                figures = figures_of(minute, size, random)
                for name, n in figures.items():
                    everything[name] = everything.get(name, 0) + n
                await connection.execute(
                    INSERT, shop, first + timedelta(minutes=minute), orjson.dumps(figures).decode()
                )
            await connection.execute(INSERT, "", first + timedelta(minutes=minute), orjson.dumps(everything).decode())
    finally:
        await connection.close()


def figures_of(minute: int, size: float, random: Random) -> dict[str, float]:
    rush = 1 + 2.5 * math.exp(-(((minute - 38) / 7) ** 2))
    jobs = round(size * rush * random.uniform(34, 46))
    failed = round(jobs * (0.45 if 30 <= minute < 40 else 0.08) * random.uniform(0.7, 1.3))
    depth = {"ready": round(6 * (rush - 0.9) * size * random.uniform(6, 8)), "running": round(5 * size + rush)}
    depth |= {"retrying": failed // 2, "scheduled": 14}
    waits = {8: jobs // 2, 9: jobs // 3, (10 if rush < 1.5 else 13): jobs // 6}
    runs = {9: jobs // 3, 10: jobs // 2, 12: jobs // 6}
    return {
        "enqueued": jobs,
        "started": jobs,
        "succeeded": max(0, jobs - failed // 3),
        "failed_attempts": failed,
        "retried": failed,
        "dead_letter": failed // 8,
        "canceled": int(minute % 9 == 0),
        "busy_ms": jobs * 900,
        **{f"depth:{name}": n for name, n in depth.items()},
        **{f"wait:{bucket}": n for bucket, n in waits.items()},
        **{f"run:{bucket}": n for bucket, n in runs.items()},
    }


async def take(page: Page, name: str, path: str) -> None:
    await page.goto(path.removeprefix("link:"))
    if path.startswith("link:"):
        await page.locator("#rows .name").first.click()
        await page.locator("#head").wait_for()
    for theme in THEMES:
        await page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        place = IMAGES / f"{name}-{theme}.png"
        await page.screenshot(path=place, animations="disabled", caret="hide")
        size = place.stat().st_size
        sys.stdout.write(f"{place.relative_to(ROOT)}  {size // 1000} kB\n")
        if size > LARGEST:
            raise SystemExit(f"{place} is too large")


async def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "data"
        async with demo(home) as link, open_browser() as browser:
            with embedded.postgres(home) as server:
                await make_up_an_hour(server.url)
            page = await browser.new_page(viewport=SIZE, base_url=link.partition("/sign-in")[0])  # type: ignore[arg-type]
            page.set_default_timeout(120_000)
            await page.goto(link)
            await page.locator(".nav").wait_for()
            await page.goto("/all/workers")
            is_ready = page.locator("#worker-head:has-text('2 live') ~ #silent:has-text('printer-3')")
            await is_ready.wait_for()
            for name, path in PAGES.items():
                await take(page, name, path)


if __name__ == "__main__":
    asyncio.run(main())
