"""Finds known secrets, and texts that look like one, in a text."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from leasehold.model.secret_forms import SHORTEST_VALUE, WRAPPED, Joined, Span, as_bytes
from leasehold.model.secret_patterns import Pattern, compile_pattern, make_matcher, matcher_of_hint

# The beginning of a value by which a text is searched: a long value would make a large automaton.
HINT = 24

_is_wrapped = make_matcher(WRAPPED)


def joined(text: str) -> Joined | None:
    """Returns the text without the breaks of wrapped base64; None if it has none, as nearly all texts."""
    if len(text) > HINT and ("\n" in text or "\\n" in text) and _is_wrapped(text):
        return Joined(text)
    return None


class Finder:
    """Nearly all texts have no secret, and that is found out in some 200 ns.

    A text that may have one is looked at line by line: most of its lines have none, and a line that has one is
    searched for those values and by those patterns only whose hint it has.
    """

    __slots__ = (
        *("_bytes", "_by_start", "_may_have_value", "_may_match", "_multiline", "_patterns", "_sources", "_values"),
        *("knows_private_keys", "longest", "longest_multiline", "may_find"),
    )

    def __init__(
        self, values: Iterable[str], patterns: Sequence[Pattern] = (), *, compiled: bool | None = None
    ) -> None:
        """With `compiled`, which takes 1 ms, a search is ten times as fast; the default, if there are patterns."""
        self._values = sorted(set(values), key=len, reverse=True)
        self._sources = patterns
        self._patterns = [(each, matcher_of_hint(each.hint), compile_pattern(each.source)) for each in patterns]
        self._bytes: Finder | None = None
        self._multiline = [value for value in self._values if "\n" in value]
        self._by_start: dict[str, list[str]] = {}
        for value in self._values:
            self._by_start.setdefault(value[:SHORTEST_VALUE], []).append(value)
        self.knows_private_keys = any(each.hint == "PRIVATE KEY" for each in patterns)
        self.longest = max(map(len, self._values), default=0)
        self.longest_multiline = max(map(len, self._multiline), default=0)
        self._make_filters(bool(patterns) if compiled is None else compiled)

    def for_bytes(self) -> "Finder":
        """Returns a finder for bytes that were decoded as Latin-1."""
        if self._bytes is None:
            values = (as_bytes(value).decode("latin-1") for value in self._values)
            self._bytes = Finder(values, self._sources, compiled=True)
        return self._bytes

    def spans(self, text: str, unwrapped: Joined | None = None) -> Iterator[Span]:
        """Yields the places of all values and patterns; they may overlap. `unwrapped` is `joined(text)`."""
        if self.may_find(text):
            for value in self._multiline:
                yield from _places(value, text)
            for pattern, may_match, expression in self._patterns:
                if not pattern.in_line and may_match(text):
                    yield from _matches(expression, text)
            for begin, line in _lines(text):
                if self.may_find(line):
                    yield from ((begin + start, begin + end) for start, end in self._spans_of_line(line))
        if unwrapped is not None and self._may_have_value(unwrapped.text):
            yield from map(unwrapped.origin, self._values_of(unwrapped.text))

    def _spans_of_line(self, line: str) -> Iterator[Span]:
        if self._may_have_value(line):
            yield from self._values_of(line)
        if self._may_match(line):
            for pattern, may_match, expression in self._patterns:
                if pattern.in_line and may_match(line):
                    yield from _matches(expression, line)

    def _values_of(self, text: str) -> Iterator[Span]:
        """Searches the text for each value; if those are many, only for the values whose start the text has."""
        sought: Iterable[str] = self._values
        if len(self._values) > len(text):
            starts = {text[begin : begin + SHORTEST_VALUE] for begin in range(len(text))}
            sought = [value for start in starts for value in self._by_start.get(start, ())]
        for value in sought:
            yield from _places(value, text)

    def _make_filters(self, compiled: bool) -> None:
        """Makes functions that tell whether a text may have a value, a pattern, or either. They never miss one."""
        hints = sorted({value[:HINT] for value in self._values})
        self._may_have_value: Callable[[str], bool] = lambda text: any(hint in text for hint in hints)
        self.may_find: Callable[[str], bool] = self._may_have_value
        self._may_match = make_matcher(*(each.hint for each in self._sources))
        if compiled:
            escaped = [*map(re.escape, hints)]
            self._may_have_value = make_matcher(*escaped)
            self.may_find = make_matcher(*escaped, *(each.hint for each in self._sources))


def _lines(text: str) -> Iterator[tuple[int, str]]:
    begin = 0
    for line in text.split("\n"):
        yield begin, line
        begin += len(line) + 1


def _places(value: str, text: str) -> Iterator[Span]:
    begin = text.find(value)
    while begin >= 0:
        yield begin, begin + len(value)
        begin = text.find(value, begin + 1)


def _matches(expression: re.Pattern[str], text: str) -> Iterator[Span]:
    group = "secret" if "secret" in expression.groupindex else 0
    for found in expression.finditer(text):
        yield found.span(group)
