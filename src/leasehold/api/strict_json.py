"""Reads JSON that has one meaning: no duplicate keys, no NaN, no lone surrogates, no NUL, and bounded depth."""

import json
from typing import Any, NoReturn

from leasehold.errors import MalformedRequest, RequestTooLarge

MOST_DIGITS = 400


def read_json(body: bytes, depth: int) -> Any:
    """Returns the value of a body. Raises MalformedRequest."""
    if _is_deeper(body, depth):
        raise RequestTooLarge(
            f"the body is nested deeper than {depth} levels. Nothing was done.", fix="Send a flatter document."
        )
    try:
        text = body.decode("utf-8")
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_refuse_constant,
            parse_float=_float,
            parse_int=_int,
        )
    except UnicodeDecodeError as error:
        raise _malformed("it is not UTF-8") from error
    except json.JSONDecodeError as error:
        raise _malformed(f"{error.msg} at character {error.pos}") from error
    except _Refused as error:
        raise _malformed(str(error)) from error
    try:
        text.encode() if "\\u" not in text else json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise _malformed("it has a lone surrogate") from error
    if "\\u0000" in text and _has_nul(value):
        raise _malformed("it has a NUL character")
    return value


def _is_deeper(body: bytes, limit: int) -> bool:
    """Returns whether brackets are nested deeper, strings left out. Nothing is parsed before this."""
    if body.count(b"[") + body.count(b"{") <= limit:
        return False
    level = 0
    # Without escapes, every second part between quotes is a string.
    for part in body.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2]:
        for byte in part:
            if byte in b"[{":
                level += 1
                if level > limit:
                    return True
            elif byte in b"]}":
                level -= 1
    return False


class _Refused(ValueError):
    pass


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        raise _Refused(f"the key {next(name for name in names if names.count(name) > 1)!r:.80} is given twice")
    return value


def _refuse_constant(text: str) -> NoReturn:
    raise _Refused(f"{text} is not a number of JSON")


def _float(text: str) -> float:
    value = float(text) if len(text) <= MOST_DIGITS else float("inf")
    if value in (float("inf"), float("-inf")):
        raise _Refused(f"the number {text[:20]} is too large")
    return value


def _int(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise _Refused(f"the number {text[:20]}… has {len(text)} digits")
    return int(text)


def _has_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any(_has_nul(part) for pair in value.items() for part in pair)
    return isinstance(value, list) and any(map(_has_nul, value))


def _malformed(why: str) -> MalformedRequest:
    return MalformedRequest(
        f"the body can't be read as JSON: {why}. Nothing was done.", fix="Send one JSON document in UTF-8."
    )
