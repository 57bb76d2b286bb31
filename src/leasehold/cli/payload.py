"""Reads payloads: `k=v` and `k:=json` words, or JSON from the command line, a file or stdin."""

import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from leasehold.errors import InvalidInput, PayloadInvalid

Schema = Mapping[str, Any]
Payload = dict[str, Any]

NOTHING_ENQUEUED = "Nothing was enqueued."


def read_words(words: Sequence[str], schema: Schema | None) -> Payload:
    """Reads `k=v` as text if the schema takes text for k, else as JSON; `k:=v` is always JSON."""
    payload: Payload = {}
    for word in words:
        name, equals, value = word.partition("=")
        is_json, name = name.endswith(":"), name.removesuffix(":")
        if not (equals and name):
            raise InvalidInput(
                f"{word!r} is not a field of a payload.", fix=f"{NOTHING_ENQUEUED} Write name=text or name:=JSON."
            )
        if name in payload:
            raise InvalidInput(f"{name} is given twice.", fix=f"{NOTHING_ENQUEUED} Leave one of them out.")
        payload[name] = value if not is_json and takes_text(schema, name) else _read_value(word, name, value)
    return payload


def _read_value(word: str, name: str, value: str) -> Any:
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError as error:
        quoted = orjson.dumps(value).decode()
        raise PayloadInvalid(
            f"{word}: {value!r} is not JSON, and {name} takes no other text.",
            fix=f"{NOTHING_ENQUEUED} Write a number, true, null or other JSON; text in quotes: {name}:='{quoted}'.",
        ) from error


def takes_text(schema: Schema | None, name: str) -> bool:
    """Returns whether the schema takes a string for this field. A field that it does not mention takes anything."""
    if schema is None:
        return True
    whole = _resolve(schema, schema)
    field = whole.get("properties", {}).get(name, whole.get("additionalProperties", True))
    return _allows_text(field, schema, depth=0)


def _allows_text(field: Any, root: Schema, depth: int) -> bool:
    if not isinstance(field, Mapping) or depth > _DEEPEST:
        return True
    field = _resolve(field, root)
    kinds = field.get("type", "string")
    choices = field.get("enum", [field["const"]] if "const" in field else [""])
    either = field.get("anyOf") or field.get("oneOf") or [True]
    return (
        "string" in ([kinds] if isinstance(kinds, str) else kinds)
        and any(isinstance(choice, str) for choice in choices)
        and any(_allows_text(option, root, depth + 1) for option in either)
        and all(_allows_text(option, root, depth + 1) for option in field.get("allOf", []))
    )


def _resolve(schema: Schema, root: Schema) -> Schema:
    """Follows `#/…` references, as Pydantic writes them, and no others."""
    for _ in range(_DEEPEST):
        reference = schema.get("$ref", "")
        if not reference.startswith("#/"):
            break
        found: Any = root
        for step in reference.removeprefix("#/").split("/"):
            found = found.get(step, {}) if isinstance(found, Mapping) else {}
        schema = found if isinstance(found, Mapping) else {}
    return schema


_DEEPEST = 32


def read_document(given: str, option: str = "--payload") -> Payload:
    """Reads the value of an option: JSON itself, `@file`, or `-` for stdin."""
    text, where = _text_of(given, option)
    try:
        payload = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise PayloadInvalid(
            f"{option}: {where} is not JSON: {error}.",
            fix=f"""{NOTHING_ENQUEUED} Write {option} '{{"name": "value"}}', or @file.json, or - for stdin.""",
        ) from error
    if not isinstance(payload, dict):
        raise PayloadInvalid(
            f"{option}: {where} is {_KINDS[type(payload)]}, a payload is a JSON object.",
            fix=f"""{NOTHING_ENQUEUED} Put it into one: {{"name": …}}.""",
        )
    return payload


def _text_of(given: str, option: str) -> tuple[bytes, str]:
    if given == "-":
        return sys.stdin.buffer.read(), "the text from stdin"
    if not given.startswith("@"):
        return given.encode(errors="surrogateescape"), "the text"
    file = Path(given.removeprefix("@"))
    try:
        return file.read_bytes(), str(file)
    except OSError as error:
        raise InvalidInput(
            f"{option}: {file} can't be read: {error.strerror}.", fix=f"{NOTHING_ENQUEUED} Name a file that exists."
        ) from error


_KINDS = {list: "a list", str: "text", int: "a number", float: "a number", bool: "true or false", type(None): "null"}


def read_moment(text: str, option: str = "--at") -> datetime:
    """Reads ISO 8601 with a zone: without one it would name a different moment on each machine."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput(
            f"{option}: {text!r} is not a time.", fix="Nothing was done. Write it as 2030-01-31T09:00Z or …+02:00."
        ) from error
    if moment.tzinfo is None:
        raise InvalidInput(
            f"{option}: {text!r} has no zone, and so names no moment.",
            fix=f"Nothing was done. Add one: {text}Z is UTC, {text}+02:00 two hours ahead of it.",
        )
    return moment
