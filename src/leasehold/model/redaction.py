"""Redaction: removes secrets from text, JSON documents and byte streams before they are stored, logged or shown.

A redactor knows three things:

    values    known secrets, such as the secret fields of a job and values of the environment; as they are, and in
              base64, hexadecimal, URL-quoted, JSON-escaped and HTML-escaped form
    patterns  texts that look like a key, a token, a private key or the password of a URL
    names     fields of JSON documents whose name says that they hold a secret

A program that encrypts, compresses or splits a secret before it prints it can't be redacted.
"""

import html
import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, quote_plus, unquote, urlsplit

from pydantic import SecretBytes, SecretStr
from pydantic_core import SchemaError, SchemaValidator, core_schema

from leasehold.errors import InvalidInput

REDACTED = "[redacted]"
SHORTEST_VALUE = 6
# A secret of several lines may be printed line by line.
SHORTEST_LINE = 20
# The beginning of a value by which a text is searched: a long value would make a large automaton.
HINT = 24
# How far beyond its end a text is searched, when only its beginning is kept.
REACH = 4096
# A line of a stream that is longer is given on before its end is known.
LONGEST_HELD = 64 * 1024
# An unclosed private key hides at most so many bytes.
LONGEST_KEY = 32 * 1024

Span = tuple[int, int]

_KEY_BEGIN = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_KEY_END = r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
# Each with a hint, which a text must contain: all hints are searched at once, and nearly no line has one. A group
# named `secret` is the part to redact.
_PATTERNS: Sequence[tuple[str, str]] = (
    (r"(?:AKIA|ASIA)[0-9A-Z]", r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    (r"(?i:secret_?access_?key)", r"(?i:secret_?access_?key)\W{1,6}(?P<secret>[A-Za-z0-9/+]{40})\b"),
    (r"gh[pousr]_[A-Za-z0-9]", r"\bgh[pousr]_[A-Za-z0-9]{36,255}\b"),
    (r"github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{22,255}\b"),
    (r"glpat-", r"\bglpat-[A-Za-z0-9_-]{20,}"),
    (r"xox[abeoprs]-", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    (r"[sr]k_live_", r"\b[sr]k_live_[A-Za-z0-9]{16,}\b"),
    (r"AIza", r"\bAIza[A-Za-z0-9_-]{35}"),
    (r"eyJ[A-Za-z0-9_-]", r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"),
    (r"PRIVATE KEY", rf"{_KEY_BEGIN}(?:[^-]|-(?!----)){{0,{LONGEST_KEY}}}(?:{_KEY_END})?"),
    (r"://[^\s/@]{0,100}:", r"\b[A-Za-z][A-Za-z0-9+.-]{1,30}://[^\s/:@]{0,200}:(?P<secret>[^\s/@]{1,500})@"),
    (r"(?i:password)=", r"(?i:password)=(?P<secret>'[^']+'|\"[^\"]+\"|[^\s&;,'\")\]]+)"),
    (r"(?i:bearer|basic) [A-Za-z0-9]", r"\b(?i:bearer|basic) (?P<secret>[A-Za-z0-9._~+/-]{16,}=*)"),
)
_END_OF_KEY = re.compile(_KEY_END)
_BEGIN_OF_KEY = re.compile(_KEY_BEGIN)
_SECRET_VARIABLE = re.compile("KEY|TOKEN|SECRET|PASS|_PWD$|DSN|CREDENTIAL", re.IGNORECASE)
_PLACE_VARIABLE = re.compile("_(FILE|PATH|DIR)$", re.IGNORECASE)
# Of field names without case, `_` and `-`. A count of tokens is a number, and numbers are kept.
_SECRET_NAME = re.compile(
    "password|passwd|passphrase|secret|token|apikey|accesskey|privatekey|authorization|credential|cookie|dsn$"
)
_NAME_SEPARATORS = re.compile(r"[\W_]+")


class Redactor:
    """Immutable, and used by any thread. `with_values` returns a redactor that knows more values."""

    __slots__ = ("_finders", "_names", "longest")

    def __init__(
        self,
        values: Iterable[str] = (),
        *,
        patterns: bool = True,
        own_patterns: Sequence[str] = (),
        names: bool = True,
    ) -> None:
        """`patterns` and `names` turn the built-in ones off; `own_patterns` are regular expressions to add."""
        known = [*(_PATTERNS if patterns else ()), *((each, each) for each in own_patterns)]
        self._finders: tuple[_Finder, ...] = (_Finder(_forms(values), known),)
        self._names = names
        self.longest = self._finders[0].longest

    def with_values(self, *secrets: str) -> "Redactor":
        """Returns a redactor that knows these secrets, too; values of fewer than 6 characters are not searched."""
        forms = _forms(secrets)
        if not forms:
            return self
        more = object.__new__(Redactor)
        own = _Finder(forms)
        more._finders = (*self._finders, own)
        more._names = self._names
        more.longest = max(self.longest, own.longest)
        return more

    def text(self, text: str) -> str:
        """Returns the text without secrets; the same object if it has none, as nearly all texts."""
        for finder in self._finders:
            if finder.may_find(text):
                return self._redact(text)
        return text

    def beginning(self, text: str, most: int) -> str:
        """Returns at least the first `most` characters of the text, redacted: a secret at the cut leaves no part."""
        reach = most + max(self.longest, REACH)
        return self.text(text if len(text) <= reach else text[:reach])

    def document(self, value: Any, *, names: bool = True) -> Any:
        """Returns a JSON document without secrets. With `names`, fields whose name says so are redacted whole."""
        return self._document(value, names and self._names)

    def json(self, text: str) -> str:
        """Returns JSON text without known values and patterns: still JSON, and the same object if it has none."""
        redacted = self.text(text)
        if redacted is text:
            return text
        document = json.dumps(self.document(json.loads(text), names=False), ensure_ascii=False, separators=(",", ":"))
        # A value that spans several fields is found in the text only.
        return document if self.text(document) == document else json.dumps(REDACTED)

    def stream(self) -> "StreamRedactor":
        """Returns a redactor for the bytes of one stream."""
        return StreamRedactor([finder.for_bytes() for finder in self._finders])

    def _redact(self, text: str) -> str:
        return _without(text, _merge([span for finder in self._finders for span in finder.spans(text)]))

    def _document(self, value: Any, names: bool) -> Any:
        kind = type(value)
        if kind is str:
            return self.text(value)
        if kind is dict:
            return {
                self._document(name, names): _blank(item)
                if names and isinstance(name, str) and is_secret_name(name)
                else self._document(item, names)
                for name, item in value.items()
            }
        if kind is list or kind is tuple:
            return [self._document(item, names) for item in value]
        if kind is bytes:
            return value if self.text(text := value.decode("latin-1")) == text else REDACTED
        if isinstance(value, SecretStr | SecretBytes):
            return REDACTED
        if (kind is int or kind is float) and self.text(text := str(value)) != text:
            return REDACTED
        return value


class StreamRedactor:
    """Redacts one stream of bytes, however it is cut into chunks.

    Holds back the bytes after the last line break, and of a line of more than 64 KB as many as a secret may have.
    """

    __slots__ = ("_buffer", "_covered", "_finders", "_key_left", "_multiline", "_reach")

    def __init__(self, finders: "Sequence[_Finder]") -> None:
        self._finders = finders
        self._buffer = b""
        # Leading bytes of the buffer that the last mark, which is given on already, stands for.
        self._covered = 0
        # How many more bytes belong to a private key whose end has not come; 0: there is none.
        self._key_left = 0
        self._multiline = max(finder.longest_multiline for finder in finders)
        self._reach = max(REACH, *(finder.longest for finder in finders))

    def feed(self, data: bytes) -> bytes:
        """Takes the next bytes of the stream, and returns those that can be given on."""
        self._buffer += data
        end = len(self._buffer)
        cut = self._buffer.rfind(b"\n", 0, max(0, end - max(0, self._multiline - 1))) + 1
        if not cut and end > LONGEST_HELD:
            cut = end - self._reach
        return self._release(cut) if cut > 0 else b""

    def flush(self) -> bytes:
        """Returns the rest at the end of the stream."""
        return self._release(len(self._buffer))

    def _release(self, cut: int) -> bytes:
        text = self._buffer.decode("latin-1")
        spans = [span for finder in self._finders if finder.may_find(text) for span in finder.spans(text)]
        if self._covered:
            spans.append((0, self._covered))
        if self._key_left:
            spans.append((0, self._end_of_key(text)))
        spans = _merge(spans)
        continues = self._covered > 0 or self._key_left > 0
        redacted = _without(text[:cut], [(begin, min(end, cut)) for begin, end in spans if begin < cut])
        if continues:
            redacted = redacted.removeprefix(REDACTED)
        self._note_open_key(text, cut)
        crossing = [end for begin, end in spans if begin < cut < end]
        self._covered = crossing[0] - cut if crossing else 0
        self._buffer = self._buffer[cut:]
        return redacted.encode("latin-1")

    def _end_of_key(self, text: str) -> int:
        """Returns up to where the text belongs to the private key that began before it."""
        found = _END_OF_KEY.search(text, 0, self._key_left)
        return found.end() if found else min(self._key_left, len(text))

    def _note_open_key(self, text: str, cut: int) -> None:
        """Notes whether a private key goes on after the cut."""
        begin, left = (0, self._key_left) if self._key_left else (None, 0)
        if self._finders[0].knows_private_keys:
            for found in _BEGIN_OF_KEY.finditer(text):
                if found.start() < cut:
                    begin, left = found.end(), found.end() + LONGEST_KEY
        ended = None if begin is None else _END_OF_KEY.search(text, begin, left)
        is_open = begin is not None and (ended is None or ended.start() >= cut)
        self._key_left = max(0, left - cut) if is_open else 0


class _Finder:
    """Finds values and patterns in text. Nearly all texts have none, and that is found out in some 200 ns."""

    __slots__ = (
        *("_bytes", "_hints", "_patterns", "_sources", "_values"),
        *("knows_private_keys", "longest", "longest_multiline", "may_find"),
    )

    def __init__(
        self, values: Iterable[str], patterns: Sequence[tuple[str, str]] = (), *, compiled: bool | None = None
    ) -> None:
        """With `compiled`, which takes 1 ms, a search is ten times as fast; the default, if there are patterns."""
        self._values = sorted(set(values), key=len, reverse=True)
        self._sources = patterns
        self._patterns = [_compile(pattern) for _, pattern in patterns]
        self._bytes: _Finder | None = None
        self.knows_private_keys = any(hint == "PRIVATE KEY" for hint, _ in patterns)
        self.longest = max(map(len, self._values), default=0)
        self.longest_multiline = max((len(each) for each in self._values if "\n" in each), default=0)
        self._hints = sorted({value[:HINT] for value in self._values})
        self.may_find = self._make_filter(bool(patterns) if compiled is None else compiled)

    def for_bytes(self) -> "_Finder":
        """Returns a finder for bytes that were decoded as Latin-1."""
        if self._bytes is None:
            values = (_bytes(value).decode("latin-1") for value in self._values)
            self._bytes = _Finder(values, self._sources, compiled=True)
        return self._bytes

    def spans(self, text: str) -> Iterator[Span]:
        """Yields the places of all values and patterns; they may overlap."""
        for value in self._values:
            begin = text.find(value)
            while begin >= 0:
                yield begin, begin + len(value)
                begin = text.find(value, begin + 1)
        for pattern in self._patterns:
            group = "secret" if "secret" in pattern.groupindex else 0
            for found in pattern.finditer(text):
                yield found.span(group)

    def _make_filter(self, compiled: bool) -> Callable[[str], bool]:
        """Returns a function that tells whether a text may have a value or a pattern. Never misses one."""
        if not compiled:
            hints = tuple(self._hints)
            return lambda text: any(hint in text for hint in hints)
        sources = [*map(re.escape, self._hints), *(hint for hint, _ in self._sources)]
        if not sources:
            return lambda text: False
        schema = core_schema.str_schema(pattern="|".join(f"(?:{source})" for source in sources))
        try:
            # Pydantic's regular expressions search for hundreds of texts at once, in linear time; those of Python
            # take 6 µs for the patterns alone.
            matches = SchemaValidator(schema, core_schema.CoreConfig(regex_engine="rust-regex")).isinstance_python
        except SchemaError:  # a pattern of the user that only Python understands
            return lambda text: True
        return lambda text: matches(text) if text.isascii() or _is_unicode(text) else True


def environment_values(environment: Mapping[str, str]) -> list[str]:
    """Returns the values of variables whose names look secret, and the passwords of URLs in any variable."""
    found: list[str] = []
    for name, value in environment.items():
        if _SECRET_VARIABLE.search(name) and not _PLACE_VARIABLE.search(name):
            found += [value, *value.split(",")]
        if "://" in value and "@" in value:
            found += _password_of(value)
    return found


def is_secret_name(name: str) -> bool:
    """Returns whether a field of this name holds a secret, as `api_key` or `X-Auth-Token`."""
    return _SECRET_NAME.search(_NAME_SEPARATORS.sub("", name).lower()) is not None


def _password_of(url: str) -> list[str]:
    try:
        password = urlsplit(url).password
    except ValueError:
        return []
    return [password, unquote(password)] if password else []


def _forms(values: Iterable[str]) -> set[str]:
    forms: set[str] = set()
    for given in values:
        for value in {given, given.strip()}:
            if len(value) >= SHORTEST_VALUE:
                forms |= _forms_of(value)
    return forms


def _forms_of(value: str) -> set[str]:
    """Returns the ways in which programs write a value. A part of a JSON document may be encoded once more."""
    in_json = {json.dumps(value, ensure_ascii=only_ascii)[1:-1] for only_ascii in (True, False)}
    forms = {
        *in_json,
        value.replace("/", "\\/"),
        repr(value)[1:-1],
        repr(_bytes(value))[2:-1],
        html.escape(value),
        html.escape(value, quote=False),
        *(line for line in value.splitlines() if len(line.strip()) >= SHORTEST_LINE),
        *(form for text in {value, *in_json} for form in _encoded_forms(text)),
        value,
    }
    return {form for form in forms if len(form) >= SHORTEST_VALUE}


def _encoded_forms(value: str) -> Iterator[str]:
    raw = _bytes(value)
    yield raw.hex()
    yield raw.hex().upper()
    for quoted in (quote(raw, safe=""), quote(raw), quote_plus(raw)):
        yield quoted
        yield re.sub("%[0-9A-F]{2}", lambda code: code[0].lower(), quoted)
    yield from _base64_forms(raw)


def _bytes(value: str) -> bytes:
    return value.encode(errors="surrogatepass")


def _base64_forms(raw: bytes) -> Iterator[str]:
    """Yields the base64 of the value, and the part that stays the same wherever it stands in longer data."""
    for encode in (b64encode, urlsafe_b64encode):
        yield encode(raw).decode().rstrip("=")
        for before in range(3):
            text = encode(b"\0" * before + raw).decode()
            yield text[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6]


def _compile(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise InvalidInput(
            f"{pattern[:120]!r} is not a regular expression: {error}. Nothing was changed.",
            fix="Correct the pattern.",
        ) from error


def _merge(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for begin, end in sorted(spans):
        if begin >= end:
            continue
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return merged


def _without(text: str, spans: Sequence[Span]) -> str:
    parts, after = [], 0
    for begin, end in spans:
        parts += [text[after:begin], REDACTED]
        after = end
    return "".join([*parts, text[after:]])


def _blank(value: Any) -> Any:
    """Redacts all texts of a value; keeps its structure, numbers and null."""
    if isinstance(value, dict):
        return {name: _blank(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_blank(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float) or value == "" else REDACTED


def _is_unicode(text: str) -> bool:
    """Returns False for lone surrogates, with which a text can't be searched."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
