"""Encrypts the secrets of stored jobs by the first key, so that older keys can be removed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import orjson

from leasehold.errors import InvalidInput, SecretUnreadable
from leasehold.model.audit import Actor
from leasehold.model.job import JobId
from leasehold.model.keyring import Keyring, Owner
from leasehold.model.payload import decode, encode_plain
from leasehold.model.secret_fields import secret_fields
from leasehold.operations.audit import record
from leasehold.store import Administration, StoredPayload

BATCH = 500
SHOWN = 10
# A job that ends or is retried meanwhile changes its table; and a row that is locked is passed over.
PASSES = 3


@dataclass
class Rotation:
    """Counts of a rotation.

    left         jobs that need another key still
    unreadable   the first of them whose key is missing here
    passed       jobs with a value that is not a secret, or that no key can decrypt: a definition without secret
                 fields may have {"$secret": …} in its payloads
    passed_over  the first of them
    """

    encrypted: int = 0
    replaced: int = 0
    left: int = 0
    unreadable: list[JobId] = field(default_factory=list)
    passed: int = 0
    passed_over: list[JobId] = field(default_factory=list)


async def rotate(
    store: Administration,
    keys: Keyring,
    *,
    batch: int = BATCH,
    on_batch: Callable[[Rotation], None] | None = None,
    actor: Actor | None = None,
) -> Rotation:
    """Encrypts the secrets of all jobs, ended ones included, by the first key. Raises NoSecretKey.

    Reads and writes bounded batches by key, each in a transaction of its own, and waits for no lock. It can be
    stopped at any time, and repeated. With an actor, the audit log gets an entry when it is over.
    """
    keys.require("a job")
    replaced = 0
    for _ in range(PASSES):
        done = await _pass(store, keys, batch, replaced, on_batch)
        replaced = done.replaced
        if not done.left or len(done.unreadable) == done.left:
            break
    if actor is not None:
        counts = {"encrypted": done.encrypted, "replaced": done.replaced, "left": done.left, "key": keys.current}
        await record(store, actor, "secrets.rotate", "secrets of all jobs", after=counts)
    return done


async def _pass(
    store: Administration, keys: Keyring, batch: int, replaced: int, on_batch: Callable[[Rotation], None] | None
) -> Rotation:
    done = Rotation(replaced=replaced)
    cursor: str | None = None
    while True:
        page = await store.encrypted_payloads(cursor, batch)
        found = [(stored, _renewed(stored, keys, done)) for stored in page.payloads]
        changes = [(stored, renewed) for stored, renewed in found if renewed is not None]
        written = await store.replace_payloads(changes) if changes else 0
        done.replaced += written
        done.left += len(changes) - written
        if on_batch is not None:
            on_batch(done)
        if page.next is None:
            return done
        cursor = page.next


def _renewed(stored: StoredPayload, keys: Keyring, done: Rotation) -> str | None:
    """Returns the payload encrypted by the first key; None if it is already, or can't be. Counts it."""
    payload = decode(stored.payload)
    fields = _secret_fields(stored.schema) & payload.keys()
    if fields and keys.is_current(payload, fields):
        done.encrypted += 1
        return None
    try:
        renewed = keys.renew(payload, fields, Owner(stored.tenant, stored.definition)) if fields else None
    except SecretUnreadable:
        done.encrypted += 1
        done.left += 1
        done.unreadable += [stored.job][: SHOWN - len(done.unreadable)]
        return None
    except InvalidInput:
        renewed = None
    if renewed is None:
        done.passed += 1
        done.passed_over += [stored.job][: SHOWN - len(done.passed_over)]
        return None
    done.encrypted += 1
    return encode_plain(renewed)


@lru_cache(256)
def _secret_fields(schema: str | None) -> frozenset[str]:
    return frozenset() if schema is None else secret_fields(orjson.loads(schema))
