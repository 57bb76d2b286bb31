"""Stored values, read without ever failing: one that can't be read is shown as near as possible, and named."""

from collections.abc import Mapping
from typing import Any

import orjson

from leasehold.model.job import Source

# orjson reads 1,024 levels of arrays and objects, and writes 254.
SURELY_WRITABLE = 200


def read_json(text: str, name: str, unreadable: list[str]) -> Any:
    """Returns the text itself if our reader can't make a value of it: jsonb holds numbers that no float can.

    A value that is nested so deep that it can't be written as JSON again is returned as text, too.
    """
    try:
        value = orjson.loads(text)
        if text.count("[") + text.count("{") > SURELY_WRITABLE:
            orjson.dumps(value)
    except (ValueError, TypeError) as error:
        unreadable.append(f"{name} is shown as text: it can't be read as JSON ({error})")
        return text
    return value


def read_object(text: str) -> Mapping[str, Any]:
    read = read_json(text, "", [])
    return read if isinstance(read, dict) else {"unreadable": text}


def read_source(word: str, unreadable: list[str]) -> Source:
    try:
        return Source(word)
    except ValueError:
        unreadable.append(f"source {word!r:.80} is unknown to this release, system is shown")
        return Source.SYSTEM
