"""The ways in which programs write a secret value: as it is, encoded, quoted, escaped, and wrapped into lines."""

import html
import json
import re
from base64 import b64encode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

Span = tuple[int, int]

SHORTEST_VALUE = 6
# A secret of several lines may be printed line by line.
SHORTEST_LINE = 20
# Programs wrap base64 after 64 or 76 characters, and hexadecimal after 60.
SHORTEST_WRAPPED = 60

_ENCODED = "[A-Za-z0-9+/_-]"
WRAPPED = rf"{_ENCODED}{{{SHORTEST_WRAPPED}}}(?:\r?\n[ \t]*|(?:\\r)?\\n){_ENCODED}"
_BREAK = re.compile(rf"(?:\r?\n[ \t]*|(?:\\r)?\\n)(?={_ENCODED})")
_RUN = re.compile(rf"{_ENCODED}{{{SHORTEST_WRAPPED}}}")
_END_OF_RUN = re.compile(rf"{_ENCODED}{{{SHORTEST_WRAPPED}}}\r?\Z".encode())


def forms_of(values: Iterable[str]) -> set[str]:
    """Returns the forms of all values. Those of fewer than 6 characters have none: they would be found everywhere."""
    forms: set[str] = set()
    for given in values:
        for value in {given, given.strip()}:
            if len(value) >= SHORTEST_VALUE:
                forms |= _forms_of_value(value)
    return forms


def as_bytes(value: str) -> bytes:
    return value.encode(errors="surrogatepass")


def _forms_of_value(value: str) -> set[str]:
    """A part of a JSON document may be encoded once more."""
    in_json = {json.dumps(value, ensure_ascii=only_ascii)[1:-1] for only_ascii in (True, False)}
    forms = {
        *in_json,
        value.replace("/", "\\/"),
        repr(value)[1:-1],
        repr(as_bytes(value))[2:-1],
        html.escape(value),
        html.escape(value, quote=False),
        *(line for line in value.splitlines() if len(line.strip()) >= SHORTEST_LINE),
        *(form for text in {value, *in_json} for form in _encoded_forms(text)),
        value,
    }
    return {form for form in forms if len(form) >= SHORTEST_VALUE}


def _encoded_forms(value: str) -> Iterator[str]:
    raw = as_bytes(value)
    yield raw.hex()
    yield raw.hex().upper()
    for quoted in (quote(raw, safe=""), quote(raw), quote_plus(raw)):
        yield quoted
        yield re.sub("%[0-9A-F]{2}", lambda code: code[0].lower(), quoted)
    yield from _base64_forms(raw)


def _base64_forms(raw: bytes) -> Iterator[str]:
    """Yields the base64 of the value, and the part that stays the same wherever it stands in longer data."""
    for encode in (b64encode, urlsafe_b64encode):
        yield encode(raw).decode().rstrip("=")
        for before in range(3):
            text = encode(b"\0" * before + raw).decode()
            yield text[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6]


class Joined:
    """A text without the breaks between its lines of base64 or hexadecimal; `origin` leads back to the text."""

    __slots__ = ("_origins", "_starts", "text")

    def __init__(self, text: str) -> None:
        pieces: list[str] = []
        self._starts: list[int] = []
        self._origins: list[int] = []
        size = after = 0
        for found in _BREAK.finditer(text):
            if _RUN.fullmatch(text, max(0, found.start() - SHORTEST_WRAPPED), found.start()):
                pieces.append(text[after : found.start()])
                self._starts.append(size)
                self._origins.append(after)
                size += found.start() - after
                after = found.end()
        self._starts.append(size)
        self._origins.append(after)
        self.text = "".join([*pieces, text[after:]])

    def origin(self, span: Span) -> Span:
        """Returns the place in the text of a place in the joined one."""
        return self._place(span[0]), self._place(span[1] - 1) + 1

    def _place(self, at: int) -> int:
        piece = bisect_right(self._starts, at) - 1
        return self._origins[piece] + at - self._starts[piece]


def block_begin(data: bytes, end: int, reach: int) -> int:
    """Returns where to cut a stream before `end`, the end of a line, so that no wrapped value is cut.

    If the line is one of base64 or hexadecimal, the next one may go on with it: at least `reach` bytes are left then.
    """
    begin = end
    while begin and end - begin < reach and _END_OF_RUN.search(data, max(0, begin - SHORTEST_WRAPPED - 3), begin - 1):
        begin = data.rfind(b"\n", 0, begin - 1) + 1
    return begin
