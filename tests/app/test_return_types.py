"""A handler's result is checked by the type that the handler declares, where it is made."""

from collections import deque
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from uuid import UUID

import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    RootModel,
    TypeAdapter,
    field_serializer,
    field_validator,
    model_serializer,
)
from pydantic.alias_generators import to_camel

from leasehold import Job, JobFailed, Leasehold, Status
from leasehold.app.return_type import ReturnType
from leasehold.errors import PayloadInvalid
from leasehold.model.payload import UnfitResult, encode_result

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


class Level(IntEnum):
    LOW = 1


class Pair(NamedTuple):
    left: int
    right: str


class Order(BaseModel):
    number: int
    lines: list["Order"] = []


@dataclass
class Point:
    x: int


class Measuring:
    @classmethod
    def payload_model(cls) -> type[Order]:
        return Order

    async def handle(self, payload: Order) -> int:
        return "far"  # type: ignore[return-value]


def test_the_result_of_a_handler_class_is_checked_too(app: Leasehold) -> None:
    measure = app.add("measure", Measuring)
    placed = app.tenant("acme").enqueue(measure, Order(number=1))
    app.tick()
    job = app.tenant("acme").get(placed.id)
    assert (job.status, job.last_error_code) == (Status.FAILED, "result_invalid")


def test_a_result_of_another_type_fails_the_job_at_once(app: Leasehold) -> None:
    runs: list[int] = []

    @app.job(max_attempts=5)
    def measure(job: Job) -> int:
        runs.append(job.attempt)
        return "far"  # type: ignore[return-value]

    placed = app.tenant("acme").enqueue(measure)
    app.tick()
    job = app.tenant("acme").get(placed.id)
    assert (job.status, job.last_error_code, job.result, runs) == (Status.FAILED, "result_invalid", None, [1])
    assert job.last_error == (
        'result: measure is declared to return int, and returned "far" (str): input should be a valid integer. '
        "The handler ran to its end and is not run again: its effects may have happened."
    )
    with pytest.raises(JobFailed, match="result_invalid: result: measure is declared to return int"):
        placed.result(timeout=0)


@pytest.mark.parametrize(
    ("hint", "returned", "said"),
    [
        (int, "7", 'int, and returned "7" (str): input should be a valid integer'),
        (int, None, "int, and returned null (NoneType): input should be a valid integer"),
        (int, 1.5, "int, and returned 1.5 (float): input should be a valid integer"),
        (str, 7, "str, and returned 7 (int): input should be a valid string"),
        (list[int], [1, "2"], 'list[int], and returned [1,"2"] (list): [1]: input should be a valid integer'),
        (date, "soon", 'datetime.date, and returned "soon" (str): input should be a valid date'),
        (Point, {"x": "1"}, 'and returned {"x":"1"} (dict): [\'x\']: input should be a valid integer'),
        (str, ["x" * 90], 'str, and returned ["' + "x" * 77 + "… (list): input should be a valid string"),
    ],
)
def test_a_result_that_does_not_fit_is_described(hint: Any, returned: Any, said: str) -> None:
    written = ReturnType("measure", hint).write(returned)
    assert isinstance(written, UnfitResult)
    assert said in written.why


AS_NUMBER = PlainSerializer(lambda moment: moment.timestamp())


@pytest.mark.parametrize(
    ("hint", "returned"),
    [
        (int, 7),
        (int, Level.LOW),
        (float, 7),
        (float, 7.5),
        (int | None, None),
        (int | str, "7"),
        (Any, "7"),
        (date, date(2030, 1, 1)),
        (datetime, NOON),
        (Annotated[datetime, AS_NUMBER], NOON),
        (timedelta, timedelta(hours=1)),
        (Decimal, Decimal("1.50")),
        (UUID, UUID(int=7)),
        (Path, Path("a/b")),
        (bytes, b"abc"),
        (Level, Level.LOW),
        (tuple[int, str], (1, "a")),
        (Pair, Pair(1, "a")),
        (list[int], (1, 2)),
        (set[str], {"a"}),
        (dict[int, str], {1: "a"}),
        (dict[str, Any], {"a": [1, None]}),
        (Point, Point(1)),
        (Order, Order(number=1, lines=[Order(number=2)])),
        (Order, {"number": 1}),
        (object, {"a": 1}),
    ],
)
def test_a_result_that_a_reader_gets_back_is_taken(hint: Any, returned: Any) -> None:
    type_ = ReturnType("measure", hint)
    written = type_.write(returned)
    assert not isinstance(written, UnfitResult), written
    type_.read(written)


@pytest.mark.parametrize("hint", [None, type(None), Any])
def test_a_handler_that_declares_nothing_is_not_checked(hint: Any) -> None:
    assert ReturnType.of("measure", hint) is None


class Invoice(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)
    order_number: int


class Account(BaseModel):
    name: str
    secret: str = Field(exclude=True)


def test_a_model_that_is_read_by_alias_is_written_by_alias() -> None:
    returns = ReturnType.of("bill", Invoice)
    assert returns is not None
    stored = returns.write(Invoice.model_validate({"orderNumber": 7}))
    assert stored == {"orderNumber": 7}
    assert returns.read(stored) == Invoice.model_validate({"orderNumber": 7})


def test_a_model_that_leaves_a_field_out_is_a_result_all_the_same() -> None:
    returns = ReturnType.of("join", Account)
    assert returns is not None
    assert returns.write(Account(name="ann", secret="x")) == {"name": "ann"}


class Odd(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def raise_what_no_validator_should(cls, number: int) -> int:
        if number == 7:
            raise KeyError("seven")
        return number


def test_a_validator_that_raises_does_not_run_the_handler_again() -> None:
    returns = ReturnType.of("odd", Odd)
    assert returns is not None
    unfit = returns.write({"number": 7})
    assert isinstance(unfit, UnfitResult)
    assert "raised KeyError" in unfit.why


# ---------------------------------------------------------------------------------------------------- huge results

NUMBERS = [0] * 200_000


@dataclass
class Measured:
    numbers: list[int]


@dataclass(slots=True)
class Slotted:
    measured: Measured


class Rows(BaseModel):
    rows: list[int] | set[int] | frozenset[int] | deque[int] = []
    within: "Rows | None" = None


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class Root(RootModel[list[int]]): ...


class Columns(NamedTuple):
    left: list[int]
    right: int


class Named(BaseModel):
    """Has fields of the names that pydantic's schema uses for its own ends."""

    type: int = 1
    ref: int = 1
    cls: int = 1
    fields_: int = 1
    schema_ref: int = 1
    serialization: int = 1
    default: list[int] = []


HUGE: list[tuple[Any, Any]] = [
    (Named, Named.model_construct(default=NUMBERS)),
    (Measured, Measured(NUMBERS)),
    (list[Slotted], [Slotted(Measured(NUMBERS))]),
    (Rows, Rows.model_construct(rows=NUMBERS)),
    (Rows, Rows.model_construct(within=Rows.model_construct(rows=NUMBERS))),
    (dict[str, Rows], {"a": Rows.model_construct(rows=deque(NUMBERS))}),
    (Open, Open.model_construct(rows=NUMBERS)),
    (Root, Root.model_construct(NUMBERS)),
    (Columns, Columns(NUMBERS, 1)),
    (set[int], set(range(200_000))),
    (frozenset[int], frozenset(range(200_000))),
    (list[Point], [Point(1)] * 130_000),
    (bytes, b"0" * 1_000_000),
]


@pytest.mark.parametrize(("hint", "huge"), HUGE, ids=lambda value: getattr(value, "__name__", ""))
def test_a_huge_result_is_not_dumped(hint: Any, huge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    returns = ReturnType.of("report", hint)
    assert returns is not None
    monkeypatch.setattr(TypeAdapter, "dump_python", lambda *_, **__: pytest.fail("it was dumped as a whole"))
    written = returns.write(huge)
    with pytest.raises(PayloadInvalid, match="far more than 262,144 bytes of JSON"):
        encode_result(written)


@dataclass
class Wider(Measured):
    numbers: list[int]
    more: list[int]


class Slim(BaseModel):
    """Writes itself without its many numbers."""

    name: str
    hidden: list[int] = Field(default=[], exclude=True)
    counted: Annotated[list[int], PlainSerializer(len)] = []
    cached: list[int] = []

    @field_serializer("cached")
    def _count(self, cached: list[int]) -> int:
        return len(cached)


class Summed(BaseModel):
    numbers: list[int]

    @model_serializer
    def _sum(self) -> dict[str, Any]:
        return {"numbers": [sum(self.numbers)]}


@pytest.mark.parametrize(
    ("hint", "returned", "kept"),
    [
        (Slim, Slim.model_construct(name="a", hidden=NUMBERS), {"name": "a", "counted": 0, "cached": 0}),
        (Summed, Summed.model_construct(numbers=NUMBERS), {"numbers": [0]}),
        (Measured, Wider([1], NUMBERS), {"numbers": [1]}),
    ],
    ids=["excluded", "serializer", "subclass"],
)
def test_a_result_that_is_small_once_it_is_written_is_kept(hint: Any, returned: Any, kept: Any) -> None:
    returns = ReturnType.of("report", hint)
    assert returns is not None
    assert not returns.is_huge(returned)
    if hint is not Slim:  # its own JSON does not lead back to it
        assert returns.write(returned) == kept


@pytest.mark.parametrize("field", ["counted", "cached"])
def test_a_field_that_writes_itself_is_not_looked_into(field: str) -> None:
    returns = ReturnType.of("report", Slim)
    assert returns is not None
    assert not returns.is_huge(Slim(name="a").model_copy(update={field: NUMBERS}))
