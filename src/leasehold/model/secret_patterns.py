"""Texts that look like a key, a token, a private key or the password of a URL."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from pydantic_core import SchemaError, SchemaValidator, core_schema

from leasehold.errors import InvalidInput

# An unclosed private key hides at most so many bytes.
LONGEST_KEY = 32 * 1024

_KEY_BEGIN = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_KEY_END = r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
BEGIN_OF_KEY = re.compile(_KEY_BEGIN)
END_OF_KEY = re.compile(_KEY_END)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression; a group named `secret` is the part to redact.

    Every text that it matches contains its `hint`: hints are searched first, and nearly no line has one. If it is
    found `in_line`, hint and match stand in one line, and no other line has to be read.
    """

    hint: str
    source: str
    in_line: bool = True


BUILT_IN: Sequence[Pattern] = (
    Pattern(r"(?:AKIA|ASIA)[0-9A-Z]", r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    Pattern(
        r"(?i:secret_?access_?key)",
        r"(?i:secret_?access_?key)\W{1,6}(?P<secret>[A-Za-z0-9/+]{40})\b",
        in_line=False,
    ),
    Pattern(r"gh[pousr]_[A-Za-z0-9]", r"\bgh[pousr]_[A-Za-z0-9]{36,255}\b"),
    Pattern(r"github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{22,255}\b"),
    Pattern(r"glpat-", r"\bglpat-[A-Za-z0-9_-]{20,}"),
    Pattern(r"xox[abeoprs]-", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    Pattern(r"[sr]k_live_", r"\b[sr]k_live_[A-Za-z0-9]{16,}\b"),
    Pattern(r"AIza", r"\bAIza[A-Za-z0-9_-]{35}"),
    Pattern(
        r"eyJ[A-Za-z0-9_-]",
        r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",
    ),
    Pattern(r"PRIVATE KEY", rf"{_KEY_BEGIN}(?:[^-]|-(?!----)){{0,{LONGEST_KEY}}}(?:{_KEY_END})?", in_line=False),
    Pattern(r"://[^\s/@]{0,100}:", r"\b[A-Za-z][A-Za-z0-9+.-]{1,30}://[^\s/:@]{0,200}:(?P<secret>[^\s/@]{1,500})@"),
    Pattern(r"(?i:password)=", r"(?i:password)=(?P<secret>'[^']+'|\"[^\"]+\"|[^\s&;,'\")\]]+)", in_line=False),
    Pattern(r"(?i:bearer|basic) [A-Za-z0-9]", r"\b(?i:bearer|basic) (?P<secret>[A-Za-z0-9._~+/-]{16,}=*)"),
)


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Raises InvalidInput for a text that is not a regular expression."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise InvalidInput(
            f"{pattern[:120]!r} is not a regular expression: {error}. Nothing was changed.",
            fix="Correct the pattern.",
        ) from error


def make_matcher(*sources: str) -> Callable[[str], bool]:
    """Returns a function that tells whether a text has one of these expressions. It may say yes if it has not.

    Pydantic's regular expressions search for hundreds of texts at once, in linear time; those of Python take 6 µs
    for the built-in patterns alone.
    """
    if not sources:
        return lambda text: False
    schema = core_schema.str_schema(pattern="|".join(f"(?:{source})" for source in sources))
    try:
        matches = SchemaValidator(schema, core_schema.CoreConfig(regex_engine="rust-regex")).isinstance_python
    except SchemaError:  # a pattern of the user that only Python understands
        return lambda text: True
    return lambda text: matches(text) if text.isascii() or _is_unicode(text) else True


matcher_of_hint = cache(make_matcher)


def _is_unicode(text: str) -> bool:
    """Returns False for lone surrogates, with which a text can't be searched."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
