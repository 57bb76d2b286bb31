"""Checks the environment variables of a command that a payload fills."""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from leasehold.model.command_env import env_slots, slots_within
from leasehold.model.slot_types import is_list, is_scalar

# The loader, interpreters and tools read code, options, or places of files from these.
_READ_AS_CODE = re.compile(
    r"(LD|DYLD|BASH|MALLOC|GLIBC)_.*|PYTHON[A-Z]+|PERL5?(OPT|LIB|DB)|RUBY(OPT|LIB|PATH|SHELL)|PHPRC"
    r"|NODE_(OPTIONS|PATH)|LUA_(PATH|CPATH|INIT).*|R_(PROFILE|ENVIRON).*|OPENSSL_(CONF|ENGINES|MODULES)"
    r"|GIT_(SSH|EXTERNAL|PROXY|EXEC|CONFIG|TEMPLATE|SEQUENCE).*|.*(OPTIONS|OPTS|FLAGS|COMMAND|PAGER|EDITOR|ASKPASS)"
    r"|(CLASS|CD|MAN|LOC|NLS|GCONV_)?PATH|LESS(OPEN|CLOSE)|ENV|IFS|PS[0-4]|HOME|TMPDIR|SHELL|VISUAL|BROWSER|TERM.*"
)


def problems_of_slots(env: Mapping[str, str], fields: Mapping[str, Any]) -> Iterator[str]:
    """Yields why values of these fields can't be written into the environment."""
    for name, slot in env_slots(env).items():
        if slot not in fields:
            near = get_close_matches(slot, fields, n=1)
            hint = f' (did you mean "{near[0]}"?)' if near else ", a text with braces is written {{like_this}}"
            yield f"env.{name} names {slot!r}, which is not a field of the schema{hint}"
        elif is_list(fields[slot]) or not is_scalar(fields[slot]):
            yield f"env.{name}: {slot} is not a single value, so it goes into the payload file"
        if _READ_AS_CODE.fullmatch(name):
            yield f"env.{name} can run code or load files, so a payload must not fill it"
    for name, value in env.items():
        if named := [field for field in slots_within(str(value)) if field in fields]:
            yield f"env.{name} has {{{named[0]}}} among other text, a slot is the whole value"
