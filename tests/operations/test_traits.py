"""Traits of jobs as people write them."""

from datetime import timedelta

import pytest

from leasehold.errors import InvalidInput
from leasehold.operations.traits import read_traits
from leasehold.store import Traits

WORKER = "0d5cf4a4-9f0b-4a5e-b2a1-0d5cf4a49f0b"


@pytest.mark.parametrize(
    ("name", "text", "traits"),
    [
        ("worker", f" {WORKER.upper()} ", Traits(worker=WORKER)),
        ("dedupe_key", "acme:sync", Traits(dedupe_key="acme:sync")),
        ("priority", "5", Traits(lowest_priority=5, highest_priority=5)),
        ("priority", "<50", Traits(highest_priority=49)),
        ("priority", ">-3", Traits(lowest_priority=-2)),
        ("priority", "1..9", Traits(lowest_priority=1, highest_priority=9)),
        ("priority", "..9", Traits(highest_priority=9)),
        ("duration", ">5m", Traits(shortest=timedelta(minutes=5))),
        ("duration", "<10s", Traits(longest=timedelta(seconds=10))),
        ("duration", "1m..", Traits(shortest=timedelta(minutes=1))),
        ("payload", "provider.id=a=b", Traits(payload_path=("provider", "id"), payload_value="a=b")),
    ],
)
def test_a_trait_is_read(name: str, text: str, traits: Traits) -> None:
    assert read_traits({name: text, "worker": text if name == "worker" else None}) == traits


def test_nothing_is_read_into_no_traits() -> None:
    assert read_traits({"worker": None, "other": "x"}) is None


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("worker", "lab-7", "is a UUID"),
        ("priority", "high", "write 5, <50"),
        ("priority", "..", "write 5, <50"),
        ("priority", ">99999999", "priority"),
        ("duration", "5m", "write >5m"),
        ("duration", ">soon", "is not a duration"),
        ("payload", "provider", "as in provider.id=p_9"),
        ("payload", "=p_9", "as in provider.id=p_9"),
        ("payload", "owner..id=3", "is empty"),
    ],
)
def test_a_text_that_is_not_a_trait_says_why(name: str, text: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        read_traits({name: text})


@pytest.mark.parametrize("path", ["api_key", "auth.password", "token", "x.$secret"])
def test_a_field_that_is_redacted_can_not_be_guessed(path: str) -> None:
    with pytest.raises(InvalidInput, match="holds a secret"):
        read_traits({"payload": f"{path}=guess"})
