"""Scalars of JSON as texts that a program gets."""

from typing import Any


def text_of(value: Any) -> str | None:
    """Returns a scalar of JSON as an argument or the value of a variable; None for other values.

    1.0 and -0.0 are whole numbers for JSON Schema, so they are written as such: as 1 and 0.
    """
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return str(int(value)) if value.is_integer() else repr(value)
        case _:
            return None
