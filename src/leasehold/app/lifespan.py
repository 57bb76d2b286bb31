"""Checks the lifespan of an app when it is given, and not when the first worker starts."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from leasehold.errors import InvalidInput

F = TypeVar("F", bound=Callable[..., Any] | None)


def require_lifespan(lifespan: F) -> F:
    """Returns the function. Raises InvalidInput if it can't be one that returns an async context manager."""
    if inspect.isasyncgenfunction(lifespan) or inspect.iscoroutinefunction(lifespan):
        raise InvalidInput(
            f"lifespan={getattr(lifespan, '__name__', lifespan)!s} does not return an async context manager. "
            "Nothing was opened.",
            fix="Write @asynccontextmanager above it, and yield the state once.",
        )
    if lifespan is not None and not callable(lifespan):
        raise InvalidInput(
            f"lifespan={lifespan!r:.80} is not a function. Nothing was opened.",
            fix="Pass a function of the app that returns an async context manager.",
        )
    return lifespan
