"""The way to the database: where it is, a Postgres of our own where there is none, and the open store."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from leasehold import embedded
from leasehold.app.opened import Opened
from leasehold.config import Settings
from leasehold.engine import Engine
from leasehold.engines import DEFAULT_URL, engine_for
from leasehold.store import Store
from leasehold.worker import Handlers

log = logging.getLogger("leasehold")

Said = str | Callable[[], str]
"""A value, or who knows it when it is needed: a password that changes, a database that tests replace."""


class Access:
    """Settings said in code win over the environment's, and what is said last wins."""

    def __init__(self) -> None:
        self._said: dict[str, Any] = {}

    def configure(self, url: Said | None, schema: Said | None, home: Path | str | None) -> None:
        said = {"url": url, "schema": schema, "home": None if home is None else Path(home)}
        self._said |= {name: value for name, value in said.items() if value is not None}

    @property
    def settings(self) -> Settings:
        said = {name: value() if callable(value) else value for name, value in self._said.items()}
        return replace(Settings.from_environment(), **said)

    @contextmanager
    def database(self) -> Iterator[str]:
        """The URL. An embedded Postgres runs for as long as the block lasts, and its schema is brought up to date."""
        settings = self.settings
        if settings.url:
            yield settings.url
            return
        settings.require_embedded()
        new = not settings.home.exists()
        with embedded.postgres(settings.home) as server:
            if new:  # someone may just have forgotten the URL, and would look for these jobs elsewhere
                log.warning("LEASEHOLD_URL is not set: a new database was made in %s", settings.home.resolve())
            with ThreadPoolExecutor(1) as aside:  # whoever asks may have a loop running
                aside.submit(asyncio.run, engine_for(server.url, settings.schema).prepare()).result()
            yield server.url

    async def open_at(self, url: str) -> Store:
        """Opens a store there, under the settings that hold now."""
        return await self.engine_at(url).open(statement_timeout=self.settings.statement_timeout)

    def engine_at(self, url: str | None = None) -> Engine:
        """Returns the engine at that URL, by default at the one of the settings, under the settings that hold now."""
        settings = self.settings
        listen_url = settings.listen_url if settings.url else None
        return engine_for(url or settings.url or DEFAULT_URL, settings.schema, listen_url)

    @asynccontextmanager
    async def open(self, handlers: Handlers) -> AsyncIterator[Opened]:
        with ExitStack() as running:
            url = await asyncio.to_thread(running.enter_context, self.database())
            store = await self.open_at(url)
            try:
                yield Opened(store, url, handlers)
            finally:
                await store.close()
