"""Events: names, patterns, data, and filters with the reason why data does not fit."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.errors import InvalidInput, PayloadInvalid
from leasehold.model.event import (
    MAX_CONDITIONS,
    MAX_NAME,
    MAX_WORDS,
    NewEvent,
    event_id,
    event_name,
    event_pattern,
    matches,
    patterns_of,
    read_filter,
)
from leasehold.model.path import Missing, look_up, parse_path

WORDS = st.lists(st.text("ab", min_size=1, max_size=2), min_size=1, max_size=4).map(".".join)


@pytest.mark.parametrize(
    "name",
    ["provider.folder.updated", "provider.connection.changed", "list.created", "images.ingest.completed", "ping"],
)
def test_a_name_is_dotted_words(name: str) -> None:
    assert event_name(name) == name


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "letters, digits"),
        (".", "letters, digits"),
        ("a..b", "letters, digits"),
        ("a.", "letters, digits"),
        ("a b", "letters, digits"),
        ("provider.*", "letters, digits"),
        ("größe.neu", "letters, digits"),
        ("a\n", "letters, digits"),
        ("a" * (MAX_NAME + 1), "201 characters"),
        (".".join("a" * (MAX_WORDS + 1)), "17 words"),
        (5, "is not text"),
    ],
)
def test_another_text_is_not_a_name(name: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=rf"(?s)The event name .*{why}.*Nothing was changed"):
        event_name(name)


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("list.created", "list.created", True),
        ("list.created", "list.created.again", False),
        ("provider.*", "provider.folder.updated", True),
        ("provider.*", "provider.x", True),
        ("provider.*", "provider", False),
        ("provider.*", "providers.x", False),
        ("provider.folder.*", "provider.folder.updated", True),
        ("provider.folder.*", "provider.connection.changed", False),
    ],
)
def test_a_pattern_is_a_name_or_ends_in_a_star(pattern: str, name: str, expected: bool) -> None:
    assert matches(event_pattern(pattern), name) is expected


@pytest.mark.parametrize("pattern", ["*", ".*", "*.created", "a.*.b", "a*", "a.**", "a.*.*", "", None])
def test_a_star_elsewhere_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidInput, match=r"The event pattern .* can't be used"):
        event_pattern(pattern)


@settings(deadline=None)
@given(WORDS, WORDS)
def test_the_patterns_of_a_name_are_all_that_match_it(name: str, words: str) -> None:
    for pattern in (words, f"{words}.*"):
        assert (pattern in patterns_of(name)) == matches(pattern, name)


def test_a_name_has_a_bounded_number_of_patterns() -> None:
    assert len(patterns_of(".".join("a" * MAX_WORDS))) == MAX_WORDS


def test_an_event_id_is_a_uuid() -> None:
    assert event_id("018F3C4E-0000-7000-8000-000000000000") == "018f3c4e-0000-7000-8000-000000000000"
    with pytest.raises(InvalidInput, match="is not an event id"):
        event_id("7")


@pytest.mark.parametrize("data", [[], "text", None, {"a": float("nan")}, {1: 2}, {"a": "\0"}, {"a": "x" * 300_000}])
def test_data_has_the_limits_of_a_payload(data: Any) -> None:
    with pytest.raises(PayloadInvalid, match=r"data.*Nothing was emitted"):
        NewEvent("list.created", data)


DATA = {
    "provider": "dropbox",
    "size": 120,
    "ratio": 0.5,
    "shared": True,
    "owner": None,
    "folder": {"path": "/a", "odd key": 1},
    "tags": ["new", "old"],
    "at": "2027-01-15T00:00:00Z",
}


@pytest.mark.parametrize(
    "given_filter",
    [
        {},
        {"provider": "dropbox"},
        {"provider": {"eq": "dropbox"}},
        {"provider": {"ne": "drive"}},
        {"provider": {"in": ["drive", "dropbox"]}},
        {"size": {"gt": 100, "lte": 120}},
        {"size": {"gte": 120.0, "lt": 120.5}},
        {"size": 120.0},
        {"shared": True},
        {"owner": None},
        {"owner": {"exists": True}},
        {"folder.path": "/a"},
        {'folder["odd key"]': 1},
        {"tags[1]": "old"},
        {"missing": {"exists": False}},
        {"tags[2]": {"exists": False}},
        {"at": {"gte": "2027-01-01", "lt": "2027-02-01"}},
        {"provider": "dropbox", "size": {"gt": 1}, "folder": {"exists": True}},
    ],
)
def test_a_filter_fits_if_all_comparisons_hold(given_filter: dict[str, Any]) -> None:
    assert read_filter(given_filter).why_not(DATA) is None


@pytest.mark.parametrize(
    ("given_filter", "why"),
    [
        ({"provider": "drive"}, 'provider = "drive" → provider is "dropbox"'),
        ({"provider": {"ne": "dropbox"}}, 'provider ≠ "dropbox" → provider is "dropbox"'),
        ({"provider": {"in": ["a", "b"]}}, 'provider in ["a","b"] → provider is "dropbox"'),
        ({"size": {"gt": 120}}, "size > 120 → size is 120"),
        ({"size": {"gte": 1, "lt": 100}}, "size < 100 → size is 120"),
        ({"size": "120"}, 'size = "120" → size is 120'),
        ({"size": {"gt": "1"}}, 'size > "1" → size is a number, and text is compared'),
        ({"shared": 1}, "shared = 1 → shared is true"),
        ({"shared": {"lt": 5}}, "shared < 5 → shared is true or false, and a number is compared"),
        ({"owner": {"gt": 0}}, "owner > 0 → owner is null, and a number is compared"),
        ({"sise": {"gt": 0}}, 'sise > 0 → sise is missing; did you mean "size"?'),
        ({"owner.name": "x"}, 'owner.name = "x" → owner is null, not an object'),
        ({"nothing": {"ne": 5}}, "nothing ≠ 5 → nothing is missing"),
        ({"size": {"exists": False}}, "size exists false → size is there"),
        ({"gone": {"exists": True}}, "gone exists true → gone is missing"),
        ({"tags[7]": "new"}, 'tags[7] = "new" → tags has 2 items, none at [7]'),
        ({"tags.0": "new"}, 'tags.0 = "new" → tags is a list, not an object'),
        ({"folder": {"eq": "/a"}}, 'folder = "/a" → folder is {"path":"/a","odd key":1}'),
        ({"provider": "dropbox", "size": 1}, "size = 1 → size is 120"),
    ],
)
def test_a_filter_says_why_data_does_not_fit(given_filter: dict[str, Any], why: str) -> None:
    assert read_filter(given_filter).why_not(DATA) == why


@pytest.mark.parametrize(
    ("given_filter", "why"),
    [
        ([], "is not a mapping"),
        ("size > 100", "is not a mapping"),
        ({"size": {"above": 1}}, "'above' is not a comparison .eq, ne, in"),
        ({"size": {}}, "'' is not a comparison"),
        ({"size": [1]}, "eq compares text, a number"),
        ({"size": {"eq": {}}}, "eq compares text, a number"),
        ({"size": {"gt": None}}, "gt compares a number or a text"),
        ({"size": {"gt": True}}, "gt compares a number or a text"),
        ({"size": {"gt": float("nan")}}, "gt compares a number or a text"),
        ({"size": {"in": []}}, "list of 1 to 100"),
        ({"size": {"in": "abc"}}, "list of 1 to 100"),
        ({"size": {"in": [[1]]}}, "in compares"),
        ({"size": {"exists": "yes"}}, "exists takes true or false"),
        ({"size": "x" * 2000}, "eq compares text"),
        ({5: 1}, "the path 5 is not text"),
        ({"a\ud800b": 1}, "has a NUL character or a lone surrogate"),
        ({"a..b": 1}, "can't be read as a path at character 2"),
        ({"": 1}, "1 to 500 characters"),
        ({f"f{n}": 1 for n in range(MAX_CONDITIONS + 1)}, "21 comparisons"),
        ({"a": {"gt": None}, "b": {"lt": []}}, "a: gt .*; b: lt"),
    ],
)
def test_a_filter_that_cannot_be_used_is_refused(given_filter: Any, why: str) -> None:
    with pytest.raises(InvalidInput, match=rf"The filter can't be used: .*{why}.*Nothing was changed"):
        read_filter(given_filter)


def test_a_filter_survives_json() -> None:
    found = read_filter({"provider": "dropbox", "size": {"gt": 1, "lt": 500}, "kind": {"in": ["a", "b"]}})

    assert read_filter(found.as_json()) == found
    assert read_filter(found) is found


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("a", ("a",)),
        ("a.b-c.d_e", ("a", "b-c", "d_e")),
        ("a[0][12].b", ("a", 0, 12, "b")),
        ('a["odd key"].b', ("a", "odd key", "b")),
        ('a["]\\""]', ("a", ']"')),
        ("a.0", ("a", "0")),
        ("größe", ("größe",)),
        ("__class__", ("__class__",)),
    ],
)
def test_a_path_has_keys_and_indexes(text: str, steps: tuple[str | int, ...]) -> None:
    assert parse_path(text) == steps


@pytest.mark.parametrize(
    "text",
    ["", ".", ".a", "a.", "a..b", "a[", "a[]", "a[-1]", "a[x]", "[0]", 'a[""b]', "a b", "a.[0]", "a{", "a[0]b"],
)
def test_another_text_is_not_a_path(text: str) -> None:
    with pytest.raises(ValueError, match="path"):
        parse_path(text)


def test_a_path_is_bounded() -> None:
    with pytest.raises(ValueError, match="33 steps"):
        parse_path(".".join("a" * 33))


@settings(deadline=None)
@given(st.text(max_size=30))
def test_any_text_is_a_path_or_refused(text: str) -> None:
    try:
        steps = parse_path(text)
    except ValueError:
        return
    assert isinstance(look_up({}, steps), Missing)


def test_a_path_never_reaches_an_attribute() -> None:
    assert look_up({"a": "text"}, ("a", "upper")) == Missing("a is text, not an object")
    assert look_up({}, ("__class__",)) == Missing("__class__ is missing")
