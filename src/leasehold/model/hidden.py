"""Characters that people can't see: names and keys must not have them, and shown text escapes them.

Two tenants `acme` and `ac\\u200bme` look alike, and a bidirectional character shows `gnp.exe` as `exe.png`.
The schema has the same characters in `hidden_character`.
"""

import re

# Control characters (C0, DEL, C1), soft hyphen, zero-width characters, marks and overrides of the writing direction,
# line and paragraph separators, interlinear marks, and the tags of plane 14.
CHARACTERS = (
    r"\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f"
)
_HIDDEN = re.compile(f"[{CHARACTERS}]")


def problem_of_name(text: str) -> str | None:
    """Names the hidden character of this text, if it has one."""
    found = _HIDDEN.search(text)
    return f"it has {escape_hidden(found[0])}, a character that can't be seen" if found else None


def escape_hidden(text: str) -> str:
    """Writes hidden characters as \\uXXXX."""
    return _HIDDEN.sub(lambda match: _code(match[0]), text)


def _code(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
