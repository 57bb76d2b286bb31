"""The handlers of a worker: definitions, each with its function."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from leasehold.config import keyring
from leasehold.errors import InvalidInput
from leasehold.model.definition import Definition
from leasehold.model.isolation import Isolation
from leasehold.store import DeclaredTrigger, TriggerChange, TriggerStore
from leasehold.worker.job import Job

Call = Callable[[Job, Any], Any]
C = TypeVar("C", bound=Call)


def _no_problem() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Handler:
    """`call` takes the job and its payload. A coroutine function runs on the loop, any other in a thread.

    `reads_json`: the call reads the payload itself, from the stored text. `problem` returns why this machine can't
    run it, such as a program that is not installed; None if it can. `cleanup` is how many seconds a coroutine may
    take to end after a cancel, if they are not the usual ones. `isolation`: the worker calls it in a process of its
    own.
    """

    definition: Definition
    call: Call
    reads_json: bool = False
    problem: Callable[[], str | None] = _no_problem
    cleanup: float | None = None
    isolation: Isolation | None = None
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

    def add(
        self,
        definition: Definition,
        *,
        reads_json: bool = False,
        problem: Callable[[], str | None] = _no_problem,
        cleanup: float | None = None,
        isolation: Isolation | None = None,
    ) -> Callable[[C], C]:
        def register(call: C) -> C:
            if definition.key in self._by_key:
                raise InvalidInput(
                    f"{definition.key!r} has a handler already: {self._by_key[definition.key].call!r}.",
                    fix="Nothing was registered. Give one of the two another key.",
                )
            self._by_key[definition.key] = Handler(definition, call, reads_json, problem, cleanup, isolation)
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

    def of_this_machine(self) -> tuple["Handlers", Mapping[str, str]]:
        """Returns the handlers that this machine can run, and why it can't run each of the others, by key."""
        problems = {key: problem for key, handler in self._by_key.items() if (problem := handler.problem())}
        if not problems:
            return self, problems
        usable = Handlers()
        usable._by_key = {key: handler for key, handler in self._by_key.items() if key not in problems}
        usable.triggers = [trigger for trigger in self.triggers if trigger.rule.definition not in problems]
        return usable, problems

    def require_secret_keys(self) -> None:
        """Raises NoSecretKey if a definition has secret fields, and this process can't decrypt them."""
        for handler in self:
            if handler.definition.secret_fields:
                keyring().require(handler.definition.key)

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
