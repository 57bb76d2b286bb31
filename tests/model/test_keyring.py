"""Keys: the first encrypts, all decrypt, and a token is bound to its tenant, definition and field."""

import sys

import pytest

from leasehold.errors import InvalidInput, NoSecretKey, SecretUnreadable
from leasehold.model.keyring import Keyring, Owner, new_secret_key

OLD, NEW = new_secret_key(), new_secret_key()
ACME = Owner("acme", "sync")
PLAIN = {"user": "ada", "token": "hunter2", "database": {"password": "pä"}}
FIELDS = frozenset({"token", "database", "missing"})


def test_secret_fields_are_encrypted_and_decrypted() -> None:
    keys = Keyring.read(NEW)
    sealed = keys.seal(PLAIN, FIELDS, ACME)
    assert sealed["user"] == "ada"
    assert sealed["token"].keys() == sealed["database"].keys() == {"$secret"}
    assert "hunter2" not in str(sealed)
    assert keys.open(sealed, FIELDS, ACME) == PLAIN


def test_equal_values_give_different_tokens() -> None:
    keys = Keyring.read(NEW)
    assert keys.seal(PLAIN, FIELDS, ACME) != keys.seal(PLAIN, FIELDS, ACME)


def test_a_repeated_request_gives_equal_tokens() -> None:
    keys = Keyring.read(NEW)
    again = [keys.seal(PLAIN, FIELDS, ACME, repeatable=each)["token"] for each in ("id-1", "id-1", "id-2")]
    assert again[0] == again[1] != again[2]


@pytest.mark.parametrize("thief", [Owner("other", "sync"), Owner("acme", "report")])
def test_a_token_of_another_owner_can_not_be_decrypted(thief: Owner) -> None:
    keys = Keyring.read(NEW)
    with pytest.raises(InvalidInput, match=r"payload.token can't be decrypted: .* another tenant"):
        keys.open(keys.seal(PLAIN, FIELDS, ACME), FIELDS, thief)


def test_a_token_of_another_field_can_not_be_decrypted() -> None:
    keys = Keyring.read(NEW)
    sealed = keys.seal(PLAIN, FIELDS, ACME)
    with pytest.raises(InvalidInput, match="can't be decrypted"):
        keys.open({"token": sealed["database"]}, FIELDS, ACME)


@pytest.mark.parametrize(
    "token", ["v1.{id}.", "v1.{id}.AAAA", "v1.{id}.{data}A", "v1.{id}.!", "v1.{id}", "…", "of.no.version"]
)
def test_a_damaged_token_is_refused(token: str) -> None:
    keys = Keyring.read(NEW)
    _, key_id, data = keys.seal({"token": "x"}, FIELDS, ACME)["token"]["$secret"].split(".")
    with pytest.raises(InvalidInput, match="can't be decrypted"):
        keys.open({"token": {"$secret": token.format(id=key_id, data=data)}}, FIELDS, ACME)


def test_a_plain_value_in_a_secret_field_is_refused() -> None:
    with pytest.raises(InvalidInput, match="its value is not encrypted") as refused:
        Keyring.read(NEW).open({"token": "hunter2"}, FIELDS, ACME)
    assert "hunter2" not in str(refused.value)


def test_older_keys_decrypt_until_they_are_removed() -> None:
    sealed = Keyring.read(OLD).seal(PLAIN, FIELDS, ACME)
    both = Keyring.read(f"{NEW}, {OLD}")
    assert both.open(sealed, FIELDS, ACME) == PLAIN
    assert not both.is_current(sealed, FIELDS)
    renewed = both.renew(sealed, FIELDS, ACME)
    assert both.is_current(renewed, FIELDS)
    assert Keyring.read(NEW).open(renewed, FIELDS, ACME) == PLAIN
    with pytest.raises(SecretUnreadable, match="was encrypted by the key"):
        Keyring.read(NEW).open(sealed, FIELDS, ACME)


def test_a_token_of_a_newer_release_is_named_so() -> None:
    with pytest.raises(SecretUnreadable, match=r"encrypted by a newer release \(v2\)"):
        Keyring.read(NEW).open({"token": {"$secret": "v2.x"}}, FIELDS, ACME)


def test_without_a_key_secrets_are_refused() -> None:
    none = Keyring.read("")
    with pytest.raises(NoSecretKey, match="LEASEHOLD_SECRET_KEY is not set"):
        none.seal(PLAIN, FIELDS, ACME)
    with pytest.raises(NoSecretKey, match="sync has secret fields"):
        none.require("sync")
    assert not none
    assert Keyring.read(NEW)


def test_without_the_library_secrets_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(NoSecretKey, match=r"leasehold\[secrets\]"):
        Keyring.read(NEW).require("sync")


@pytest.mark.parametrize("text", ["hunter2", f"{NEW},short", "ä" * 43], ids=["word", "second", "umlauts"])
def test_a_text_that_is_not_a_key_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not 32 bytes of base64") as refused:
        Keyring.read(text)
    assert text.split(",")[-1] not in str(refused.value)


def test_keys_do_not_show_themselves() -> None:
    assert NEW not in repr(Keyring.read(NEW))


def test_dedupe_keys_have_no_secrets_and_differ_by_them() -> None:
    keys = Keyring.read(NEW)
    key = keys.dedupe_key(PLAIN, FIELDS, ACME)
    assert key.startswith("sync::acme::")
    assert "hunter2" not in key
    assert key == keys.dedupe_key({**PLAIN}, FIELDS, ACME)
    assert key != keys.dedupe_key({**PLAIN, "token": "hunter3"}, FIELDS, ACME)
    assert key != Keyring.read(OLD).dedupe_key(PLAIN, FIELDS, ACME)


def test_dedupe_keys_stay_while_a_new_key_is_rolled_out() -> None:
    before, during = Keyring.read(OLD), Keyring.read(f"{NEW},{OLD}")
    assert before.dedupe_key(PLAIN, FIELDS, ACME) == during.dedupe_key(PLAIN, FIELDS, ACME)
