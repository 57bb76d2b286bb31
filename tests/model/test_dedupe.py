"""The canonical key character by character, and how long a key is held."""

from datetime import timedelta
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.errors import InvalidInput, PayloadInvalid
from leasehold.model.dedupe import MAX_KEY, Always, Dedupe, Mode, WhileActive, Within, canonical_key

HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("definition", "tenant", "payload", "key"),
    [
        ("sync", "acme", {}, "sync::acme::{}"),
        ("sync", None, {}, "sync::global::{}"),
        ("sync", "default", {}, "sync::global::{}"),
        ("sync", "a", {"x": "y" * 983}, 'sync::a::{"x":"' + "y" * 983 + '"}'),
        ("sync", "a", {"x": "y" * 984}, "sync::a::sha256:" + sha256(b'{"x":"' + b"y" * 984 + b'"}').hexdigest()),
        ("sync", "acme", {"b": 1, "a": 2}, 'sync::acme::{"a":2,"b":1}'),
        (
            "drafts.generate",
            "5b1c3f0e-0000-4000-8000-000000000000",
            {"to": {"z": [{"d": 1, "c": None}, True], "a": 1.5}, "dry": False},
            "drafts.generate::5b1c3f0e-0000-4000-8000-000000000000"
            '::{"dry":false,"to":{"a":1.5,"z":[{"c":null,"d":1},true]}}',
        ),
        ("sync", "acme", {"é": "日本 😀", "e": "ü"}, 'sync::acme::{"e":"ü","é":"日本 😀"}'),
        ("sync", "acme", {"a": 'x"y\\z\n/'}, 'sync::acme::{"a":"x\\"y\\\\z\\n/"}'),
        ("sync", "acme", {"B": 1, "a": 2, "A": 3}, 'sync::acme::{"A":3,"B":1,"a":2}'),
    ],
)
def test_the_canonical_key_is_definition_tenant_and_sorted_json(
    definition: str, tenant: str | None, payload: dict[str, Any], key: str
) -> None:
    assert canonical_key(definition, tenant, payload) == key


@given(st.dictionaries(st.text("abcdé"), st.integers(-9, 9) | st.dictionaries(st.text("xyz"), st.booleans())))
def test_the_order_of_keys_does_not_change_the_canonical_key(payload: dict[str, Any]) -> None:
    turned = {
        name: dict(reversed(value.items())) if isinstance(value, dict) else value
        for name, value in reversed(payload.items())
    }
    assert canonical_key("sync", "acme", turned) == canonical_key("sync", "acme", payload)


def test_the_order_of_a_list_changes_the_canonical_key() -> None:
    assert canonical_key("sync", "acme", {"a": [1, 2]}) != canonical_key("sync", "acme", {"a": [2, 1]})


@pytest.mark.parametrize(
    ("definition", "tenant", "payload"),
    [("sinc", "acme", {"a": 1}), ("sync", "acne", {"a": 1}), ("sync", "acme", {})],
)
def test_definition_tenant_and_payload_change_the_canonical_key(
    definition: str, tenant: str, payload: dict[str, Any]
) -> None:
    assert canonical_key(definition, tenant, payload) != canonical_key("sync", "acme", {"a": 1})


def test_what_is_not_json_has_no_canonical_key() -> None:
    with pytest.raises(PayloadInvalid, match=r"payload\.a: nan is not a JSON number"):
        canonical_key("sync", "acme", {"a": float("nan")})


def test_a_bare_key_holds_while_its_job_is_active() -> None:
    assert Dedupe("invoice-7").mode == WhileActive()


def test_a_mode_without_a_key_means_the_canonical_one() -> None:
    assert Dedupe(mode=Within(HOUR)).key is None


@pytest.mark.parametrize(
    ("mode", "held_for"),
    [(WhileActive(), None), (Within(HOUR), HOUR), (Always(), None), (Always(HOUR), HOUR)],
    ids=str,
)
def test_a_mode_says_how_long_the_key_is_held(mode: Mode, held_for: timedelta | None) -> None:
    assert Dedupe("invoice-7", mode).held_for == held_for


@pytest.mark.parametrize("length", [timedelta(), timedelta(seconds=-1)], ids=str)
@pytest.mark.parametrize("mode", [Within, Always])
def test_a_window_that_holds_no_key_is_refused(mode: type[Within] | type[Always], length: timedelta) -> None:
    with pytest.raises(InvalidInput) as refusal:
        mode(length)

    assert str(length) in str(refusal.value)
    assert "Nothing was changed" in str(refusal.value)


@pytest.mark.parametrize("key", ["k", "k" * MAX_KEY, "日本::{}", " "], ids=lambda key: key[:10])
def test_a_key_of_1_to_1000_characters_is_accepted(key: str) -> None:
    assert Dedupe(key).key == key


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("", "0 characters"),
        ("k" * (MAX_KEY + 1), "1001 characters"),
        ("a\0b", "NUL character"),
        ("a\ud800b", "lone surrogate"),
    ],
    ids=["empty", "too long", "NUL", "lone surrogate"],
)
def test_a_key_that_cannot_be_stored_is_refused(key: str, why: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        Dedupe(key)

    assert why in str(refusal.value)
    assert "Nothing was enqueued" in str(refusal.value)
