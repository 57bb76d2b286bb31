"""The options of handlers in processes of their own."""

from typing import Any

import pytest

from leasehold.errors import InvalidInput
from leasehold.model.isolation import Isolation, read_isolation, read_size


def test_a_handler_is_not_isolated_unless_it_says_so() -> None:
    assert read_isolation(None, None) is None


def test_a_process_has_no_memory_limit_unless_one_is_given() -> None:
    assert read_isolation("process", None) == Isolation(memory=None)


@pytest.mark.parametrize(
    ("written", "size"),
    [("512MB", 512 * 2**20), ("2 GB", 2 * 2**30), ("1.5gb", 3 * 2**29), ("2048kb", 2**21), (2**20, 2**20)],
)
def test_sizes_are_text_or_bytes(written: str | int, size: int) -> None:
    assert read_size(written) == size
    assert read_isolation("process", written) == Isolation(memory=size)


@pytest.mark.parametrize(
    "value", ["512", "MB", "-1MB", "1023KB", "1TB", "٣MB", "", 0, 2**20 - 1, True, 1.5e9, b"1MB"]
)
def test_other_values_are_not_sizes(value: Any) -> None:
    with pytest.raises(InvalidInput, match="is not a size of at least 1 MB"):
        read_size(value)


@pytest.mark.parametrize("value", ["thread", "Process", True, ""])
def test_another_isolation_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match="is unknown"):
        read_isolation(value, None)


def test_a_memory_limit_needs_a_process() -> None:
    with pytest.raises(InvalidInput, match="memory='512MB' can't limit a handler"):
        read_isolation(None, "512MB")
