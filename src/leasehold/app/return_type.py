"""The type that a handler declares to return: its result is written, checked and read by it."""

from functools import cached_property
from inspect import formatannotation
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic_core import PydanticSerializationError

from leasehold.app.arguments import changes
from leasehold.app.written_fields import written_fields
from leasehold.errors import PayloadInvalid
from leasehold.model.payload import MAX_BYTES, UnfitResult, encode_result, is_huge

# JSON gives these back as they are, so that a result of exactly the declared type needs no check.
_PLAIN = (str, int, bool)


class ReturnType:
    """A result fits if a reader gets it back by the declared type, without a conversion such as "7" to 7."""

    def __init__(self, key: str, hint: Any) -> None:
        self._key = key
        self._name = formatannotation(hint)
        self._plain = hint if hint in _PLAIN else None
        self._adapter: TypeAdapter[Any] = TypeAdapter(hint)

    @staticmethod
    def of(key: str, hint: Any) -> "ReturnType | None":
        """Returns None if the handler declares no type to check a result by."""
        if hint in (Any, None, type(None)):
            return None
        try:
            return ReturnType(key, hint)
        except (PydanticSchemaGenerationError, PydanticUserError):
            return None

    def write(self, returned: Any) -> Any:
        """Returns the value that a worker stores as JSON. It refuses an UnfitResult, and a value that is not JSON."""
        if type(returned) is self._plain:
            return returned
        try:
            if self.is_huge(returned):
                return UnfitResult(f"far more than {MAX_BYTES:,} bytes of JSON, at most {MAX_BYTES:,} are kept")
            text = self._dump(returned, by_alias=False)
            why = self._misfit(returned, text)
            if why is not None and self._misfit(returned, aliased := self._dump(returned, by_alias=True)) is None:
                return orjson.loads(aliased)
        except (PydanticSerializationError, PayloadInvalid, ValueError):  # a ValueError: the value contains itself
            return returned
        except (
            Exception
        ) as error:  # a validator of the caller's own: its handler ran to the end and must not run again
            why = f"and checking what it returned raised {type(error).__name__}"
            return UnfitResult(f"{self._key} is declared to return {self._name}, {why}")
        if why is None or self._is_of_declared_type(returned):
            return orjson.loads(text)
        return UnfitResult(f"{self._key} is declared to return {self._name}, {why}")

    def is_huge(self, returned: Any) -> bool:
        return is_huge(returned, self._fields)

    def read(self, stored: Any) -> Any:
        return self._adapter.validate_json(orjson.dumps(stored))

    @cached_property
    def _fields(self) -> dict[type, tuple[str, ...]]:
        return written_fields(self._adapter.core_schema)

    def _dump(self, returned: Any, *, by_alias: bool) -> str:
        return encode_result(
            self._adapter.dump_python(returned, mode="json", round_trip=True, warnings="none", by_alias=by_alias)
        )

    def _is_of_declared_type(self, returned: Any) -> bool:
        """Returns whether a value fits whose JSON does not lead back to it, as of a model with an excluded field."""
        try:
            self._adapter.validate_python(returned, strict=True)
        except Exception:
            return False
        return True

    def _misfit(self, returned: Any, text: str) -> str | None:
        """Reads strictly, as JSON is: a date is a text, a tuple is a list. Types with their own format, such as a
        dict with numbers as keys, are read as they will be later, and compared.
        """
        try:
            self._adapter.validate_json(text, strict=True)
            return None
        except ValidationError as error:
            problem = error.errors(include_url=False, include_context=False)[0]
        try:
            if not any(changes(returned, self._adapter.validate_json(text), "")):
                return None
        except ValidationError:
            pass
        place = "".join(f"[{step!r}]" for step in problem["loc"])
        return (
            f"and returned {text if len(text) <= 80 else text[:79] + '…'} ({type(returned).__name__}): "
            f"{place}{': ' if place else ''}{problem['msg'][0].lower()}{problem['msg'][1:]}"
        )
