"""Keys that encrypt secret fields of payloads, by the library `cryptography`.

A token is `v1.<key id>.<data>`; the data are 16 bytes of salt and the result of AES-256-GCM. Each token has a key of
its own, which HMAC-SHA-256 derives from the keyring's key and the salt, so the number of tokens of one key is not
limited. Tenant, definition and field are authenticated: a token that is moved to another of them can't be decrypted.
"""

import hmac
import os
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple

import orjson

from leasehold.errors import InvalidInput, NoSecretKey, SecretUnreadable
from leasehold.model.dedupe import canonical_key
from leasehold.model.secret_fields import SEALED, is_sealed

KEY_VARIABLE = "LEASEHOLD_SECRET_KEY"
KEY_BYTES = 32
SALT_BYTES = 16
# Each derived key encrypts one message, so the nonce may always be the same.
_NONCE = bytes(12)
_VERSION = "v1"
_ANY_VERSION = re.compile(r"v\d{1,9}")


class Owner(NamedTuple):
    """The tenant and the definition of a job whose secrets are encrypted."""

    tenant: str
    definition: str


class Keyring:
    """One key or several: the first encrypts, all of them decrypt."""

    def __init__(self, keys: "tuple[bytes, ...]") -> None:
        self._keys = keys
        self._by_id = {_id_of(key): key for key in keys}

    @staticmethod
    def read(text: str) -> "Keyring":
        """Reads keys with commas between them. Raises InvalidInput, which does not show them, for unusable ones."""
        given = [part.strip() for part in text.split(",") if part.strip()]
        return Keyring(tuple(_read_key(part, number) for number, part in enumerate(given, 1)))

    def __bool__(self) -> bool:
        return bool(self._keys)

    def __repr__(self) -> str:
        return f"<keyring of {', '.join(self._by_id) or 'no keys'}>"

    @property
    def current(self) -> str:
        """The id of the key that encrypts."""
        return _id_of(self._first())

    def seal(
        self, payload: Mapping[str, Any], fields: frozenset[str], owner: Owner, repeatable: str | None = None
    ) -> dict[str, Any]:
        """Returns the payload with these fields encrypted. Raises NoSecretKey.

        With `repeatable`, an id that the caller chose for its request, equal requests give equal tokens.
        """
        return {
            name: {SEALED: self._encrypt(orjson.dumps(value), _aad(owner, name), repeatable)}
            if name in fields
            else value
            for name, value in payload.items()
        }

    def open(self, payload: Mapping[str, Any], fields: frozenset[str], owner: Owner) -> dict[str, Any]:
        """Returns the payload with these fields decrypted. Raises NoSecretKey, SecretUnreadable, InvalidInput."""
        return {
            name: self._open_field(name, value, owner) if name in fields else value for name, value in payload.items()
        }

    def is_current(self, payload: Mapping[str, Any], fields: frozenset[str]) -> bool:
        """Returns whether these fields of a stored payload are encrypted by the first key."""
        current = f"{_VERSION}.{self.current}."
        given = [value for name, value in payload.items() if name in fields]
        return all(is_sealed(value) and value[SEALED].startswith(current) for value in given)

    def renew(self, payload: Mapping[str, Any], fields: frozenset[str], owner: Owner) -> dict[str, Any]:
        """Returns a stored payload with these fields encrypted by the first key. Raises as `open` does."""
        return self.seal(self.open(payload, fields, owner), fields, owner)

    def dedupe_key(self, payload: Mapping[str, Any], fields: frozenset[str], owner: Owner) -> str:
        """Returns the canonical dedupe key of a plain payload, with an HMAC in place of each secret.

        Uses the last key: while a key is replaced, producers that have the new one and those that don't yet agree.
        """
        key = _derive(self._first(last=True), b"dedupe")
        hidden = {
            name: {"hmac": hmac.digest(key, _aad(owner, name) + _canonical(value), "sha256").hex()}
            if name in fields
            else value
            for name, value in payload.items()
        }
        return canonical_key(owner.definition, owner.tenant, hidden)

    def require(self, about: str) -> None:
        """Raises NoSecretKey if secrets can't be encrypted and decrypted here."""
        self._first(about=about)
        _cipher(bytes(KEY_BYTES))

    def _first(self, *, last: bool = False, about: str = "") -> bytes:
        if not self._keys:
            raise NoSecretKey(
                f"{about or 'a payload'} has secret fields, and {KEY_VARIABLE} is not set. "
                "Nothing was enqueued or run.",
                fix=f"Set {KEY_VARIABLE} for producers and workers: leasehold secrets new-key prints one.",
            )
        return self._keys[-1 if last else 0]

    def _encrypt(self, plain: bytes, aad: bytes, repeatable: str | None) -> str:
        key = self._first()
        if repeatable is None:
            salt = os.urandom(SALT_BYTES)
        else:
            told = b"\0".join([repeatable.encode(), aad, plain])
            salt = hmac.digest(_derive(key, b"salt"), told, "sha256")[:SALT_BYTES]
        data: bytes = _cipher(_derive(key, salt)).encrypt(_NONCE, plain, aad)
        return f"{_VERSION}.{_id_of(key)}.{urlsafe_b64encode(salt + data).decode().rstrip('=')}"

    def _open_field(self, name: str, value: Any, owner: Owner) -> Any:
        if not is_sealed(value):
            raise InvalidInput(
                f"payload.{name} is a secret field, and its value is not encrypted.",
                fix="Nothing was run. Enqueue the job from Python or by the command line.",
            )
        version, key_id, data = (*value[SEALED].split(".", 2), "", "")[:3]
        if not _ANY_VERSION.fullmatch(version):
            raise _undecryptable(name)
        if version != _VERSION:
            raise SecretUnreadable(
                f"payload.{name} was encrypted by a newer release ({version:.20}).", fix="Deploy workers first."
            )
        key = self._by_id.get(key_id)
        if key is None:
            self._first(about=owner.definition)
            raise SecretUnreadable(
                f"payload.{name} was encrypted by the key {key_id:.20}, and {KEY_VARIABLE} has "
                f"{', '.join(self._by_id)}.",
                fix="Nothing was run. Add that key to the variable, after the others.",
            )
        return orjson.loads(_decrypt(key, data, _aad(owner, name), name))


def new_secret_key() -> str:
    """Returns a new key, as text."""
    return urlsafe_b64encode(os.urandom(KEY_BYTES)).decode().rstrip("=")


def _read_key(text: str, number: int) -> bytes:
    try:
        key = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (NotBase64, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise InvalidInput(
            f"{KEY_VARIABLE}: key {number} is not {KEY_BYTES} bytes of base64. Nothing was opened.",
            fix="Make a key by: leasehold secrets new-key. Several have commas between them.",
        )
    return key


def _decrypt(key: bytes, data: str, aad: bytes, name: str) -> bytes:
    try:
        raw = urlsafe_b64decode(data + "=" * (-len(data) % 4))
        plain: bytes = _cipher(_derive(key, raw[:SALT_BYTES])).decrypt(_NONCE, raw[SALT_BYTES:], aad)
    except NoSecretKey:
        raise
    except Exception as error:  # not base64, too short, or an invalid tag
        raise _undecryptable(name) from error
    return plain


def _undecryptable(name: str) -> InvalidInput:
    return InvalidInput(
        f"payload.{name} can't be decrypted: it was changed, or belongs to another tenant, definition or field.",
        fix="Nothing was run. Enqueue the job again.",
    )


def _cipher(key: bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise NoSecretKey(
            "secret fields of payloads need the package cryptography, which is not installed. Nothing was done.",
            fix='Install it: pip install "leasehold[secrets]"',
        ) from error
    return AESGCM(key)


def _derive(key: bytes, salt: bytes) -> bytes:
    return hmac.digest(key, b"leasehold payload secret\0" + salt, "sha256")


def _id_of(key: bytes) -> str:
    return sha256(b"leasehold key id\0" + key).hexdigest()[:8]


def _aad(owner: Owner, field: str) -> bytes:
    return orjson.dumps([owner.tenant, owner.definition, field])


def _canonical(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
