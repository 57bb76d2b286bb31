"""Characters that people can't see are refused in names and keys, and shown as \\uXXXX."""

from collections.abc import Callable

import pytest

from leasehold.errors import InvalidInput
from leasehold.model.dedupe import Dedupe, canonical_key
from leasehold.model.definition import Definition
from leasehold.model.hidden import escape_hidden
from leasehold.model.job import stored_tenant_id, tenant_id

HIDDEN = {
    "zero-width space": "\u200b",
    "zero-width joiner": "\u200d",
    "right-to-left override": "\u202e",
    "isolate": "\u2066",
    "byte order mark": "\ufeff",
    "soft hyphen": "\u00ad",
    "line separator": "\u2028",
    "newline": "\n",
    "escape": "\x1b",
    "delete": "\x7f",
}
NAMES: dict[str, Callable[[str], object]] = {
    "tenant": tenant_id,
    "definition": lambda key: Definition(key).check_registrable(),
    "dedupe key": Dedupe,
}


@pytest.mark.parametrize("character", HIDDEN.values(), ids=HIDDEN)
@pytest.mark.parametrize("take", NAMES.values(), ids=NAMES)
def test_a_hidden_character_is_refused_by_its_number(take: Callable[[str], object], character: str) -> None:
    with pytest.raises(InvalidInput, match=r"Nothing was") as refusal:
        take(f"ac{character}me")

    assert character not in str(refusal.value)
    assert f"\\u{ord(character):04x}" in str(refusal.value) or "no control characters" in str(refusal.value)


@pytest.mark.parametrize("text", ["acme", "Müller & Söhne", "שלום", "日本", "été", "a b", "🚀"])
@pytest.mark.parametrize("take", NAMES.values(), ids=NAMES)
def test_visible_text_of_any_script_is_taken(take: Callable[[str], object], text: str) -> None:
    take(text)


def test_a_canonical_key_may_hold_any_text_of_a_payload() -> None:
    Dedupe(canonical_key("greet", "acme", {"name": "👩\u200d🚀"}))


def test_a_tenant_that_is_stored_already_can_be_read() -> None:
    assert stored_tenant_id("ac\u200bme") == "ac\u200bme"


def test_hidden_characters_are_written_as_their_numbers() -> None:
    assert escape_hidden("a\u202eb\nc\U000e0041") == r"a\u202eb\u000ac\U000e0041"
