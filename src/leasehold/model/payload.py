"""Payloads are plain JSON, so that other languages, the console and SQL can read them."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

import orjson

from leasehold.errors import NotJson, PayloadInvalid

MAX_BYTES = 256 * 1024
MAX_DEPTH = 32

_PLAIN = "text, numbers, true/false, null, lists and dicts with text keys"
_SCALARS = frozenset({str, int, bool, type(None)})
_TEXT = frozenset({str})


def encode(payload: Mapping[str, Any]) -> str:
    """The payload as JSON text. Raises NotJson, naming the field, for what JSON or Postgres can't hold."""
    if type(payload) is not dict:
        raise _refused("payload", f"{type(payload).__name__} is not a dict")
    text = _flat(payload)
    return _encode(payload, "payload") if text is None else text


def encode_result(result: Any) -> str:
    """A handler's return value as JSON text, by the same rules."""
    try:
        return _encode(result, "result")
    except PayloadInvalid as error:
        raise type(error)(error.happened, fix=f"The handler ran to its end. Return {_PLAIN}.") from error


def decode(text: str) -> Any:
    return orjson.loads(text)


def require_json(text: str) -> None:
    """Raises PayloadInvalid for text that Postgres would not take as JSON."""
    try:
        orjson.loads(text)
    except ValueError as error:
        raise PayloadInvalid(f"not JSON: {error}.", fix="Nothing was written. Encode it first.") from error
    if "\\u0000" in text:
        raise PayloadInvalid("the JSON has a NUL character.", fix="Nothing was written. Encode it first.")


def storable(text: str) -> bool:
    """Whether Postgres can hold it: no NUL character, no lone surrogate."""
    return "\0" not in text and (text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text))


def made_storable(text: str, most: int) -> str:
    """What was said, bounded, and with replacements for what can't be held: it is never a reason to fail."""
    if not storable(text):
        text = text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()
    return text if len(text) <= most else text[: most - 1] + "…"


def _encode(value: Any, root: str) -> str:
    _require_plain(value, root, 1)
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


def _require_plain(value: Any, path: str, depth: int) -> None:
    """orjson is lenient where we must not be: it writes NaN as null, and takes datetimes, UUIDs and dataclasses."""
    kind = type(value)
    if depth > MAX_DEPTH and kind in (dict, list, tuple):
        raise _refused(path, f"nested deeper than {MAX_DEPTH} levels")
    if kind is str:
        _require_storable(value, path)
    elif kind is dict:
        for key, item in value.items():
            if type(key) is not str:
                raise _refused(path, f"key {key!r} is {type(key).__name__}, JSON has only text keys")
            _require_storable(key, path)
            _require_plain(item, f"{path}.{key}", depth + 1)
    elif kind is list or kind is tuple:
        for index, item in enumerate(value):
            _require_plain(item, f"{path}[{index}]", depth + 1)
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
    return NotJson(f"{path}: {why}.", fix=f"Nothing was enqueued. Pass {_PLAIN}.")
