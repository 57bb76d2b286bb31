"""Names as segments of addresses."""

from urllib.parse import quote


def segment_of(name: str) -> str:
    """Writes a name as one segment of a path: a server decodes %2F before it looks for slashes."""
    return quote(name.replace("~", "~0").replace("/", "~1"), safe="~")


def name_of(segment: str) -> str:
    return segment.replace("~1", "/").replace("~0", "~")
