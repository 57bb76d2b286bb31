"""Error groups: jobs that gave up for the same reason. No I/O.

A group is a hash of the definition, the code of the error and its text, without the parts that differ from job to
job. The function `leasehold.error_group` of Postgres computes the same.
"""

import re
from collections.abc import Iterator
from hashlib import sha256

from leasehold.model.status import Status

# Statuses of jobs that have a group.
GROUPED = (Status.DEAD_LETTER, Status.FAILED)
# Characters of an error that tell groups apart.
COMPARED = 500
_BYTES = 8
_ID = re.compile(r"[0-9a-f]{16}")
# Addresses, quoted texts, paths, words with a digit, several of these in a row, and spaces. Each pattern is one
# that Python and Postgres read alike.
_DIFFERING = (
    (re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^ \t\r\n\"'<>]+"), "*"),
    (re.compile(r'"[^"]*"'), "*"),
    (re.compile(r"'[^']*'"), "*"),
    (re.compile(r"/[a-zA-Z0-9._~/-]+"), "*"),
    (re.compile(r"[a-zA-Z0-9_-]*[0-9][a-zA-Z0-9_-]*"), "*"),
    (re.compile(r"[*]([.,:]?[*])+"), "*"),
    (re.compile(r"[ \t\r\n]+"), " "),
)


def error_group(definition: str, code: str | None, error: str | None) -> str:
    """Returns the id of the group that an error belongs to."""
    text = f"{definition}\n{code or ''}\n{without_values(error or '')}"
    return sha256(text.encode()).digest()[:_BYTES].hex()


def without_values(error: str) -> str:
    """Returns an error without the parts that differ from job to job: GET * timed out after * s."""
    text = error[:COMPARED]
    for pattern, instead in _DIFFERING:
        text = pattern.sub(instead, text)
    return text


def problems_of_error_group(group: str) -> Iterator[str]:
    if not _ID.fullmatch(group):
        yield f"error_group {group[:40]!r} is not the id of an error group, which has 16 hexadecimal digits"
