"""Reads the fields of JSON documents strictly. Each error names the document, the field and the reason."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from leasehold.errors import InvalidInput
from leasehold.model.bounds import LONGEST, MAX_INTEGER, problems_of_text
from leasehold.model.job import Claim

T = TypeVar("T")


class FieldReader:
    """Reads the fields of one document. Each error names the document and the field."""

    def __init__(self, what: str, document: Any) -> None:
        self._what = what
        if not isinstance(document, dict):
            raise self._problem(f"it is {type(document).__name__}, and an object is needed")
        self._document = document

    def value(self, name: str, read: Callable[[Any], T]) -> T:
        if name not in self._document:
            raise self._problem(f"{name} is missing")
        try:
            return read(self._document[name])
        except InvalidInput as error:
            raise self._problem(f"{name}: {error.happened}") from error
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise self._problem(f"{name}={self._document[name]!r:.80} can't be used ({error!s:.120})") from error

    def optional(self, name: str, read: Callable[[Any], T]) -> T | None:
        return None if self._document.get(name) is None else self.value(name, read)

    def text(self, name: str, most: int | None = 1000) -> str:
        found = self.value(name, read_text)
        if most is not None and (problems := list(problems_of_text(name, found, most))):
            raise self._problem(problems[0])
        return found

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(read_text(each) for each in self.list(name))

    def integer(self, name: str, least: int, most: int = MAX_INTEGER) -> int:
        found = self.value(name, read_integer)
        if not least <= found <= most:
            raise self._problem(f"{name}={found!s:.40} is not between {least} and {most}")
        return found

    def number(self, name: str) -> float:
        return self.value(name, read_number)

    def truth(self, name: str) -> bool:
        return self.value(name, read_truth)

    def duration(self, name: str) -> timedelta:
        return self.value(name, read_seconds)

    def list(self, name: str) -> Sequence[Any]:
        return self.value(name, read_list)

    def chosen(self, name: str, claims: Sequence[Claim]) -> frozenset[Claim]:
        """Returns the claims at these places."""
        places = self.list(name)
        if not all(isinstance(place, int) and 0 <= place < len(claims) for place in places):
            raise self._problem(f"{name} has a place beyond the {len(claims)} that were sent")
        return frozenset(claims[place] for place in places)

    def _problem(self, why: str) -> InvalidInput:
        return InvalidInput(f"The {self._what} can't be read: {why}.", fix="Nothing was changed. Correct the value.")


def read_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("it is not text")
    return value


def read_integer(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError("it is not a whole number")
    return value


def read_number(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError("it is not a number")
    return float(value)


def read_truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("it is neither true nor false")
    return value


def read_list(value: Any) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise TypeError("it is not a list")
    return value


def read_mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("it is not an object")
    return value


def read_seconds(value: Any) -> timedelta:
    length = timedelta(seconds=read_number(value))
    if not timedelta() <= length <= LONGEST:
        raise ValueError(f"it is not between 0 and {LONGEST.days} days")
    return length
