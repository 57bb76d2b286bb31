"""Chromium, driven by Playwright: the system's own, never a download."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, async_playwright
from tests.conftest import PATIENCE
from tests.console.world import ACME, World

from leasehold.model.access import Role
from leasehold.model.job import TenantId

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def chromium() -> str:
    """Returns the path of the browser. Without one, tests are skipped; in CI they fail."""
    for name in NAMES:
        if found := shutil.which(name):
            return found
    reason = "Chromium is not installed on this machine: apt-get install chromium"
    if os.environ.get("REQUIRE_BROWSER") or os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@asynccontextmanager
async def open_browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        try:
            yield browser
        finally:
            await browser.close()


@dataclass
class Visitors:
    """Browsers of people, each with a session of its own. `complaints` has what no page may cause."""

    browser: Browser
    world: World
    complaints: list[str] = field(default_factory=list)
    expected: tuple[str, ...] = ()
    _contexts: list[BrowserContext] = field(default_factory=list)

    async def open(
        self,
        path: str | None = None,
        role: Role | None = Role.TENANT_ADMIN,
        tenant: TenantId = ACME,
        **options: Any,
    ) -> Page:
        """Opens a page as a person of this role; without one, signed out."""
        settings = {"viewport": {"width": 1280, "height": 800}, "reduced_motion": "reduce", **options}
        context = await self.browser.new_context(base_url=self.world.address, **settings)
        self._contexts.append(context)
        if role is not None:
            port = urlsplit(self.world.address).port
            name, secret = f"leasehold-session-{port}", await self.world.session(role, tenant)
            await context.add_cookies([{"name": name, "value": secret, "url": self.world.address}])
        context.set_default_timeout(PATIENCE.total_seconds() * 1000)
        page = await context.new_page()
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", self._refuse)
        if path is not None:
            await page.goto(path)
        return page

    def _note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not any(each in message.text for each in self.expected):
            self.complaints.append(message.text)

    async def _refuse(self, dialog: Dialog) -> None:
        self.complaints.append(f"a dialog: {dialog.message}")
        await dialog.dismiss()

    async def close(self) -> None:
        for context in self._contexts:
            await context.close()
        assert not self.complaints, self.complaints


def axe_source() -> str:
    """Returns axe-core, which finds what keeps people from using a page."""
    return (files("axe_core_python") / "axe.min.js").read_text()
