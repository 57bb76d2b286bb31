"""The definitions of an app, by key, with the handlers that its workers call."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any

from leasehold.app.definition import TypedDefinition
from leasehold.errors import InvalidInput
from leasehold.model.backoff import Preset
from leasehold.model.definition import Definition
from leasehold.model.isolation import Isolation, read_isolation
from leasehold.worker import Handlers
from leasehold.worker.handlers import Call

OF_ISOLATION = ("isolation", "memory")
OPTIONS = {field.name for field in fields(Definition) if field.init} - {"key", "schema"}


class Registry:
    def __init__(self) -> None:
        self.handlers = Handlers()
        self._definitions: dict[str, TypedDefinition[..., Any]] = {}

    def get(self, key: str) -> TypedDefinition[..., Any] | None:
        return self._definitions.get(key)

    def add(
        self,
        definition: TypedDefinition[Any, Any],
        wrap: Callable[[Call], Call],
        isolation: Isolation | None = None,
    ) -> None:
        """Registers a definition; workers call its handler as `wrap` returns it. Raises InvalidInput."""
        if (known := self._definitions.get(definition.key)) is not None:
            raise InvalidInput(
                f"two handlers have the key {definition.key!r}: the one in {known.place} and the one in "
                f"{definition.place}. Nothing was registered under it a second time.",
                fix='Rename one of them, or give it another key: @app.job(key="…").',
            )
        register = self.handlers.add(
            definition.definition,
            reads_json=definition.reads_json,
            problem=definition.problem_here,
            cleanup=definition.cleanup,
            isolation=isolation,
        )
        register(wrap(definition.call))
        self._definitions[definition.key] = definition


def isolation_of(options: Mapping[str, Any]) -> tuple[Isolation | None, dict[str, Any]]:
    """Splits the options of `@app.job(…)`: those of a handler in a process of its own are not the definition's."""
    rest = {name: value for name, value in options.items() if name not in OF_ISOLATION}
    return read_isolation(*(options.get(name) for name in OF_ISOLATION)), rest


def definition_of(key: str, options: Mapping[str, Any]) -> Definition:
    """Makes a definition of the options of `@app.job(…)`. Raises InvalidInput for an unknown option."""
    for name in options.keys() - OPTIONS:
        near = get_close_matches(name, OPTIONS | set(OF_ISOLATION), n=1)
        raise InvalidInput(
            f'{key}: a job has no option "{name}".' + (f' Did you mean "{near[0]}"?' if near else ""),
            fix=f"Nothing was registered. Options are: {', '.join(sorted(OPTIONS | set(OF_ISOLATION)))}.",
        )
    if isinstance(preset := options.get("backoff"), Preset):
        options = {"max_attempts": preset.max_attempts, **options, "backoff": preset.backoff}
    return Definition(key, **options)
