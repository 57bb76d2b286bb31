"""Reads values of a definition's fields as they stand on a command line."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from leasehold.errors import InvalidInput
from leasehold.model.overrides import OVERRIDABLE

HOW_TO_SET = 'As in timeout=10m max_attempts=5 backoff=30s,5m retention={"failed":"90d"} schema=@file active=false.'


def read_values(texts: Sequence[str]) -> dict[str, Any]:
    """Reads FIELD=VALUE pairs. Raises InvalidInput."""
    return dict(map(_read_pair, texts))


def _read_pair(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or name not in OVERRIDABLE:
        raise InvalidInput(
            f"{text!r:.120} sets nothing: write FIELD=VALUE. Nothing was changed.",
            fix=f"Fields: {', '.join(OVERRIDABLE)}.",
        )
    return name, _read_value(name, value)


def _read_value(name: str, text: str) -> Any:
    if name == "description":
        return text
    if name == "schema" and text.startswith("@"):
        text = _read_file(text[1:])
    if name == "backoff" and not text.startswith("{"):
        return {"steps": text.split(",")}
    if name == "retention" and not text.startswith("{"):
        return {"succeeded": text, "canceled": text}
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text  # a duration such as 10m; any other text is refused where fields are checked


def _read_file(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{path!r:.120} can't be read: {error}.", fix="Nothing was changed. Check the path."
        ) from error
