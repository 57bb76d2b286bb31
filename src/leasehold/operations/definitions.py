"""Definitions as administrators see and change them: fields with their origin, overrides, new definitions."""

from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leasehold.errors import InvalidInput
from leasehold.model.audit import Actor
from leasehold.model.definition import Definition, Registered
from leasehold.model.overrides import OVERRIDABLE, FieldOrigin, OverrideChange, origins, read_values
from leasehold.operations import admin, views
from leasehold.operations.audit import audited
from leasehold.store import Administration


@dataclass(frozen=True, slots=True)
class Details:
    """A definition with the origin of each field that can be overridden."""

    registered: Registered
    origins: Sequence[FieldOrigin]


async def details(store: Administration, key: str) -> Details:
    """Returns a definition with the origins of its fields. Raises UnknownDefinition."""
    return await _with_origins(store, await admin.definition(store, key))


async def create(store: Administration, key: str, given: Mapping[str, Any], actor: Actor) -> Details:
    """Registers a definition without code, which workers that serve its key will run. Raises WrongState if it exists.

    Fields that are not given have the defaults. If code declares the key later, the given fields stay overridden.
    """
    new = Definition(key)
    new.check_registrable()
    change = OverrideChange(read_values(_known_fields(given), new), frozenset(), actor.name)

    def create() -> Awaitable[Registered]:
        return store.override(key, change, create=True)

    return await _with_origins(
        store,
        await audited(store, actor, "definition.create", f"definition {key}", create, shows=_values),
    )


async def override(
    store: Administration, key: str, given: Mapping[str, Any], actor: Actor, *, revision: int | None = None
) -> Details:
    """Sets fields of a definition in place of those of its code. New jobs get them; waiting jobs keep theirs.

    Raises UnknownDefinition, InvalidInput, or ChangedMeanwhile if it has another revision than the given one.
    """
    known = await admin.definition(store, key)
    values = read_values(_known_fields(given), known.definition)
    return await _change(store, key, OverrideChange(values, frozenset(), actor.name), "override", actor, revision)


async def reset(
    store: Administration, key: str, fields: Collection[str], actor: Actor, *, revision: int | None = None
) -> Details:
    """Restores fields to the values of the code; all fields if none is named."""
    change = OverrideChange({}, frozenset(fields or OVERRIDABLE), actor.name)
    return await _change(store, key, change, "reset", actor, revision)


async def set_active(store: Administration, key: str, active: bool, actor: Actor) -> Registered:
    """Lets a definition take new jobs, or stops it. Raises UnknownDefinition."""
    change = OverrideChange({"active": active}, frozenset(), actor.name)
    verb = "activate" if active else "deactivate"
    return (await _change(store, key, change, verb, actor, None)).registered


async def _change(
    store: Administration, key: str, change: OverrideChange, verb: str, actor: Actor, revision: int | None
) -> Details:
    async def read() -> dict[str, Any]:
        return _values(await admin.definition(store, key))

    def override() -> Awaitable[Registered]:
        return store.override(key, change, revision=revision)

    action, subject = f"definition.{verb}", f"definition {key}"
    return await _with_origins(
        store, await audited(store, actor, action, subject, override, read=read, shows=_values)
    )


def _values(known: Registered) -> dict[str, Any]:
    """Returns the fields that can be overridden, for the audit log."""
    shown = views.definition(known)
    return {name: shown[name] for name in OVERRIDABLE}


async def _with_origins(store: Administration, known: Registered) -> Details:
    base = known.definition
    if known.base is not None:
        base = await store.definition_version(base.key, known.base) or base
    return Details(known, origins(known, base))


def _known_fields(given: Mapping[str, Any]) -> Mapping[str, Any]:
    if unknown := given.keys() - set(OVERRIDABLE):
        raise InvalidInput(
            f"{min(unknown)!r:.80} can't be set. Nothing was changed.",
            fix=f"Fields that can: {', '.join(OVERRIDABLE)}. The others belong to the code.",
        )
    return given
