"""Effects of a handler: functions that the crash kit wraps, in every module that refers to them."""

import functools
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import MethodType, ModuleType
from typing import Any

from leasehold.errors import InvalidInput

Function = Callable[..., Any]


@dataclass(frozen=True)
class Effect:
    """A function whose calls are effects. With a `key` named, of several calls that have the same only one is:

        Effect(payments.charge, key="idempotency_key")

    The key is the argument by which the called service recognizes a repeated call.
    """

    function: Function
    key: str | None = None

    @property
    def name(self) -> str:
        return str(getattr(self.function, "__name__", self.function))

    def key_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
        if self.key is None:
            return None
        bound = inspect.signature(self.function).bind(*args, **kwargs)
        bound.apply_defaults()
        return None if bound.arguments[self.key] is None else repr(bound.arguments[self.key])


def as_effect(given: object) -> Effect:
    effect = given if isinstance(given, Effect) else Effect(given)  # type: ignore[arg-type]
    if not callable(effect.function):
        raise InvalidInput(
            f"{given!r:.80} is not a function whose calls could be effects. Nothing was run.",
            fix="Pass the function itself, as in effects=[payments.charge]; to count otherwise, pass count=….",
        )
    if effect.key is not None and effect.key not in inspect.signature(effect.function).parameters:
        raise InvalidInput(
            f'{effect.name} has no argument "{effect.key}" to know its calls by. Nothing was run.',
            fix=f"It takes: {', '.join(inspect.signature(effect.function).parameters)}.",
        )
    if not list(_holders(effect.function)):
        raise InvalidInput(
            f"no module, class or object holds {effect.name}, so nobody can stand around it. Nothing was run.",
            fix="Pass a global function, or a method of an object: effects=[gateway.charge].",
        )
    return effect


def replace_everywhere(effect: Effect, wrap: Callable[[Function], Function]) -> None:
    """Replaces a function under every name, such as one made by `from payments import charge`.

    It can't be undone, so it is done only in a process that ends soon.
    """
    wrapped = functools.wraps(effect.function)(wrap(effect.function))
    for holder, name in list(_holders(effect.function)):
        setattr(holder, name, staticmethod(wrapped) if _is_bound_to(effect.function, holder) else wrapped)


def _holders(function: Function) -> "list[tuple[Any, str]]":
    if isinstance(function, MethodType):
        return [(function.__self__, function.__name__)]
    found: list[tuple[Any, str]] = []
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType):
            found += _names_in(module, function)
            for held in list(vars(module).values()):
                # Not isinstance: it would evaluate a lazy object, such as Django's settings.
                if issubclass(type(held), type):
                    found += _names_in(held, function)
    return found


def _names_in(holder: ModuleType | type, function: Function) -> "list[tuple[Any, str]]":
    return [(holder, name) for name, value in list(vars(holder).items()) if value is function]


def _is_bound_to(function: Function, holder: object) -> bool:
    return isinstance(function, MethodType) and isinstance(holder, type)
