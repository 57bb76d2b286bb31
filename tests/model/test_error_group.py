"""Error groups: errors that differ only in values are alike."""

import pytest

from leasehold.errors import InvalidInput
from leasehold.model.error_group import error_group, without_values
from leasehold.store import Filter


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ("GET https://api.test/v2/p_9?x=1 timed out after 30 s", "GET * timed out after * s"),
        ("no file /srv/data/a.csv", "no file *"),
        ("KeyError: 'folder'", "KeyError: *"),
        ('column "size" of 12,5 at 10:04:22', "column * of * at *"),
        ("job 6f46a1d8-2b7e-7c4e-9a53-1d2f3e4c5b6a is gone", "job * is gone"),
        ("first\n   second\tthird", "first second third"),
    ],
)
def test_values_of_an_error_are_left_out(error: str, text: str) -> None:
    assert without_values(error) == text


def test_definition_and_code_tell_groups_apart() -> None:
    groups = {error_group(*each) for each in (("a", "X", "e"), ("b", "X", "e"), ("a", "Y", "e"), ("a", None, "e"))}
    assert len(groups) == 4
    assert error_group("a", "X", "after 1 s") == error_group("a", "X", "after 22 s")


@pytest.mark.parametrize("group", ["", "x" * 16, "5F0C9A3BE2D14471", "5f0c9a3be2d1447"])
def test_a_filter_takes_ids_of_groups_only(group: str) -> None:
    with pytest.raises(InvalidInput, match="16 hexadecimal digits"):
        Filter(error_group=group)
