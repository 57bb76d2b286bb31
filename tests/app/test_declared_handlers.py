"""Handlers that are declared: one that no job can call is refused, and no two have one key."""

from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from leasehold import Job, Leasehold, TypedDefinition
from leasehold.errors import LeaseholdError, UnusableHandler


class NotForJson:
    pass


def sync_folder(job: Job, provider_id: str) -> None: ...


def without_a_job(provider_id: str) -> None: ...
def without_anything() -> None: ...
def any_number(job: Job, *names: str) -> None: ...
def any_names(job: Job, **names: str) -> None: ...
def of_no_json(job: Job, it: NotForJson) -> None: ...
def of_no_type(job: Job, x: (int, str)) -> None: ...  # type: ignore[syntax]


def of_an_unknown_name(job: Job, it: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("handler", "problem"),
    [
        (without_a_job, "its first parameter is `provider_id: str`, not the job"),
        (without_anything, "its first parameter is missing"),
        (any_number, "`*names: str` takes any number"),
        (any_names, "`**names: str` takes any number"),
        (of_no_json, "NotForJson"),
        (of_no_type, "can't be taken from JSON"),
        (of_an_unknown_name, "name 'Nowhere' is not defined"),
    ],
)
def test_a_handler_without_json_arguments_is_not_registered(handler: Any, problem: str) -> None:
    app = Leasehold()
    with pytest.raises(UnusableHandler, match="LH-1007") as refused:
        app.job(handler)
    assert problem in str(refused.value)
    assert "Nothing was registered." in str(refused.value)
    assert app.handlers.keys == ()


def test_an_option_that_jobs_do_not_have_is_refused_with_the_nearest() -> None:
    app = Leasehold()
    with pytest.raises(LeaseholdError, match=r'no option "max_attempt"\. Did you mean "max_attempts"'):
        app.job(max_attempt=3)(sync_folder)  # type: ignore[call-overload]


def test_two_handlers_can_not_have_one_key() -> None:
    app = Leasehold()
    app.job(sync_folder)
    here = r".*test_declared_handlers\.py:\d+"
    with pytest.raises(LeaseholdError, match=f"the key 'sync_folder': the one in {here} and the one in {here}"):
        app.job(sync_folder)
    assert app.handlers.keys == ("sync_folder",)


class Order(BaseModel):
    number: int


class Counting:
    @classmethod
    def payload_model(cls) -> type[Order]:
        return Order

    def handle(self, payload: Order) -> int:
        return payload.number


def test_a_handler_class_is_named_by_the_place_of_its_method() -> None:
    app = Leasehold()
    app.add("count", Counting)
    line = Counting.handle.__code__.co_firstlineno
    with pytest.raises(LeaseholdError, match=rf"the one in .*test_declared_handlers\.py:{line} and"):
        app.add("count", Counting)


def test_a_definition_has_the_docstring_and_can_be_called() -> None:
    app = Leasehold()

    @app.job(timeout="10m", max_attempts=2, key="double-it")
    def double(job: Job, number: int) -> int:
        """Doubles a number.

        Not seen.
        """
        return 2 * number

    assert isinstance(double, TypedDefinition)
    assert double.definition.description == "Doubles a number."
    assert (double.key, double.definition.timeout, double.definition.max_attempts) == (
        "double-it",
        timedelta(minutes=10),
        2,
    )
    assert double(None, 4) == 8
