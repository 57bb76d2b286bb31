"""A handler's arguments: typed by its signature, validated by Pydantic, stored as JSON.

    def sync_folder(job: Job, provider_id: str, path: str = "/")   ⇄   {"provider_id": "p_9", "path": "/"}

A Pydantic model as the single argument is the payload itself. Every stored value must come back to the handler as it
was passed: an argument that JSON would give back as something else is refused when it is enqueued.

A `SecretStr`, at any depth, makes its argument secret: the payload has its plain value, to be encrypted before it is
stored, and no message shows it.
"""

import inspect
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property
from reprlib import Repr
from typing import Annotated, Any, get_type_hints

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    Secret,
    SecretBytes,
    SecretStr,
    TypeAdapter,
    ValidationError,
    with_config,
)
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import ErrorDetails, PydanticSerializationError, core_schema, to_jsonable_python
from typing_extensions import TypedDict

from leasehold.errors import NotJson, PayloadInvalid, UnusableHandler
from leasehold.model.definition import SHOWN_PROBLEMS
from leasehold.model.payload import encode
from leasehold.model.secret_fields import MARK, SHOWN, secret_fields
from leasehold.worker.job import Job

# JSON holds values of these types as they are, so they need not be read back for a check. Most arguments are of them.
_PLAIN = frozenset({str, int, bool, type(None)})
# Bounds the text of a value in a message: an argument may be of any size or depth.
_bounded = Repr()
_bounded.maxlevel, _bounded.maxstring, _bounded.maxother = 3, 60, 80
_shown = _bounded.repr
# Defaults are stored like everything else, and a worker reads them by their types.
_STRICTLY_NAMED = ConfigDict(
    extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=False, validate_default=True
)
_SECRETS = (SecretStr, SecretBytes, Secret)
_LISTS = (list, tuple, set, frozenset, deque)
_ANY_NUMBER = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Arguments:
    """Converts the arguments of a call to a payload, and back."""

    def __init__(self, key: str, parameters: Sequence[inspect.Parameter], hints: Mapping[str, Any]) -> None:
        self._key = key
        self._parameters = parameters
        self._only_by_name = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
        self._names_by_place = [each.name for each in parameters if each.kind is not each.KEYWORD_ONLY]
        self._by_place = len(self._names_by_place)
        self._whole = _the_single_model(parameters, hints)
        self._type: TypeAdapter[Any] = TypeAdapter(self._whole) if self._whole else _type_of(key, parameters, hints)
        self._validate = self._type.validator.validate_python
        self._read = self._type.validator.validate_json

    @cached_property
    def schema(self) -> dict[str, Any]:
        schema = self._type.json_schema(by_alias=True, schema_generator=_Schema)
        _mark_secrets(schema)
        return schema

    @cached_property
    def _secret(self) -> frozenset[str]:
        return secret_fields(self.schema)

    def payload(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """Returns the payload of a call, defaults included: a job runs with the defaults of its enqueue.

        Also returns whether it surely fits the schema: types may write a value in another way than they read it.
        """
        given = self._read_given(args, kwargs) if args else kwargs
        try:
            passed: Any = self._validate_model(given) if self._whole else self._validate(given)
            if not self._whole and _PLAIN.issuperset(map(type, passed.values())):
                return passed, True
            payload = self._dump(passed)
            self._require_same(passed, self._read(encode(payload)))
        except ValidationError as error:
            raise self._misfit(self._describe(error)) from error
        return payload, False

    def fill_defaults(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the payload of a JSON object: validated, with defaults filled in."""
        try:
            return self._dump(self._read(encode(payload)))
        except ValidationError as error:
            raise self._misfit(self._describe(error)) from error

    def call(self, payload: str) -> tuple[Sequence[Any], dict[str, Any]]:
        """Reads the handler's arguments from JSON. Raises PayloadInvalid for those of another signature."""
        try:
            read = self._read(payload)
        except ValidationError as error:
            raise PayloadInvalid(
                f"{self._key}: {self._describe(error)}.",
                fix="Nothing was run: its producer and this worker have different code. "
                "Deploy workers before producers.",
            ) from error
        values = (read,) if self._whole else tuple(read.values())
        if not self._only_by_name:
            return values, {}
        return values[: self._by_place], dict(zip(self._only_by_name, values[self._by_place :], strict=True))

    # ------------------------------------------------------------------------------------------------ call → payload

    def _read_given(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        by_place = self._names_by_place
        if len(args) > len(by_place):
            raise self._misfit(f"{len(args)} arguments by position, it takes {len(by_place) or 'none'}")
        given = dict(zip(by_place, args, strict=False))
        if twice := [name for name in kwargs if name in given]:
            raise self._misfit(f"{', '.join(twice)}: given twice, by position and by name")
        return given | dict(kwargs)

    def _validate_model(self, given: Mapping[str, Any]) -> BaseModel:
        assert self._whole is not None
        (parameter,) = self._parameters
        if parameter.name in given and len(given) == 1:
            return self._whole.model_validate(given[parameter.name])
        if not given and parameter.default is not parameter.empty:
            return self._whole.model_validate(parameter.default)
        return self._whole.model_validate(given)

    def _dump(self, passed: Any) -> dict[str, Any]:
        try:
            dumped: dict[str, Any] = self._type.dump_python(passed, mode="json", by_alias=True, round_trip=True)
            if self._secret:
                shown = self._type.dump_python(passed, mode="python", by_alias=True, round_trip=True)
                # A secret that its schema does not mark stays as asterisks, which are refused.
                dumped |= {name: _reveal(shown[name], dumped[name]) for name in self._secret & dumped.keys()}
            return dumped
        except (PydanticSerializationError, ValueError) as error:  # a ValueError is a value that contains itself
            raise NotJson(
                f"{self._key}: {self._unstorable(passed) or error}.",
                fix="Nothing was enqueued. Pass an id or plain values, or annotate the argument with a type that "
                "Pydantic can write as JSON and read again.",
            ) from error

    def _unstorable(self, passed: Any) -> str | None:
        for name, value in self._fields(passed):
            try:
                TypeAdapter(Any).dump_python(value, mode="json")
            except (PydanticSerializationError, ValueError):
                shown = SHOWN if name in self._secret else _shown(value)
                return f"{name}={shown} can't be written as JSON"
        return None

    def _require_same(self, passed: Any, read: Any) -> None:
        if passed == read:
            return
        after = dict(self._fields(read))
        changed = [
            f"{name}{place}: it would come back from JSON as something else"
            if name in self._secret
            else f"{name}{place}: {_shown(was)} would come back from JSON as {_shown(now)}"
            for name, before in self._fields(passed)
            for place, was, now in changes(before, after.get(name), "")
        ]
        if changed:
            raise NotJson(
                f"{self._key}: {'; '.join(changed)}.",
                fix="Nothing was enqueued. Annotate the argument with the type it has (a bare dict or Any says "
                "nothing about what is in it), or convert it before.",
            )

    def _fields(self, passed: Any) -> Iterator[tuple[str, Any]]:
        if not self._whole:
            yield from passed.items()
            return
        for field, info in type(passed).model_fields.items():
            yield info.alias or field, getattr(passed, field)

    # ---------------------------------------------------------------------------------------------------- explaining

    def _misfit(self, why: str) -> PayloadInvalid:
        return PayloadInvalid(f"{self._key}: {why}.", fix=f"Nothing was enqueued. It takes: {self._takes()}.")

    def _takes(self) -> str:
        if self._whole:
            return f"a {self._whole.__name__} ({', '.join(self._whole.model_fields)})"
        return ", ".join(str(parameter) for parameter in self._parameters) or "no arguments"

    def _describe(self, error: ValidationError) -> str:
        """Returns Pydantic's errors in the words of every other error here."""
        problems = error.errors(include_url=False, include_context=False)
        return "; ".join(self._in_words(problem) for problem in problems[:SHOWN_PROBLEMS])

    def _in_words(self, problem: ErrorDetails) -> str:
        name, *rest = problem["loc"] or ("arguments",)
        path = "".join([str(name), *(f"[{step}]" if isinstance(step, int) else f".{step}" for step in rest)])
        if problem["type"] == "missing":
            return f"{path}: missing"
        if problem["type"] == "extra_forbidden":
            near = get_close_matches(str(name), self._names(), n=1)
            return f"{path}: unknown argument" + (f' (did you mean "{near[0]}"?)' if near and not rest else "")
        got = f", got {_shown(problem['input'])}"
        if self._secret and (str(name) in self._secret or not problem["loc"]):
            got = ""  # the input is a secret, or all arguments
        return f"{path}: {problem['msg'][0].lower()}{problem['msg'][1:]}{got}"

    def _names(self) -> list[str]:
        if self._whole:
            return [info.alias or name for name, info in self._whole.model_fields.items()]
        return [parameter.name for parameter in self._parameters]


def arguments_of(key: str, handler: Callable[..., Any]) -> Arguments:
    """Reads the arguments of a handler after the first one, which is the job."""
    parameters = list(inspect.signature(handler).parameters.values())
    try:
        hints = get_type_hints(handler, include_extras=True)
    except Exception as error:
        raise UnusableHandler(
            f"{key}: its annotations can't be read ({type(error).__name__}: {error}).",
            fix="Nothing was registered. Import what they name where the handler is, not only for type checking.",
        ) from error
    if not parameters or not _is_the_job(parameters[0], hints):
        raise UnusableHandler(
            f"{key}: its first parameter is {f'`{parameters[0]}`' if parameters else 'missing'}, not the job.",
            fix=f"Nothing was registered. Write: def {handler.__name__}(job: Job, …).",
        )
    for parameter in parameters[1:]:
        if parameter.kind in _ANY_NUMBER:
            raise UnusableHandler(
                f"{key}: `{parameter}` takes any number of arguments, and those have no names or types of their own.",
                fix="Nothing was registered. Name each argument; a list or dict can be one.",
            )
    return Arguments(key, parameters[1:], hints)


def arguments_of_model(key: str, model: type[BaseModel]) -> Arguments:
    """Makes arguments of one model, which is the whole payload, as for a class with `payload_model()`."""
    parameter = inspect.Parameter("payload", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=model)
    return Arguments(key, [parameter], {"payload": model})


def _is_the_job(parameter: inspect.Parameter, hints: Mapping[str, Any]) -> bool:
    if parameter.kind in (*_ANY_NUMBER, parameter.KEYWORD_ONLY):
        return False
    hint = hints.get(parameter.name)
    return parameter.name == "job" if hint is None else isinstance(hint, type) and issubclass(hint, Job)


def _the_single_model(parameters: Sequence[inspect.Parameter], hints: Mapping[str, Any]) -> type[BaseModel] | None:
    hint = hints.get(parameters[0].name) if len(parameters) == 1 else None
    return hint if isinstance(hint, type) and issubclass(hint, BaseModel) else None


def _type_of(key: str, parameters: Sequence[inspect.Parameter], hints: Mapping[str, Any]) -> TypeAdapter[Any]:
    """Returns a typed dict, which is the payload already: a model took three times as long to validate."""
    try:
        named = {each.name: Annotated[hints.get(each.name, Any), _field(each)] for each in parameters}
        return TypeAdapter(with_config(_STRICTLY_NAMED)(_typed_dict(key, named)))
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError) as error:
        why = str(error).partition(". ")[0]
        raise UnusableHandler(
            f"{key}: its arguments can't be taken from JSON ({why}).",
            fix="Nothing was registered. Annotate them with plain types, Pydantic models or dataclasses; pass the id "
            "of what lives in a database: it may change before the job runs.",
        ) from error


def _field(parameter: inspect.Parameter) -> Any:
    default = ... if parameter.default is parameter.empty else parameter.default
    return Field(default, alias=parameter.name, title=parameter.name)


def changes(before: Any, after: Any, place: str) -> Iterator[tuple[str, Any, Any]]:
    """Yields the places where a value changed on its way. Classes that can't compare themselves count by type."""
    if isinstance(before, BaseModel) and type(before) is type(after):
        before, after = before.__dict__, after.__dict__
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        for name in before:
            yield from changes(before[name], after[name], f"{place}[{name!r}]")
    elif isinstance(before, list | tuple) and isinstance(after, list | tuple) and len(before) == len(after):
        for index, (was, now) in enumerate(zip(before, after, strict=True)):
            yield from changes(was, now, f"{place}[{index}]")
    elif before != after and (type(before) is not type(after) or _compares(before)):
        yield place, before, after


def _compares(value: object) -> bool:
    return any("__eq__" in vars(kind) for kind in type(value).__mro__[:-1])


def _reveal(shown: Any, dumped: Any) -> Any:
    """Returns the dump with the values of secrets, which Pydantic dumps as asterisks.

    `shown` is the same value dumped to Python, where secrets are objects.
    """
    if isinstance(shown, _SECRETS):
        return to_jsonable_python(shown.get_secret_value())
    if isinstance(shown, dict) and isinstance(dumped, dict) and len(shown) == len(dumped):
        pairs = zip(shown.values(), dumped.items(), strict=True)
        return {name: _reveal(value, item) for value, (name, item) in pairs}
    if isinstance(shown, _LISTS) and isinstance(dumped, list) and len(shown) == len(dumped):
        return [_reveal(value, item) for value, item in zip(shown, dumped, strict=True)]
    return dumped


def _mark_secrets(schema: Any) -> None:
    """Marks the schemas of secrets, which Pydantic describes as passwords that are only written."""
    if isinstance(schema, dict):
        if schema.get("format") == "password" and schema.get("writeOnly") is True:
            schema[MARK] = True
        if schema.get(MARK) is True:
            schema.pop("default", None)
        for part in schema.values():
            _mark_secrets(part)
    elif isinstance(schema, list):
        for part in schema:
            _mark_secrets(part)


# Type checkers don't know typed dicts that are made while the program runs.
_typed_dict: Callable[[str, dict[str, Any]], type[Any]] = TypedDict  # type: ignore[assignment]


class _Schema(GenerateJsonSchema):
    """Uses own formats: JSON Schema's `date-time` and `time` need an offset, its `duration` takes no fractions."""

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JsonSchemaValue:
        aware = schema.get("tz_constraint") == "aware"
        return {"type": "string", "format": "date-time" if aware else "iso-date-time"}

    def timedelta_schema(self, schema: core_schema.TimedeltaSchema) -> JsonSchemaValue:
        return {"type": "string", "format": "iso-duration"}

    def time_schema(self, schema: core_schema.TimeSchema) -> JsonSchemaValue:
        return {"type": "string", "format": "iso-time"}
