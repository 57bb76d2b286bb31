"""Calls become payloads and payloads become calls, typed by the handler's signature."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, Secret, SecretBytes, SecretStr, model_validator

from leasehold import Job, Leasehold, PayloadInvalid
from leasehold.app.arguments import arguments_of
from leasehold.errors import NotJson
from leasehold.model.payload import encode
from leasehold.model.secret_fields import secret_fields

NOON = datetime(2030, 1, 2, 12, tzinfo=UTC)


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    seen: datetime


class Order(BaseModel):
    number: int
    lines: list[str] = []
    placed: datetime = NOON


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    placed: datetime
    id: UUID


class NotForJson:
    pass


def sync_folder(job: Job, provider_id: str, path: str = "/", *, limit: int | None = None) -> None:
    """Syncs one folder."""


def payload_of(handler: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
    return arguments_of(handler.__name__, handler).payload(args, kwargs)[0]


def refusal(handler: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(PayloadInvalid) as refused:
        payload_of(handler, *args, **kwargs)
    assert "Nothing was enqueued." in str(refused.value)
    return str(refused.value)


def test_a_call_becomes_an_object_with_its_defaults() -> None:
    assert payload_of(sync_folder, "p_9", limit=3) == {"provider_id": "p_9", "path": "/", "limit": 3}


def test_a_payload_becomes_the_call_it_came_from() -> None:
    arguments = arguments_of("sync_folder", sync_folder)
    assert arguments.call('{"provider_id": "p_9", "limit": 3}') == (("p_9", "/"), {"limit": 3})


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (datetime, datetime(2030, 1, 1)),
        (datetime, NOON),
        (date, date(2030, 1, 1)),
        (time, time(3, 30)),
        (timedelta, timedelta(hours=36)),
        (timedelta, timedelta(milliseconds=1500)),
        (timedelta, -timedelta(days=1, seconds=1)),
        (timedelta, timedelta(days=400)),
        (Decimal, Decimal("1.10")),
        (UUID, UUID(int=7)),
        (Colour, Colour.RED),
        (Path, Path("/tmp/x")),
        (bytes, b"abc"),
        (set[int], {1, 2}),
        (tuple[int, str], (1, "a")),
        (dict[int, str], {1: "a"}),
        (Point, Point(1, NOON)),
        (list[Order], [Order(number=1)]),
        (Strict, Strict(placed=NOON, id=UUID(int=1))),
        (int | None, None),
        (Annotated[int, Field(gt=0)], 5),
        (Any, {"a": [1, 2.5, None, True, "é"]}),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_is_annotated_comes_back_as_it_was_passed(kind: Any, value: Any) -> None:
    def handler(job: Job, other: int, value: Any) -> None: ...

    handler.__annotations__["value"] = kind
    arguments = arguments_of("handler", handler)
    payload, _ = arguments.payload([1, value], {})
    Leasehold().job(key="checked")(handler).definition.check(payload)
    (_, back), _ = arguments.call(encode(payload))
    assert (back, type(back)) == (value, type(value))


def test_a_model_as_the_single_argument_is_the_payload_itself() -> None:
    def ship(job: Job, order: Order) -> None: ...

    assert payload_of(ship, Order(number=7)) == {"number": 7, "lines": [], "placed": "2030-01-02T12:00:00Z"}
    assert payload_of(ship, order=Order(number=7)) == payload_of(ship, Order(number=7))
    assert arguments_of("ship", ship).call('{"number": 7}') == ((Order(number=7),), {})
    assert arguments_of("ship", ship).schema["required"] == ["number"]


def test_beside_other_arguments_a_model_has_its_own_name() -> None:
    def ship(job: Job, order: Order, fast: bool = False) -> None: ...

    assert payload_of(ship, Order(number=7))["order"]["number"] == 7


def test_names_of_pydantic_models_are_fine_as_arguments() -> None:
    def handler(job: Job, json: str, copy: int, _private: int, model_config: str, schema: str = "s") -> None: ...

    payload = payload_of(handler, "j", 1, 2, "m")
    assert payload == {"json": "j", "copy": 1, "_private": 2, "model_config": "m", "schema": "s"}


def test_an_alias_in_an_annotation_keeps_the_arguments_name() -> None:
    def handler(job: Job, value: Annotated[int, Field(gt=0, alias="other")]) -> None: ...

    arguments = arguments_of("handler", handler)
    assert arguments.payload((), {"value": 3}) == ({"value": 3}, True)
    assert arguments.call('{"value": 3}') == ((3,), {})


def test_a_default_that_changes_is_not_shared_between_calls() -> None:
    def handler(job: Job, names: list[str] = []) -> None: ...  # noqa: B006

    arguments = arguments_of("handler", handler)
    ((first,), _), ((second,), _) = arguments.call("{}"), arguments.call("{}")
    first.append("x")
    assert second == []


@pytest.mark.parametrize(
    ("args", "kwargs", "problem"),
    [
        ((), {}, "provider_id: missing"),
        ((5,), {}, "provider_id: input should be a valid string, got 5"),
        (("p",), {"pth": "/"}, 'pth: unknown argument (did you mean "path"?)'),
        (("p",), {"zzz": 1}, "zzz: unknown argument."),
        (("p", "/", 3), {}, "3 arguments by position, it takes 2"),
        (("p",), {"provider_id": "q"}, "provider_id: given twice, by position and by name"),
        ((), {"limit": "many", "x": 1}, "provider_id: missing; limit: "),
    ],
)
def test_what_does_not_fit_is_said_by_argument_with_what_would_fit(args: Any, kwargs: Any, problem: str) -> None:
    message = refusal(sync_folder, *args, **kwargs)
    assert message.startswith(f"LH-1001: sync_folder: {problem}")
    assert "It takes: provider_id: str, path: str = '/', limit: int | None = None." in message


class Loop(dict[str, Any]):
    def __init__(self) -> None:
        self["itself"] = self


def nested(depth: int) -> dict[str, Any]:
    return {} if depth == 0 else {"a": nested(depth - 1)}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (NotForJson(), "NotForJson object at"),
        ({"when": NOON}, "value['when']: datetime.datetime(2030, 1, 2, 12, 0, tzinfo=datetime.timezone.utc) would"),
        ([timedelta(1)], "value[0]: datetime.timedelta(days=1) would come back from JSON as 'P1D'"),
        ({1: "a"}, "value: {1: 'a'} would come back from JSON as {'1': 'a'}"),
        ({"a": {1, 2}}, "value['a']: {1, 2} would come back"),
        ({"a": b"x"}, "value['a']: b'x' would come back"),
        (float("nan"), "value: nan would come back from JSON as None"),
        ({"a": float("inf")}, "value['a']: inf would"),
        ({"a": "x\0y"}, "NUL character"),
        ({"a": "x\ud800y"}, "lone surrogate"),
        ({"a": 2**64}, "integer beyond 64 bits"),
        (nested(40), "nested deeper than 32 levels"),
        (nested(500), "can't be written as JSON"),
        (Loop(), "can't be written as JSON"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_json_can_not_hold_or_would_change_is_refused(value: Any, problem: str) -> None:
    def handler(job: Job, value: Any) -> None: ...

    with pytest.raises(NotJson, match="LH-1003") as refused:
        payload_of(handler, value)
    assert problem in str(refused.value)
    assert "Nothing was enqueued." in str(refused.value)
    assert len(str(refused.value)) < 600


def test_an_invalid_default_is_refused_when_it_is_used() -> None:
    def handler(job: Job, path: str = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013

    assert payload_of(handler, "/") == {"path": "/"}
    assert "path: input should be a valid string, got None" in refusal(handler)


def test_a_value_that_contradicts_its_schema_is_refused() -> None:
    def handler(job: Job, length: Annotated[timedelta, PlainSerializer(timedelta.total_seconds)]) -> None: ...

    definition = Leasehold().job(handler)
    with pytest.raises(PayloadInvalid, match="length"):
        definition.bind(timedelta(seconds=90))


def test_a_model_with_more_fields_than_the_handler_takes_is_refused() -> None:
    class Gift(Order):
        card: str

    def ship(job: Job, order: Order) -> None: ...

    assert "card: 'for you' would come back from JSON as None" in refusal(ship, Gift(number=1, card="for you"))


def test_nan_for_a_number_is_refused() -> None:
    def handler(job: Job, number: float) -> None: ...

    assert "number: input should be a finite number" in refusal(handler, float("nan"))


def test_more_than_256_kb_are_refused() -> None:
    def handler(job: Job, texts: list[str]) -> None: ...

    assert "300,014 bytes of JSON, at most 262,144 are kept" in refusal(handler, ["x" * 300_000])


class Login(BaseModel):
    user: str
    password: SecretStr


def with_secrets(
    job: Job, token: SecretStr, login: Login, more: tuple[SecretBytes, ...] = (), maybe: SecretStr | None = None
) -> None: ...


def test_secrets_at_any_depth_are_in_the_payload_to_be_encrypted() -> None:
    login = Login(user="ada", password=SecretStr("hunter2"))
    payload = payload_of(with_secrets, SecretStr("t0k3n"), login, (SecretBytes(b"raw"),))
    assert payload == {
        "token": "t0k3n",
        "login": {"user": "ada", "password": "hunter2"},
        "more": ["raw"],
        "maybe": None,
    }
    read = arguments_of("with_secrets", with_secrets).call(encode(payload))[0]
    assert read == (SecretStr("t0k3n"), login, (SecretBytes(b"raw"),), None)


def test_arguments_with_secrets_are_marked_in_the_schema() -> None:
    schema = arguments_of("with_secrets", with_secrets).schema
    assert secret_fields(schema) == {"token", "login", "more", "maybe"}
    assert schema["properties"]["token"]["x-secret"] is True


def test_a_job_with_secrets_does_not_show_them() -> None:
    definition = Leasehold().job(with_secrets)
    job = definition.bind(SecretStr("hunter2"), Login(user="ada", password=SecretStr("hunter2")))
    assert "hunter2" not in repr(job)
    assert not job.fits


@pytest.mark.parametrize("wrong", [{"token": ["hunter2"]}, {"login": {"user": "ada", "password": {"x": "hunter2"}}}])
def test_a_refused_secret_is_not_quoted(wrong: dict[str, Any]) -> None:
    given = {"token": "t", "login": {"user": "ada", "password": "p"}, **wrong}
    with pytest.raises(PayloadInvalid, match="should be a valid string") as refused:
        arguments_of("with_secrets", with_secrets).fill_defaults(given)
    assert "hunter2" not in str(refused.value)


def test_a_model_that_refuses_all_its_fields_quotes_none() -> None:
    class Checked(Login):
        @model_validator(mode="after")
        def refuse(self) -> "Checked":
            raise ValueError("they do not fit together")

    def handler(job: Job, login: Checked) -> None: ...

    with pytest.raises(PayloadInvalid, match="do not fit together") as refused:
        arguments_of("handler", handler).fill_defaults({"user": "ada", "password": "hunter2"})
    assert "hunter2" not in str(refused.value)


def test_a_secret_of_a_type_without_a_mark_is_refused() -> None:
    def handler(job: Job, born: Secret[date], anything: Any) -> None: ...

    with pytest.raises(PayloadInvalid) as refused:
        payload_of(handler, Secret(date(1815, 12, 10)), 1)
    assert "1815" not in str(refused.value)
    with pytest.raises(PayloadInvalid) as refused:
        payload_of(handler, date(1815, 12, 10), SecretStr("hunter2"))
    assert "hunter2" not in str(refused.value)


def test_a_payload_of_other_code_is_named_as_the_cause() -> None:
    with pytest.raises(PayloadInvalid, match="limits: unknown argument") as refused:
        arguments_of("sync_folder", sync_folder).call('{"provider_id": "p", "limits": 3}')
    assert "Deploy workers before producers" in str(refused.value)
    assert "Nothing was enqueued" not in str(refused.value)
