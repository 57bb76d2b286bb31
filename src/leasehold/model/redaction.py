"""Redaction: removes secrets from text, JSON documents and byte streams before they are stored, logged or shown.

A redactor knows three things:

    values    known secrets, such as the secret fields of a job and values of the environment; as they are, and in
              base64, hexadecimal, URL-quoted, JSON-escaped and HTML-escaped form
    patterns  texts that look like a key, a token, a private key or the password of a URL
    names     fields of JSON documents whose name says that they hold a secret

A program that encrypts, compresses or splits a secret before it prints it can't be redacted.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from pydantic import SecretBytes, SecretStr

from leasehold.model.secret_finder import Finder, joined
from leasehold.model.secret_forms import Joined, Span, block_begin, forms_of
from leasehold.model.secret_patterns import BEGIN_OF_KEY, BUILT_IN, END_OF_KEY, LONGEST_KEY, Pattern

REDACTED = "[redacted]"
# How far beyond its end a text is searched, when only its beginning is kept.
REACH = 4096
# A line of a stream that is longer is given on before its end is known.
LONGEST_HELD = 64 * 1024

_SECRET_VARIABLE = re.compile("KEY|TOKEN|SECRET|PASS|_PWD$|DSN|CREDENTIAL", re.IGNORECASE)
_PLACE_VARIABLE = re.compile("_(FILE|PATH|DIR)$", re.IGNORECASE)
# Is searched in names such as `api_key` and `X-Api-Key` after they were reduced to `apikey` and `xapikey`. The name
# `tokens_used` matches, too, but only texts are redacted by name, and its value is a number.
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
        own = (Pattern(each, each, in_line=False) for each in own_patterns)
        self._finders: tuple[Finder, ...] = (Finder(forms_of(values), [*(BUILT_IN if patterns else ()), *own]),)
        self._names = names
        self.longest = self._finders[0].longest

    def with_values(self, *secrets: str) -> "Redactor":
        """Returns a redactor that knows these secrets, too; values of fewer than 6 characters are not searched."""
        forms = forms_of(secrets)
        if not forms:
            return self
        more = object.__new__(Redactor)
        own = Finder(forms)
        more._finders = (*self._finders, own)
        more._names = self._names
        more.longest = max(self.longest, own.longest)
        return more

    def text(self, text: str) -> str:
        """Returns the text without secrets; the same object if it has none, as nearly all texts."""
        unwrapped = joined(text)
        for finder in self._finders:
            if finder.may_find(text) or (unwrapped is not None and finder.may_find(unwrapped.text)):
                return self._redact(text, unwrapped)
        return text

    def beginning(self, text: str, most: int) -> str:
        """Returns at least the first `most` characters of the text, redacted: a secret at the cut leaves no part."""
        reach = most + max(self.longest * 5 // 4, REACH)  # a wrapped value has line breaks, too
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

    def _redact(self, text: str, unwrapped: Joined | None) -> str:
        return _without(text, _merge(span for finder in self._finders for span in finder.spans(text, unwrapped)))

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

    Holds back the bytes after the last line break, and of a line of more than 64 KB as many as a secret may have. Of
    lines of base64, which may be wrapped in the middle of a secret, it holds back as many as one may have.
    """

    __slots__ = ("_buffer", "_covered", "_finders", "_key_left", "_longest", "_multiline", "_reach")

    def __init__(self, finders: Sequence[Finder]) -> None:
        self._finders = finders
        self._buffer = b""
        # Leading bytes of the buffer that the last mark, which is given on already, stands for.
        self._covered = 0
        # How many more bytes belong to a private key whose end has not come; 0: there is none.
        self._key_left = 0
        self._multiline = max(finder.longest_multiline for finder in finders)
        self._longest = max(finder.longest for finder in finders)
        self._reach = max(REACH, self._longest)

    def feed(self, data: bytes) -> bytes:
        """Takes the next bytes of the stream, and returns those that can be given on."""
        self._buffer += data
        end = len(self._buffer)
        cut = self._buffer.rfind(b"\n", 0, max(0, end - max(0, self._multiline - 1))) + 1
        cut = block_begin(self._buffer, cut, self._longest)
        if not cut and end > LONGEST_HELD:
            cut = end - self._reach
        return self._release(cut) if cut > 0 else b""

    def flush(self) -> bytes:
        """Returns the rest at the end of the stream."""
        return self._release(len(self._buffer))

    def _release(self, cut: int) -> bytes:
        text = self._buffer.decode("latin-1")
        unwrapped = joined(text)
        spans = [span for finder in self._finders for span in finder.spans(text, unwrapped)]
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
        found = END_OF_KEY.search(text, 0, self._key_left)
        return found.end() if found else min(self._key_left, len(text))

    def _note_open_key(self, text: str, cut: int) -> None:
        """Notes whether a private key goes on after the cut."""
        begin, left = (0, self._key_left) if self._key_left else (None, 0)
        if self._finders[0].knows_private_keys:
            for found in BEGIN_OF_KEY.finditer(text):
                if found.start() < cut:
                    begin, left = found.end(), found.end() + LONGEST_KEY
        ended = None if begin is None else END_OF_KEY.search(text, begin, left)
        is_open = begin is not None and (ended is None or ended.start() >= cut)
        self._key_left = max(0, left - cut) if is_open else 0


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
