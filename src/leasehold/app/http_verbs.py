"""The HTTP API and the console of an app, whose packages are imported when they are asked for."""

from abc import ABC, abstractmethod
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import FastAPI

    from leasehold.api import ApiLimits, Backend, Resolve
    from leasehold.console import Console


class HttpVerbs(ABC):
    """The part of an app that is served."""

    @abstractmethod
    def _backend(self, statement: timedelta) -> "Backend":
        """Returns the app as its API needs it, with this limit for each statement."""

    def api(
        self, resolve: "Resolve | None" = None, *, tokens: bool = True, limits: "ApiLimits | None" = None
    ) -> "FastAPI":
        """Makes the HTTP API of this app, to be served or mounted. Needs `leasehold[api]`.

        resolve  maps a request to a Principal by your own means, like a session or a JWT; None: not known
        tokens   whether API tokens are accepted, too
        limits   bounds of requests, and how often they may be sent

        Nothing is open by default. Register handlers before: the tick is served only where handlers are loaded.
        """
        from leasehold.api import ApiLimits, make_api

        bounds = limits or ApiLimits()
        backend = self._backend(timedelta(seconds=bounds.statement))
        return make_api(backend, resolve, tokens=tokens, limits=bounds)

    def console(
        self, resolve: "Resolve | None" = None, *, tokens: bool = True, limits: "ApiLimits | None" = None
    ) -> "Console":
        """Makes the console of this app, with its HTTP API under /api/v1, to be served or mounted.

        `resolve`, `tokens` and `limits` are those of `api`: `resolve` names the people whom your app knows; with
        `tokens`, people sign in with an API token or a one-time link. Needs `leasehold[console]`.
        """
        from leasehold.api import ApiLimits
        from leasehold.console import make_console

        bounds = limits or ApiLimits()
        backend = self._backend(timedelta(seconds=bounds.statement))
        return make_console(backend, resolve, tokens=tokens, limits=bounds)
