"""ETags: the version of what an answer shows, for If-Match."""

import re
from typing import Annotated

from fastapi import Header

from leasehold.errors import InvalidInput

IfMatch = Annotated[str | None, Header(alias="If-Match", max_length=100, description="The ETag that was read.")]
_ETAG = re.compile(r'"(0|[1-9][0-9]{0,9})"')


def etag(version: int) -> str:
    return f'"{version}"'


def read_version(if_match: str | None) -> int | None:
    """Reads If-Match: an ETag, or * for any version. Raises InvalidInput."""
    if if_match in (None, "*"):
        return None
    found = _ETAG.fullmatch(if_match or "")
    if found is None:
        raise InvalidInput(
            "If-Match is not an ETag of this API. Nothing was changed.", fix='Send the ETag of an answer, like "3".'
        )
    return int(found[1])
