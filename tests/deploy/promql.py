"""Reads which metrics and labels an expression of PromQL names; no more of the language than that."""

import re
from dataclasses import dataclass, field

_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_SELECTOR = re.compile(r"\b([a-zA-Z_:][a-zA-Z0-9_:]*+)\s*+(\{[^}]*\})?+(?!\s*\()")
_MATCHER = re.compile(r"([a-zA-Z_][a-zA-Z0-9_]*)\s*(?:=~|!~|!=|=)")
_RANGE = re.compile(r"\[[^\]]*\]")
_WORDS = frozenset({"and", "or", "unless", "bool", "offset", "inf", "nan"})


@dataclass(frozen=True)
class Named:
    """The metrics that an expression selects, each with the labels that it is asked by; and labels of groupings."""

    selected: list[tuple[str, frozenset[str]]] = field(default_factory=list)
    grouped: frozenset[str] = frozenset()


def named_in(expression: str) -> Named:
    text = _RANGE.sub(" ", _TEXT.sub('""', expression))
    grouped = frozenset(label.strip() for labels in _GROUPING.findall(text) for label in labels.split(",") if label)
    selectors = _SELECTOR.findall(_GROUPING.sub(" ", text))
    return Named(
        [(name, frozenset(_MATCHER.findall(matchers))) for name, matchers in selectors if name not in _WORDS], grouped
    )
