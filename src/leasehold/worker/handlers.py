"""The handlers of a worker: definitions, each with its function."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from leasehold.errors import InvalidInput
from leasehold.model.definition import Definition
from leasehold.store import DeclaredTrigger, TriggerChange, TriggerStore
from leasehold.worker.job import Job

Call = Callable[[Job, Any], Any]
C = TypeVar("C", bound=Call)


@dataclass(frozen=True, slots=True)
class Handler:
    """`call` takes the job and its payload. A coroutine function runs on the loop, any other in a thread.

    `reads_json`: the call reads the payload itself, from the stored text.
    """

    definition: Definition
    call: Call
    reads_json: bool = False
    is_async: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_async", inspect.iscoroutinefunction(self.call))


class Handlers:
    """A registry, filled by decorator:

    handlers = Handlers()

    @handlers.add(Definition("send_mail"))
    async def send_mail(job: Job, payload: dict[str, Any]) -> None: ...
    """

    def __init__(self) -> None:
        self._by_key: dict[str, Handler] = {}
        self.triggers: list[DeclaredTrigger] = []

    def add(self, definition: Definition, *, reads_json: bool = False) -> Callable[[C], C]:
        def register(call: C) -> C:
            if definition.key in self._by_key:
                raise InvalidInput(
                    f"{definition.key!r} has a handler already: {self._by_key[definition.key].call!r}.",
                    fix="Nothing was registered. Give one of the two another key.",
                )
            self._by_key[definition.key] = Handler(definition, call, reads_json)
            return call

        return register

    def declare(self, trigger: DeclaredTrigger) -> None:
        """Adds a trigger of the code; workers save it when they start. Raises InvalidInput if it is there already."""
        if any(known.id == trigger.id for known in self.triggers):
            raise InvalidInput(
                f"two triggers of {trigger.rule.definition!r} for one tenant have the label {trigger.rule.label!r}. "
                "Nothing was registered.",
                fix='Give one of them another: label="…".',
            )
        self.triggers.append(trigger)

    async def sync_triggers(self, store: TriggerStore, *, dry_run: bool = False) -> Sequence[TriggerChange]:
        """Saves the triggers of the code, and removes those of its definitions that it declares no longer."""
        return await store.all_triggers.sync(self.triggers, self.keys, dry_run=dry_run)

    def replace(self, handler: Handler) -> Handler:
        """Replaces the handler of a definition, as a test does. Returns the one that was registered."""
        key = handler.definition.key
        replaced, self._by_key[key] = self._by_key[key], handler
        return replaced

    def __getitem__(self, key: str) -> Handler:
        return self._by_key[key]

    def __iter__(self) -> Iterator[Handler]:
        return iter(self._by_key.values())

    def __len__(self) -> int:
        return len(self._by_key)

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self._by_key)

    @property
    def definitions(self) -> list[Definition]:
        return [handler.definition for handler in self]
