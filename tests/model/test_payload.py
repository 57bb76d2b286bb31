"""Payloads are plain JSON: other values are refused with their field, and plain values come back unchanged."""

import json
import re
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from math import inf, nan
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.errors import NotJson, PayloadInvalid
from leasehold.model.payload import MAX_BYTES, MAX_DEPTH, decode, encode, encode_all, encode_result, is_huge


class Text(str):
    __slots__ = ()


class Number(IntEnum):
    ONE = 1


class Colour(Enum):
    RED = "red"


class Word(StrEnum):
    RED = "red"


@dataclass
class Point:
    x: int = 1


def nested_dicts(levels: int, innermost: Any = 1) -> Any:
    value = innermost
    for _ in range(levels):
        value = {"a": value}
    return value


def nested_lists(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def endless() -> dict[str, Any]:
    payload: dict[str, Any] = {}
    payload["a"] = payload
    return payload


def code_for(why: str) -> str:
    return PayloadInvalid.code if "bytes of JSON" in why else NotJson.code


NOT_JSON = [
    pytest.param({"a": object()}, "payload.a", "object is not JSON", id="object"),
    pytest.param({"a": datetime(2030, 1, 1, tzinfo=UTC)}, "payload.a", "datetime is not JSON", id="datetime"),
    pytest.param({"a": UUID(int=0)}, "payload.a", "UUID is not JSON", id="UUID"),
    pytest.param({"a": Decimal("1.5")}, "payload.a", "Decimal is not JSON", id="Decimal"),
    pytest.param({"a": b"bytes"}, "payload.a", "bytes is not JSON", id="bytes"),
    pytest.param({"a": {1, 2}}, "payload.a", "set is not JSON", id="set"),
    pytest.param({"a": Point()}, "payload.a", "Point is not JSON", id="dataclass"),
    pytest.param({"a": Text("x")}, "payload.a", "Text is not JSON", id="str subclass"),
    pytest.param({"a": OrderedDict(b=1)}, "payload.a", "OrderedDict is not JSON", id="dict subclass"),
    pytest.param({"a": Colour.RED}, "payload.a", "Colour is not JSON", id="enum"),
    pytest.param({"a": Number.ONE}, "payload.a", "Number is not JSON", id="int enum"),
    pytest.param({"a": Word.RED}, "payload.a", "Word is not JSON", id="str enum"),
    pytest.param({"a": nan}, "payload.a", "nan is not a JSON number", id="NaN"),
    pytest.param({"a": [0, inf]}, "payload.a[1]", "inf is not a JSON number", id="Infinity"),
    pytest.param({"a": {"b": -inf}}, "payload.a.b", "-inf is not a JSON number", id="-Infinity"),
    pytest.param({"a": ["x", {"b": "x\0y"}]}, "payload.a[1].b", "NUL character", id="NUL"),
    pytest.param({"a": {"x\0y": 1}}, "payload.a", "NUL character", id="NUL in a key"),
    pytest.param({"a": "x\ud800y"}, "payload.a", "lone surrogate", id="lone surrogate"),
    pytest.param({"a": {"x\udfffy": 1}}, "payload.a", "lone surrogate", id="lone surrogate in a key"),
    pytest.param({"a": {1: "x"}}, "payload.a", "key 1 is int", id="number as a key"),
    pytest.param({"a": {None: "x"}}, "payload.a", "key None is NoneType", id="None as a key"),
    pytest.param({"a": {Text("b"): 1}}, "payload.a", "is Text", id="str subclass as a key"),
    pytest.param({"a": {"b": [2**64]}}, "payload.a.b[0]", "integer beyond 64 bits", id="too large an integer"),
    pytest.param({"a": -(2**63) - 1}, "payload.a", "integer beyond 64 bits", id="too small an integer"),
    pytest.param(nested_dicts(33), "payload" + 32 * ".a", "deeper than 32 levels", id="33 dicts"),
    pytest.param({"a": nested_lists(32)}, "payload.a" + 31 * "[0]", "deeper than 32 levels", id="dict and 32 lists"),
    pytest.param(nested_dicts(10_000), "payload" + 32 * ".a", "deeper than 32 levels", id="10,000 dicts"),
    pytest.param(endless(), "payload" + 32 * ".a", "deeper than 32 levels", id="itself"),
    pytest.param({"a": "x" * MAX_BYTES}, "payload", "262,152 bytes of JSON", id="too large"),
    pytest.param({"a": "é" * (MAX_BYTES // 2)}, "payload", "262,152 bytes of JSON", id="too large in bytes"),
    pytest.param([1], "payload", "list is not a dict", id="a list"),
    pytest.param("text", "payload", "str is not a dict", id="a text"),
    pytest.param(None, "payload", "NoneType is not a dict", id="None"),
    pytest.param(MappingProxyType({"a": 1}), "payload", "mappingproxy is not a dict", id="another mapping"),
]


@pytest.mark.parametrize(("payload", "path", "why"), NOT_JSON)
def test_what_is_not_plain_json_is_refused_by_its_path(payload: Any, path: str, why: str) -> None:
    with pytest.raises(PayloadInvalid) as refusal:
        encode(payload)

    message = str(refusal.value)
    assert message.startswith(f"{code_for(why)}: {path}: ")
    assert why in message
    assert "Nothing was enqueued." in message


@pytest.mark.parametrize(("payload", "path", "why"), NOT_JSON)
def test_it_is_refused_among_others_as_it_is_alone(payload: Any, path: str, why: str) -> None:
    with pytest.raises(PayloadInvalid, match=re.escape(why)):
        encode_all([{"a": 1}, payload, {"a": 2}])


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ({}, "{}"),
        ({"b": 1, "a": None}, '{"b":1,"a":null}'),
        ({"a": (1, 2)}, '{"a":[1,2]}'),
        ({"a": [True, False, 1.5, -0.0, "é"]}, '{"a":[true,false,1.5,-0.0,"é"]}'),
        ({"a": 2**64 - 1, "b": -(2**63)}, '{"a":18446744073709551615,"b":-9223372036854775808}'),
        ({"": ""}, '{"":""}'),
    ],
)
def test_a_payload_is_written_as_compact_json_in_its_own_order(payload: dict[str, Any], text: str) -> None:
    assert encode(payload) == text


@pytest.mark.parametrize("innermost", [1, "x", None, {}], ids=repr)
def test_a_payload_may_be_nested_32_levels_deep(innermost: Any) -> None:
    levels = MAX_DEPTH - isinstance(innermost, dict)
    payload = nested_dicts(levels, innermost)
    assert decode(encode(payload)) == payload


def test_a_payload_of_exactly_256_kb_is_kept() -> None:
    assert len(encode({"a": "x" * (MAX_BYTES - len('{"a":""}'))})) == 256 * 1024


plain_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20),
    lambda children: (
        st.lists(children, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8),
            children,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(st.dictionaries(st.text("abé ", max_size=8), plain_json, max_size=4))
def test_any_plain_payload_comes_back_as_it_went_in(payload: dict[str, Any]) -> None:
    assert decode(encode(payload)) == payload


@given(st.dictionaries(st.text("abé ", max_size=8), plain_json, max_size=4))
def test_the_text_of_a_payload_is_what_any_reader_of_json_understands(payload: dict[str, Any]) -> None:
    assert json.loads(encode(payload)) == payload


@given(st.lists(st.dictionaries(st.text("abé \n\\", max_size=8), plain_json | st.text("\n\\"), max_size=4)))
def test_payloads_are_written_together_as_they_are_alone(payloads: list[dict[str, Any]]) -> None:
    assert encode_all(payloads) == [encode(payload) for payload in payloads]


@given(plain_json)
def test_any_plain_result_comes_back_as_it_went_in(result: Any) -> None:
    assert decode(encode_result(result)) == result


@given(plain_json)
def test_no_result_that_can_be_kept_is_huge(result: Any) -> None:
    assert not is_huge(result)


@pytest.mark.parametrize("most", [[0] * (MAX_BYTES // 2 - 1), {f"{n:06}": "" for n in range(21_000)}, "é" * 131_000])
def test_the_largest_results_are_not_huge(most: Any) -> None:
    assert not is_huge(most)
    assert len(encode_result(most).encode()) <= MAX_BYTES


ROW = [0] * 100_000
KEYED = dict.fromkeys(map(str, range(100_000)), ROW)


@pytest.mark.parametrize("huge", [[ROW] * 100_000, [KEYED] * 10_000, ["é" * 200_000] * 100_000])
def test_a_huge_result_is_refused_before_all_of_it_is_seen(huge: Any) -> None:
    """Each value has ten billion items or letters: visiting all of them would take an hour."""
    with pytest.raises(PayloadInvalid, match="far more than 262,144 bytes of JSON"):
        encode_result(huge)


@pytest.mark.parametrize(
    ("result", "path", "why"),
    [
        (UUID(int=0), "result", "UUID is not JSON"),
        ({"a": [nan]}, "result.a[0]", "nan is not a JSON number"),
        ("x" * MAX_BYTES, "result", "262,146 bytes of JSON"),
        (nested_dicts(33), "result" + 32 * ".a", "deeper than 32 levels"),
    ],
    ids=["UUID", "NaN", "too large", "too deep"],
)
def test_a_result_that_is_not_plain_json_is_refused_as_a_result(result: Any, path: str, why: str) -> None:
    with pytest.raises(PayloadInvalid) as refusal:
        encode_result(result)

    message = str(refusal.value)
    assert message.startswith(f"{code_for(why)}: {path}: ")
    assert why in message
    assert "The handler ran to its end." in message
    assert "enqueued" not in message
