"""Injects errors in place of handler runs."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from leasehold.errors import InvalidInput
from leasehold.model.definition import no_such_definition
from leasehold.worker import Handlers, Job
from leasehold.worker.handlers import Handler

Raises = BaseException | type[BaseException]


class Injected:
    """Wraps the handlers of an app, until it is taken back."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers
        self._own: dict[str, Handler] = {}
        self._left: dict[str, list[Raises]] = {}

    def add(self, key: str, error: Raises, times: int) -> None:
        handler = self.handler(key)
        if times < 1:
            raise InvalidInput(
                f"times={times} is not at least 1. Nothing was injected.", fix="Leave it out for once."
            )
        self._left.setdefault(key, []).extend([error] * times)
        if key not in self._own:
            self._own[key] = handler
            self._handlers.replace(replace(handler, call=self._before(handler)))

    def handler(self, key: str) -> Handler:
        """Returns the handler without injected errors."""
        if key not in self._handlers.keys:
            raise no_such_definition(key, list(self._handlers.keys))
        return self._own.get(key) or self._handlers[key]

    def take_back(self) -> None:
        for handler in self._own.values():
            self._handlers.replace(handler)
        self._own.clear()
        self._left.clear()

    def _before(self, handler: Handler) -> Callable[[Job, Any], Any]:
        key = handler.definition.key
        if handler.is_async:

            async def acall(job: Job, payload: Any) -> Any:
                self._raise_next(key)
                return await handler.call(job, payload)

            return acall

        def call(job: Job, payload: Any) -> Any:
            self._raise_next(key)
            return handler.call(job, payload)

        return call

    def _raise_next(self, key: str) -> None:
        if waiting := self._left[key]:
            raise waiting.pop(0)
