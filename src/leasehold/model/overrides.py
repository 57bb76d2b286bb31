"""Overrides: fields of a definition that administrators set, kept apart from the content that code declares.

The content of a definition is that of its code with the overrides applied. A sync replaces the code's part and keeps
the overrides. A definition that an administrator creates has the defaults in place of code.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from leasehold.errors import ChangedMeanwhile, InvalidInput, WrongState
from leasehold.model.backoff import Backoff, Exponential, Steps, backoff_from_json
from leasehold.model.bounds import MAX_TEXT, problems_of_text
from leasehold.model.definition import Definition, Override, Registered, Retention
from leasehold.model.duration import as_duration, read_duration
from leasehold.model.secret_fields import MARK, secret_fields

CONTENT = ("description", "schema", "timeout", "max_attempts", "backoff", "retention")
ACTIVE = "active"
OVERRIDABLE = (*CONTENT, ACTIVE)

Overrides = Mapping[str, Override]


@dataclass(frozen=True, slots=True)
class OverrideChange:
    """A change by an administrator: values to set, fields to reset to those of the code, and who does it."""

    values: Mapping[str, Any]
    reset: frozenset[str]
    by: str

    def __post_init__(self) -> None:
        if unknown := [name for name in (*self.values, *self.reset) if name not in OVERRIDABLE]:
            raise InvalidInput(
                f"{unknown[0]!r:.80} can't be overridden. Nothing was changed.",
                fix=f"Fields that can: {', '.join(OVERRIDABLE)}. The others belong to the code.",
            )
        if problems := [*problems_of_text("by", self.by, MAX_TEXT, least=1)]:
            raise InvalidInput(
                f"The override can't be used: {'; '.join(problems)}.", fix="Nothing was changed. Name who sets it."
            )

    def apply(self, before: Overrides, at: datetime) -> dict[str, Override]:
        """Returns the overrides after this change. A value that is set again as it was keeps its origin."""
        kept = {name: override for name, override in before.items() if name not in self.reset}
        new = {
            name: Override(value, self.by, at)
            for name, value in self.values.items()
            if name not in kept or kept[name].value != value
        }
        return kept | new


def effective(base: Definition, overrides: Overrides) -> Definition:
    """Returns the content of the code with the overrides applied. Fields that the code keeps secret stay secret."""
    values = {name: overrides[name].value for name in CONTENT if name in overrides}
    if "schema" in values:
        values["schema"] = _keep_marks(values["schema"], base.schema)
    return replace(base, **values) if values else base


def overridden(base: Definition, overrides: Overrides) -> dict[str, tuple[Any, Any]]:
    """Returns the fields that stay overridden, each with the value of the code and that of the administrator."""
    applied = effective(base, overrides)
    return {name: (getattr(base, name), getattr(applied, name)) for name in CONTENT if name in overrides}


def is_active(known: Registered, change: OverrideChange) -> bool:
    """Returns whether the definition is active after the change."""
    return bool(change.values.get(ACTIVE, True if ACTIVE in change.reset else known.active))


def plan_override(known: Registered, base: Definition, change: OverrideChange, at: datetime) -> dict[str, Override]:
    """Returns the overrides after a change. Raises InvalidInput if the definition could not be used with them."""
    if unreadable := [problem for problem in known.unreadable if problem.startswith("overrides ")]:
        raise WrongState(
            f"the definition {known.definition.key!r} has overrides that this release can't read: {unreadable[0]}. "
            "Nothing was changed.",
            fix="Change it with a newer release.",
        )
    after = change.apply(known.overrides, at)
    applied = effective(base, after)
    applied.check_registrable()
    if known.declared and (marked := applied.secret_fields - base.secret_fields):
        raise InvalidInput(
            f"the schema marks {min(marked)!r} as secret, and the code does not: producers would not encrypt it. "
            "Nothing was changed.",
            fix="Mark the field in the code, as a SecretStr.",
        )
    return after


def require_revision(known: Registered, expected: int | None) -> None:
    """Raises ChangedMeanwhile unless the definition still has the revision that an administrator has seen."""
    if expected is not None and known.revision != expected:
        told = ChangedMeanwhile(
            f"the definition {known.definition.key!r} is at revision {known.revision}, and the change was made for "
            f"revision {expected}. Nothing was changed.",
            fix="Read it again, and repeat the change if it is still right.",
        )
        told.revision = known.revision
        raise told


def already_exists(key: str) -> WrongState:
    return WrongState(
        f"a definition with the key {key!r} exists. Nothing was changed.",
        fix="Choose another key, or change that definition: leasehold definitions set",
    )


def _keep_marks(schema: Mapping[str, Any], base: Mapping[str, Any] | None) -> Mapping[str, Any]:
    lost = secret_fields(base) - secret_fields(schema)
    if not lost:
        return schema
    marked: dict[str, Any] = deepcopy(dict(schema))
    fields = marked.setdefault("properties", {})
    for name in lost:
        known = fields.get(name)
        fields[name] = {**(known if isinstance(known, dict) else {}), MARK: True}
    return marked


# ------------------------------------------------------------------------------------------------- values of callers


def read_values(given: Mapping[str, Any], known: Definition) -> dict[str, Any]:
    """Reads values as Python, JSON and the command line have them. Raises InvalidInput.

    A retention may name only some statuses; the others stay as they are in `known`.
    """
    return {name: _read(name, value, known) for name, value in given.items()}


def _read(name: str, value: Any, known: Definition) -> Any:
    match name:
        case "timeout":
            return read_duration(value)
        case "backoff":
            return _read_backoff(value)
        case "retention" if isinstance(value, Mapping):
            return _read_retention(value, known.retention)
    if name == "schema" and not isinstance(value, Mapping):
        raise _unusable(name, value, "a JSON Schema")
    if name == ACTIVE and not isinstance(value, bool):
        raise _unusable(name, value, "true or false")
    if name == "retention" and not isinstance(value, Retention):
        raise _unusable(name, value, 'durations by status, as in {"succeeded": "7d"}')
    return value


def _read_backoff(value: Any) -> Backoff:
    if isinstance(value, Exponential | Steps):
        return value
    try:
        return backoff_from_json(value)
    except (TypeError, KeyError) as error:
        raise _unusable("backoff", value, '{"base", "factor", "cap", "jitter"} or {"steps": [30, 300]}') from error


def _read_retention(value: Mapping[str, Any], known: Retention) -> Retention:
    try:
        return Retention(**{**asdict(known), **value})
    except TypeError as error:
        raise _unusable("retention", value, "durations of succeeded, canceled, failed and dead_letter") from error


def _unusable(name: str, value: Any, wanted: str) -> InvalidInput:
    return InvalidInput(f"{name}={value!r:.80} is not {wanted}.", fix="Nothing was changed. Correct the value.")


# -------------------------------------------------------------------------------------------------------- as stored


def as_json(overrides: Overrides) -> dict[str, Any]:
    return {
        name: {"value": _plain(override.value), "by": override.by, "at": override.at.astimezone(UTC).isoformat()}
        for name, override in overrides.items()
    }


def from_json(stored: Any) -> tuple[dict[str, Override], tuple[str, ...]]:
    """Reads overrides. Also returns what this release can't read of them; a newer one may have written it."""
    found: dict[str, Override] = {}
    problems: list[str] = []
    for name, entry in dict(stored or {}).items():
        try:
            value = _READERS.get(name, _as_it_is)(entry["value"])
            found[name] = Override(value, str(entry["by"]), datetime.fromisoformat(entry["at"]))
            Definition("any", **{name: value} if name in CONTENT else {})
            if name not in OVERRIDABLE:
                raise ValueError("the field is unknown")
        except Exception as error:
            found.pop(name, None)
            problems.append(f"overrides {name} can't be read ({type(error).__name__}: {error!s:.120})")
    return found, tuple(problems)


def _plain(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Exponential | Steps):
        return value.as_json()
    if isinstance(value, Retention):
        return {status: _plain(keep) for status, keep in asdict(value).items()}
    return value


def _as_it_is(value: Any) -> Any:
    return value


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "timeout": as_duration,
    "backoff": backoff_from_json,
    "retention": lambda stored: Retention(**stored),
}


# ------------------------------------------------------------------------------------------------------------ origin


@dataclass(frozen=True, slots=True)
class FieldOrigin:
    """Where the value of a field comes from: `code`, `admin`, or `default` if nothing has set it.

    `base` is the value that a reset restores.
    """

    field: str
    origin: str
    value: Any
    base: Any
    by: str | None = None
    at: datetime | None = None


def origins(known: Registered, base: Definition) -> Sequence[FieldOrigin]:
    """Returns the origin of each field that can be overridden."""
    source = "code" if known.declared else "default"
    found = [_origin(name, known, getattr(known.definition, name), getattr(base, name), source) for name in CONTENT]
    return [*found, _origin(ACTIVE, known, known.active, True, "default" if known.active else "admin")]


def _origin(name: str, known: Registered, value: Any, base: Any, source: str) -> FieldOrigin:
    override = known.overrides.get(name)
    if override is None or (name == ACTIVE and override.value != value):
        return FieldOrigin(name, source, value, base)
    return FieldOrigin(name, "admin", value, base, override.by, override.at)
