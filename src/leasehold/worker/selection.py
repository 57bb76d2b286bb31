"""Selects the definitions that a worker serves, by keys and patterns."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from leasehold.errors import InvalidInput

SHOWN_KEYS = 20
WILDCARDS = str.maketrans("", "", "*?[]")


def select_definitions(known: Sequence[str], only: Iterable[str], exclude: Iterable[str]) -> tuple[str, ...]:
    """Returns the keys that match `only`, by default all, and don't match `exclude`. Patterns are globs: `sync-*`.

    Raises InvalidInput if a pattern matches nothing, which most often is a typing error, or if no key is left.
    """
    only, exclude = tuple(only), tuple(exclude)
    wanted = _matches(known, only) if only else frozenset(known)
    left = wanted - _matches(known, exclude)
    if known and not left:
        raise InvalidInput(
            f"no definition is left to run: {', '.join(sorted(wanted))} "
            f"{'is' if len(wanted) == 1 else 'are'} all excluded. Nothing was started.",
            fix="Exclude fewer of them, or select others.",
        )
    return tuple(key for key in known if key in left)


def _matches(known: Sequence[str], patterns: Sequence[str]) -> frozenset[str]:
    found: set[str] = set()
    for pattern in patterns:
        matching = {key for key in known if key == pattern or fnmatchcase(key, pattern)}
        if not matching:
            raise _no_match(known, pattern)
        found |= matching
    return frozenset(found)


def _no_match(known: Sequence[str], pattern: str) -> InvalidInput:
    near = get_close_matches(pattern.translate(WILDCARDS), known, n=1)
    more = len(known) - SHOWN_KEYS
    listed = ", ".join(known[:SHOWN_KEYS]) + (f" and {more} more" if more > 0 else "")
    return InvalidInput(
        f'no definition matches "{pattern}".'
        + (f' Did you mean "{near[0]}"?' if near else "")
        + " Nothing was started.",
        fix=f"The app has these: {listed}.",
    )
