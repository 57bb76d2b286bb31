"""Payloads are plain JSON, so that other languages, the console and SQL can read them."""

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import orjson

from leasehold.errors import InvalidInput, NotJson, PayloadInvalid
from leasehold.model.bounds import storable

MAX_BYTES = 256 * 1024
MAX_DEPTH = 32
MAX_SCHEMA_DEPTH = 100
SHOWN_PATH = 300

_PLAIN = "text, numbers, true/false, null, lists and dicts with text keys"
_SCALARS = frozenset({str, int, bool, type(None)})
_TEXT = frozenset({str})
_COLLECTIONS = frozenset({list, tuple, dict, set, frozenset, deque})
_NO_FIELDS: dict[type, Sequence[str]] = {}
# A NUL character as JSON writes it. After an even number of backslashes the u is a letter: "\\\\u0000" is plain text.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def encode(payload: Mapping[str, Any]) -> str:
    """The payload as JSON text. Raises NotJson, naming the field, for what JSON or Postgres can't hold."""
    if type(payload) is not dict:
        raise _refused("payload", f"{type(payload).__name__} is not a dict")
    text = _flat(payload)
    return _encode(payload, "payload") if text is None else text


@dataclass(frozen=True, slots=True)
class UnfitResult:
    """Stands for a return value that does not fit the type which its handler declares to return."""

    why: str


def encode_result(result: Any) -> str:
    """A handler's return value as JSON text, by the same rules. Raises PayloadInvalid for an UnfitResult."""
    if type(result) is UnfitResult:
        raise PayloadInvalid(
            f"result: {result.why}. The handler ran to its end and is not run again: what it did may have happened.",
            fix="Return what is declared, or declare what is returned. Nothing was kept.",
        )
    try:
        if is_huge(result):
            raise PayloadInvalid(
                f"result: far more than {MAX_BYTES:,} bytes of JSON, at most {MAX_BYTES:,} are kept.",
                fix="Store the data elsewhere and return where it is. Nothing was kept.",
            )
        return _encode(result, "result")
    except PayloadInvalid as error:
        raise type(error)(error.happened, fix=f"The handler ran to its end. Return {_PLAIN}.") from error


def is_huge(value: Any, fields: Mapping[type, Sequence[str]] = _NO_FIELDS) -> bool:
    """Whether the value can't fit into a result: known after a bounded look, which costs some 10 ms at most.

    A worker's loop stood still for 3.8 s while it looked at each of 10 million items. An item takes two bytes of JSON
    at least, and a character one: what passes here is measured to the byte by its encoding. `fields` names what is
    written of models and dataclasses; an object of another class is not looked into.
    """
    left, to_see = 2 * MAX_BYTES, [value]
    while to_see:
        seen = to_see.pop()
        kind = type(seen)
        if kind is str or kind is bytes:
            left -= len(seen)
        elif kind in _COLLECTIONS:
            left -= 4 * len(seen)
            if left >= 0:
                to_see.extend((*seen, *seen.values()) if kind is dict else seen)
        elif kind in fields:
            left -= 4 * len(fields[kind])
            to_see.extend([getattr(seen, name, None) for name in fields[kind]])
        if left < 0:
            return True
    return False


def require_schema(schema: Any) -> None:
    """Raises InvalidInput for a JSON Schema that can't be stored as JSON."""
    try:
        _encode(schema, "schema", MAX_SCHEMA_DEPTH)
    except PayloadInvalid as error:
        raise InvalidInput(
            f"The schema can't be used: {error.happened}", fix="Nothing was changed. Correct the schema."
        ) from error


def decode(text: str) -> Any:
    return orjson.loads(text)


def require_json(text: str) -> None:
    """Raises PayloadInvalid for text that Postgres would not take as JSON."""
    try:
        orjson.loads(text)
    except ValueError as error:
        raise PayloadInvalid(f"not JSON: {error}.", fix="Nothing was written. Encode it first.") from error
    if "\\u0000" in text and _NUL.search(text):
        raise PayloadInvalid("the JSON has a NUL character.", fix="Nothing was written. Encode it first.")


def made_storable(text: str, most: int) -> str:
    """What was said, bounded, and with replacements for what can't be held: it is never a reason to fail."""
    if not storable(text):
        text = text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()
    return text if len(text) <= most else text[: most - 1] + "…"


def _encode(value: Any, root: str, deepest: int = MAX_DEPTH) -> str:
    _require_plain(value, root, 1, deepest)
    text = orjson.dumps(value)
    if len(text) > MAX_BYTES:
        raise PayloadInvalid(
            f"{root}: {len(text):,} bytes of JSON, at most {MAX_BYTES:,} are kept.",
            fix="Nothing was enqueued. Store the data elsewhere and pass where it is.",
        )
    return text.decode()


def _flat(payload: dict[Any, Any]) -> str | None:
    """What most payloads are, a dict of a few scalars: 0.8 µs instead of 2.4. None: it is to be looked at closely."""
    if not (_TEXT.issuperset(map(type, payload)) and _SCALARS.issuperset(map(type, payload.values()))):
        return None
    try:
        text = orjson.dumps(payload)
    except TypeError:  # a lone surrogate, or an integer beyond 64 bits
        return None
    return None if b"\\u0000" in text or len(text) > MAX_BYTES else text.decode()


def _require_plain(value: Any, path: str, depth: int, deepest: int) -> None:
    """orjson is lenient where we must not be: it writes NaN as null, and takes datetimes, UUIDs and dataclasses."""
    kind = type(value)
    if depth > deepest and kind in (dict, list, tuple):
        raise _refused(path, f"nested deeper than {deepest} levels")
    if kind is str:
        _require_storable(value, path)
    elif kind is dict:
        for key, item in value.items():
            if type(key) is not str:
                raise _refused(path, f"key {key!r:.80} is {type(key).__name__}, JSON has only text keys")
            _require_storable(key, path)
            _require_plain(item, f"{path}.{key}", depth + 1, deepest)
    elif kind is list or kind is tuple:
        for index, item in enumerate(value):
            _require_plain(item, f"{path}[{index}]", depth + 1, deepest)
    elif kind is float:
        if not isfinite(value):
            raise _refused(path, f"{value} is not a JSON number")
    elif kind is int:
        if not -(2**63) <= value < 2**64:
            raise _refused(path, "an integer beyond 64 bits, which most readers of JSON would round")
    elif kind is not bool and value is not None:
        raise _refused(path, f"{kind.__name__} is not JSON")


def _require_storable(text: str, path: str) -> None:
    if not storable(text):
        why = (
            "a NUL character, which Postgres can't store"
            if "\0" in text
            else "a lone surrogate, which is not Unicode"
        )
        raise _refused(path, f"the text has {why}")


def _refused(path: str, why: str) -> NotJson:
    return NotJson(f"{path[:SHOWN_PATH]}: {why}.", fix=f"Nothing was enqueued. Pass {_PLAIN}.")
