"""Definitions: the kinds of jobs that may be enqueued. Each job pins the version that it was enqueued with."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from difflib import get_close_matches
from enum import StrEnum
from functools import lru_cache
from itertools import islice
from typing import Any

import jsonschema_rs
import orjson

from leasehold.errors import InvalidInput, PayloadInvalid, UnknownDefinition
from leasehold.model import backoff as backoffs
from leasehold.model.backoff import Backoff, Exponential, Steps
from leasehold.model.bounds import (
    LONGEST_RETENTION,
    MAX_DESCRIPTION,
    MAX_PRIORITY,
    MIN_PRIORITY,
    problems_of_duration,
    problems_of_integer,
    problems_of_text,
)
from leasehold.model.duration import Duration, as_duration
from leasehold.model.hidden import escape_hidden, problem_of_name
from leasehold.model.payload import require_schema
from leasehold.model.payload_problems import describe_problem, message_of, shorten
from leasehold.model.schema_load import SchemaLoad, count_values, load_of
from leasehold.model.secret_fields import SHOWN, problem_of_marks, secret_fields, secret_values
from leasehold.model.status import Status

MAX_KEY = 100
DEFAULT_PRIORITY = 100
SHOWN_PROBLEMS = 20
# A payload with more values than this has only its first problem shown.
ALL_PROBLEMS_SHOWN = 10_000
SHOWN_VALUE = 120


class OnExhausted(StrEnum):
    """The status of a job whose tries are used up."""

    DEAD_LETTER = "dead_letter"
    FAILED = "failed"


_RETAINED = ("succeeded", "canceled", "failed", "dead_letter")


@dataclass(frozen=True, slots=True)
class Retention:
    """How long ended jobs are kept, as in Retention("7d"); None: forever."""

    succeeded: timedelta | None = timedelta(days=30)
    canceled: timedelta | None = timedelta(days=30)
    failed: timedelta | None = None
    dead_letter: timedelta | None = None

    def __init__(
        self,
        succeeded: Duration | None = timedelta(days=30),
        canceled: Duration | None = timedelta(days=30),
        failed: Duration | None = None,
        dead_letter: Duration | None = None,
    ) -> None:
        given = zip(_RETAINED, (succeeded, canceled, failed, dead_letter), strict=True)
        kept = {name: as_duration(length) for name, length in given}
        if problems := [
            problem
            for name, length in kept.items()
            if length is not None
            for problem in problems_of_duration(name, length, most=LONGEST_RETENTION)
        ]:
            raise InvalidInput(
                f"The retention can't be used: {'; '.join(problems)}.",
                fix='Nothing was registered. Use "0s" to keep nothing, None to keep forever.',
            )
        for name, length in kept.items():
            object.__setattr__(self, name, length)

    def keep(self, status: Status) -> timedelta | None:
        kept: timedelta | None = getattr(self, status.value)
        return kept


@dataclass(frozen=True, slots=True)
class Definition:
    """A kind of job as the code declares it. Definitions with equal content are the same version."""

    key: str
    description: str = ""
    schema: Mapping[str, Any] | None = field(default=None, hash=False)
    timeout: timedelta = timedelta(hours=1)
    max_attempts: int = backoffs.DEFAULT.max_attempts
    backoff: Backoff = backoffs.DEFAULT.backoff
    priority: int = DEFAULT_PRIORITY
    retention: Retention = Retention()
    on_exhausted: OnExhausted = OnExhausted.DEAD_LETTER
    durable_claims: bool = False
    """A claim is on disk before its worker starts the job; else a database crash may undo it."""
    _made: "_Checker | None" = field(default=None, init=False, repr=False, compare=False)
    _secret_fields: frozenset[str] | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "timeout", as_duration(self.timeout))
        if problems := list(self._wrong_types()) or list(self._problems()):
            raise InvalidInput(
                f"The definition {self.key!r:.120} can't be used: {'; '.join(problems)}.",
                fix="Nothing was registered. Correct the definition.",
            )
        # Callers may write on_exhausted="failed".
        object.__setattr__(self, "on_exhausted", OnExhausted(self.on_exhausted))

    def _wrong_types(self) -> Iterator[str]:
        for name, kinds in _TYPES.items():
            value = getattr(self, name)
            if not isinstance(value, kinds):
                yield f"{name}={value!r:.80} is not {' or '.join(kind.__name__ for kind in kinds)}"

    def _problems(self) -> Iterator[str]:
        yield from problems_of_text("key", self.key, MAX_KEY, least=1)
        yield from problems_of_text("description", self.description, MAX_DESCRIPTION)
        yield from problems_of_duration("timeout", self.timeout, above=True)
        yield from problems_of_integer("max_attempts", self.max_attempts, 1, note=", it counts the first try")
        yield from problems_of_integer("priority", self.priority, MIN_PRIORITY, MAX_PRIORITY)
        if self.on_exhausted not in set(OnExhausted):
            yield f"on_exhausted={self.on_exhausted!r} is neither 'dead_letter' nor 'failed'"

    def check_registrable(self) -> None:
        """Raises InvalidInput for a key or a schema that can't be registered. Stored definitions are not checked."""
        if hidden := problem_of_name(self.key):
            raise InvalidInput(
                f"The definition {escape_hidden(self.key):.120} can't be used: {hidden}.",
                fix="Nothing was registered. Leave that character out of its key.",
            )
        if self.schema is not None:
            require_schema(dict(self.schema) if isinstance(self.schema, Mapping) else self.schema)
            self._checker()
            if problem := problem_of_marks(orjson.loads(_as_json(self.schema))):
                raise InvalidInput(
                    f"The definition {self.key!r:.120} can't be used: {problem}.",
                    fix="Nothing was registered. Mark fields of the payload.",
                )

    @property
    def secret_fields(self) -> frozenset[str]:
        """The fields of its payloads that are stored encrypted."""
        if self._secret_fields is None:
            object.__setattr__(self, "_secret_fields", secret_fields(self.schema))
        assert self._secret_fields is not None
        return self._secret_fields

    def _checker(self) -> "_Checker":
        """Returns the validator, created once: a lookup by the schema's text took as long as the check itself."""
        if self._made is None:
            object.__setattr__(self, "_made", _checker_for(_as_json(self.schema or {})))
        assert self._made is not None
        return self._made

    def check(
        self, payload: Mapping[str, Any], counts: Callable[[jsonschema_rs.ValidationError], bool] | None = None
    ) -> None:
        """Raises PayloadInvalid with the fields that do not fit (at most 20) and the nearest known names.

        With `counts`, only the errors for which it returns true are looked at.
        """
        if self.schema is None:
            return
        checker = self._checker()
        if why := checker.load.refuses(payload):
            raise PayloadInvalid(
                f"{self.key}: payload: {why}.",
                fix=f"Nothing was enqueued. Send less. Its schema: leasehold definitions show {self.key}",
            )
        try:
            if checker.validator.is_valid(payload):
                return
            errors = checker.errors(payload)
            errors = filter(counts, errors) if counts else errors
            described = (line for error in errors for line in describe_problem(error, self.schema))
            found = self._hide_secrets(described, payload) if self.secret_fields else described
            problems = [shorten(line) for line in islice(found, SHOWN_PROBLEMS)]
            problems += ["and more"] if next(found, None) else []
        except ValueError as error:  # not JSON, or nested infinitely
            problems = [f"payload: {error}"]
        if problems:
            raise PayloadInvalid(
                f"{self.key}: {'; '.join(problems)}.",
                fix=f"Nothing was enqueued. Its schema: leasehold definitions show {self.key}",
            )

    def problems_by_place(self, payload: Mapping[str, Any]) -> list[tuple[tuple[str | int, ...], str]]:
        """Returns the fields that do not fit, at most 20: each with its path and the reason, for a form.

        A field that is missing has the path that it would have. `check` says the same in one message.
        """
        if self.schema is None or self._checker().load.refuses(payload):
            return []
        try:
            errors = list(islice(self._checker().errors(payload), SHOWN_PROBLEMS))
        except ValueError as refused:  # not JSON, or nested infinitely
            return [((), shorten(str(refused)))]
        found = []
        for error in errors:
            missing = getattr(error.kind, "property", None)
            path = (*error.instance_path, *((missing,) if missing is not None else ()))
            text = "is required" if missing is not None else message_of(error)
            (hidden,) = self._hide_secrets(iter([text]), payload) if self.secret_fields else [text]
            found.append((path, shorten(hidden)))
        return found

    def _hide_secrets(self, lines: Iterator[str], payload: Mapping[str, Any]) -> Iterator[str]:
        """Removes secret values from messages, which quote the values that do not fit."""
        values = sorted(secret_values(self.schema, payload), key=len, reverse=True)
        for line in lines:
            for value in filter(None, values):
                for form in (value, _as_text(value)):
                    line = line.replace(form, SHOWN)
            yield line


_TYPES: Mapping[str, tuple[type, ...]] = {
    "key": (str,),
    "description": (str,),
    "schema": (Mapping, type(None)),
    "max_attempts": (int,),
    "backoff": (Exponential, Steps),
    "priority": (int,),
    "retention": (Retention,),
    "on_exhausted": (str,),
    "durable_claims": (bool,),
}


@dataclass(frozen=True, slots=True)
class Override:
    """The value of one field that an administrator has set in place of the code's; see overrides.py."""

    value: Any
    by: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Registered:
    """A definition as the database stores it: the content of the code, with the overrides of administrators applied.

    `unreadable` lists the fields that this release can't read, for example because a newer release wrote them;
    `definition` has defaults in their place. It is shown and its jobs run, but no definition in the code equals it.

    overrides  by field; `active` may be among them, although it is not a field of a definition
    revision   counts the changes by administrators
    base       the version without overrides; None if it is this version
    declared   code has registered it; otherwise an administrator has created it
    """

    definition: Definition
    version: int
    active: bool
    unreadable: tuple[str, ...] = ()
    overrides: Mapping[str, Override] = field(default_factory=dict, hash=False)
    revision: int = 0
    base: int | None = None
    declared: bool = True


@dataclass(frozen=True, slots=True)
class Change:
    """The result of a sync for one definition: `version` has the content of the code, and is current now.

    `fields` maps each field that differs from the previous version to (before, after). If it is empty and `created`
    is false, the sync changed nothing. `overridden` maps each field that stays as an administrator has set it to
    (value of the code, value of the administrator); `revision` counts the changes by administrators.
    """

    key: str
    version: int
    fields: Mapping[str, tuple[Any, Any]]
    created: bool
    overridden: Mapping[str, tuple[Any, Any]] = field(default_factory=dict, hash=False)
    revision: int = field(default=0, compare=False)


def differences(before: Definition, after: Definition) -> dict[str, tuple[Any, Any]]:
    """Returns the fields that a sync would change, each with the old and the new value."""
    pairs = ((f.name, getattr(before, f.name), getattr(after, f.name)) for f in fields(Definition) if f.compare)
    return {name: (old, new) for name, old, new in pairs if old != new}


def describe_changes(changes: Sequence[Change]) -> list[str]:
    """Returns one line of text for each definition that is new or different."""
    return [_describe_change(change) for change in changes if change.created or change.fields]


def _describe_change(change: Change) -> str:
    if change.created:
        return f"{change.key}: registered as version {change.version}"
    fields = [f"{name}: {_short(before)} → {_short(after)}" for name, (before, after) in change.fields.items()]
    fields += [
        f"{name} stays {_short(kept)}, set by an administrator" for name, (_, kept) in change.overridden.items()
    ]
    return f"{change.key}: now version {change.version} ({'; '.join(fields)})"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= SHOWN_VALUE else text[: SHOWN_VALUE - 1] + "…"


IF_IT_IS_NEW = "If it is new in the code, run: leasehold definitions sync app.py"


def unknown_definition(key: str, known: Sequence[str]) -> UnknownDefinition:
    """Returns the error for an enqueue."""
    return UnknownDefinition(f"{_not_among(key, known)} Nothing was enqueued.", fix=IF_IT_IS_NEW)


def no_such_definition(key: str, known: Sequence[str]) -> UnknownDefinition:
    """Returns the error for a call about the definition itself."""
    return UnknownDefinition(f"{_not_among(key, known)} Nothing was changed.", fix=IF_IT_IS_NEW)


def _not_among(key: str, known: Sequence[str]) -> str:
    near = get_close_matches(key, known, n=1)
    hint = f' Did you mean "{near[0]}"?' if near else ""
    more = f" (+{len(known) - 5})" if len(known) > 5 else ""
    return f'no definition has the key "{escape_hidden(key)}".{hint} Known: {", ".join(known[:5]) or "none"}{more}.'


def _as_text(value: str) -> str:
    """Returns the text as JSON shows it, without its quotes."""
    return orjson.dumps(value).decode()[1:-1]


def _as_json(schema: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(schema, option=orjson.OPT_SORT_KEYS)
    except TypeError as error:
        raise _unusable_schema(error) from error


@dataclass(frozen=True, slots=True)
class _Checker:
    validator: jsonschema_rs.Draft202012Validator
    load: SchemaLoad

    def errors(self, payload: Any) -> Iterator[jsonschema_rs.ValidationError]:
        """Returns the errors of a payload; of a large one only the first: the validator makes all of them at once."""
        if count_values(payload, ALL_PROBLEMS_SHOWN) <= ALL_PROBLEMS_SHOWN:
            return iter(self.validator.iter_errors(payload))
        try:
            self.validator.validate(payload)
        except jsonschema_rs.ValidationError as error:
            return iter([error])
        return iter(())


@lru_cache(maxsize=1024)
def _checker_for(schema: bytes) -> _Checker:
    """Makes a validator that checks formats, matches patterns in linear time, and never fetches a remote `$ref`."""
    read = orjson.loads(schema)
    load = load_of(read)
    try:
        validator = jsonschema_rs.Draft202012Validator(
            read,
            validate_formats=True,
            pattern_options=jsonschema_rs.RegexOptions(),
            retriever=_deny_remote,
        )
        return _Checker(validator, load)
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
        raise _unusable_schema(error) from error


def _unusable_schema(error: Exception) -> InvalidInput:
    why = getattr(error, "message", error)
    return InvalidInput(f"The schema can't be used: {why}.", fix="Nothing was changed. Correct the schema.")


def _deny_remote(uri: str) -> Any:
    raise ValueError(f"remote reference {uri} refused: a schema must not refer to other documents")
