"""Serves the HTTP API by uvicorn, on a socket that is bound before."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from importlib.util import find_spec
from typing import Any

from leasehold.errors import InvalidInput
from leasehold.runtime import sockets
from leasehold.runtime.sockets import address_of

__all__ = ["address_of", "bind", "has_console", "require_api", "run_server", "serving"]

GRACE = 5
MOST_CONNECTIONS = 1000


def require_api() -> None:
    """Raises InvalidInput if the packages of the extra `api` are not installed."""
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise InvalidInput(
            f"the HTTP API needs the package {error.name}. Nothing was started.",
            fix="Install it: pip install 'leasehold[api]'",
        ) from error


def has_console() -> bool:
    """Returns whether the packages of the extra `console` are installed."""
    return find_spec("jinja2") is not None


def bind(host: str, port: int) -> socket.socket:
    """Returns a listening socket. Raises InvalidInput if the address can't be used; port 0 takes a free one."""
    fix = "Name another with --host and --port."
    return sockets.bind(host, port, subject="the API", fix=fix, most=MOST_CONNECTIONS)


def run_server(api: Any, bound: socket.socket, on_start: Callable[[], object] = lambda: None) -> None:
    """Serves until SIGINT or SIGTERM; requests that run have 5 s to end.

    Calls `on_start` on the server's loop, as soon as requests are answered.
    """
    _server(api, on_start).run(sockets=[bound])


@asynccontextmanager
async def serving(api: Any, bound: socket.socket) -> AsyncIterator[None]:
    """Serves on this loop for the length of the block, which begins when requests are answered.

    Signals are left to the caller.
    """
    server = _server(api)
    server.capture_signals = _ignore_signals

    async def serve() -> None:
        with suppress(SystemExit):  # if the database goes while the app starts, uvicorn would end the process
            await server.serve(sockets=[bound])

    task = asyncio.create_task(serve())
    try:
        while not (server.started or task.done()):  # noqa: ASYNC110 – uvicorn has no event for it
            await asyncio.sleep(0.01)
        yield
    finally:
        server.should_exit = True
        await asyncio.gather(task, return_exceptions=True)
        bound.close()


@contextmanager
def _ignore_signals() -> Iterator[None]:
    yield


def _server(api: Any, on_start: Callable[[], object] = lambda: None) -> Any:
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            on_start()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            """Ends streams first: uvicorn tells no app that it stops, and waits for all requests."""
            if (guard := getattr(getattr(api, "state", None), "guard", None)) is not None:
                guard.streams.end_all()
            await super().shutdown(sockets)

    return Server(
        uvicorn.Config(
            api,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="on",
            limit_concurrency=MOST_CONNECTIONS,
            timeout_graceful_shutdown=GRACE,
        )
    )
