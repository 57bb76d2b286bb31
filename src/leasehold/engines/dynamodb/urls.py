"""URLs of tables: dynamodb://table?region=eu-west-1&endpoint=http://127.0.0.1:4566&…"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from leasehold.errors import InvalidInput
from leasehold.model.duration import read_duration

_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}")
SCHEME = "dynamodb"


@dataclass(frozen=True, slots=True)
class TableAddress:
    """A table, and how this process uses it.

    region, endpoint  where the table is; None: as the AWS configuration of this process says
    shards            partitions of each definition in the due index; counts only when the table is created
    skew              how far the clocks of two machines may differ: a lease counts as lost that much later
    poll              how long an idle worker waits at most between two looks for work
    items             entries of the due index that one look reads from a partition
    """

    table: str
    region: str | None = None
    endpoint: str | None = None
    shards: int = 4
    skew: timedelta = timedelta(seconds=5)
    poll: timedelta = timedelta(seconds=30)
    items: int = 25

    @property
    def url(self) -> str:
        """The URL with the parameters that differ from their defaults."""
        usual = TableAddress(self.table)
        given = {
            name: _written(getattr(self, name))
            for name in ("region", "endpoint", "shards", "skew", "poll", "items")
            if getattr(self, name) != getattr(usual, name)
        }
        query = f"?{urlencode(given, safe=':/')}" if given else ""
        return f"{SCHEME}://{quote(self.table, safe='')}{query}"

    def of(self, table: str) -> "TableAddress":
        return replace(self, table=table)


def read_url(url: str) -> TableAddress:
    """Raises InvalidInput for a URL that names no table, or has a parameter that is unknown or can't be read."""
    parts = urlsplit(url)
    table = unquote(parts.netloc)
    if not _TABLE.fullmatch(table) or parts.path not in ("", "/"):
        raise _unreadable(f"{table + parts.path!r:.120} is not the name of a table: 3 to 255 of a-z, A-Z, 0-9, _ . -")
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    try:
        return TableAddress(table, **_read(given))
    except (ValueError, InvalidInput) as error:
        raise _unreadable(error.happened if isinstance(error, InvalidInput) else str(error)) from error


def _read(given: Mapping[str, str]) -> dict[str, Any]:
    read: dict[str, Any] = {}
    for name, text in given.items():
        match name:
            case "region":
                read[name] = text or None
            case "endpoint":
                read[name] = _endpoint(text) if text else None
            case "shards" | "items":
                read[name] = _number(name, text)
            case "skew" | "poll":
                read[name] = read_duration(text)
            case _:
                raise ValueError(f"the parameter {name!r:.40} is none of region, endpoint, shards, skew, poll, items")
    return read


def _endpoint(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"endpoint={text!r:.80} is not a URL such as http://127.0.0.1:4566")
    parts.port  # noqa: B018 – raises ValueError if it is not a number
    return text


def _number(name: str, text: str) -> int:
    most = {"shards": 100, "items": 1000}[name]
    if not text.isdecimal() or not 1 <= int(text) <= most:
        raise ValueError(f"{name}={text!r:.40} is not a whole number from 1 to {most}")
    return int(text)


def _written(value: object) -> str:
    return f"{value.total_seconds():g}" if isinstance(value, timedelta) else str(value)


def _unreadable(why: str) -> InvalidInput:
    return InvalidInput(
        f"the URL of the table can't be read: {why}.",
        fix="Nothing was opened. Write dynamodb://TABLE?region=REGION, with &endpoint=URL for an emulator.",
    )
