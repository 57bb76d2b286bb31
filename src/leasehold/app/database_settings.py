"""Where an app's database is: settings from code and environment, the embedded Postgres, the engine."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from leasehold import embedded
from leasehold.app.open_store import OpenStore
from leasehold.config import Settings
from leasehold.engine import Engine
from leasehold.engines import DEFAULT_URL, engine_for
from leasehold.operations.catalog import CodeDefinitions
from leasehold.store import Store

log = logging.getLogger("leasehold")

SettingValue = str | Callable[[], str]
"""A value, or a function that returns it when it is needed: a password that changes, a database of a test."""


class DatabaseSettings:
    """Settings of the code win over those of the environment; a later `configure` wins over an earlier one."""

    def __init__(self) -> None:
        self._given: dict[str, Any] = {}

    def configure(self, url: SettingValue | None, schema: SettingValue | None, home: Path | str | None) -> None:
        given = {"url": url, "schema": schema, "home": None if home is None else Path(home)}
        self._given |= {name: value for name, value in given.items() if value is not None}

    @contextmanager
    def override(self, url: SettingValue | None, schema: SettingValue | None) -> Iterator[None]:
        """Configures for the length of the block."""
        before = dict(self._given)
        self.configure(url, schema, None)
        try:
            yield
        finally:
            self._given = before

    @property
    def settings(self) -> Settings:
        given = {name: value() if callable(value) else value for name, value in self._given.items()}
        return replace(Settings.from_environment(), **given)

    @contextmanager
    def database(self) -> Iterator[str]:
        """Yields the URL. An embedded Postgres runs for the length of the block, with its schema up to date."""
        settings = self.settings
        if settings.url:
            yield settings.url
            return
        settings.require_embedded()
        new = not settings.home.exists()
        with embedded.postgres(settings.home) as server:
            if new:  # if the URL was only forgotten, its owner will look for these jobs elsewhere
                log.warning("LEASEHOLD_URL is not set: a new database was made in %s", settings.home.resolve())
            with ThreadPoolExecutor(1) as thread:  # the calling thread may have a running loop
                thread.submit(asyncio.run, engine_for(server.url, settings.schema).prepare()).result()
            yield server.url

    async def open_at(self, url: str) -> Store:
        """Opens a store at this URL, with the current settings."""
        return await self.engine_at(url).open(statement_timeout=self.settings.statement_timeout)

    def engine_at(self, url: str | None = None) -> Engine:
        """Returns the engine at this URL, by default at that of the settings."""
        settings = self.settings
        listen_url = settings.listen_url if settings.url else None
        return engine_for(url or settings.url or DEFAULT_URL, settings.schema, listen_url)

    @asynccontextmanager
    async def open(self, code: CodeDefinitions) -> AsyncIterator[OpenStore]:
        with ExitStack() as running:
            url = await asyncio.to_thread(running.enter_context, self.database())
            store = await self.open_at(url)
            try:
                yield OpenStore(store, url, code)
            finally:
                await store.close()


class LimitedSettings(DatabaseSettings):
    """The settings of an app, as they are at each use, with a shorter time limit for statements."""

    def __init__(self, settings: DatabaseSettings, statement_timeout: timedelta) -> None:
        super().__init__()
        self._settings = settings
        self._statement_timeout = statement_timeout

    @property
    def settings(self) -> Settings:
        found = self._settings.settings
        return replace(found, statement_timeout=min(found.statement_timeout, self._statement_timeout))
