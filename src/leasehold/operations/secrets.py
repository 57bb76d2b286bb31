"""Encrypts the secrets of stored jobs by the first key, so that older keys can be removed."""

from collections.abc import Callable
from dataclasses import dataclass, field

from leasehold.errors import LeaseholdError
from leasehold.model.job import JobId
from leasehold.model.keyring import Keyring, Owner
from leasehold.model.payload import decode, encode_plain
from leasehold.store import Administration

BATCH = 500
SHOWN = 10
# A job that ends or is retried meanwhile changes its table; and a row that is locked is passed over.
PASSES = 3


@dataclass
class Rotation:
    """Counts of a rotation. `left` jobs still need another key; `unreadable` names those that no key decrypts."""

    encrypted: int = 0
    replaced: int = 0
    left: int = 0
    unreadable: list[JobId] = field(default_factory=list)


async def rotate(
    store: Administration, keys: Keyring, *, batch: int = BATCH, on_batch: Callable[[Rotation], None] | None = None
) -> Rotation:
    """Encrypts the secrets of all jobs, ended ones included, by the first key. Raises NoSecretKey.

    Reads and writes bounded batches by key, each in a transaction of its own, and waits for no lock. It can be
    stopped at any time, and repeated.
    """
    keys.require("a job")
    replaced = 0
    for _ in range(PASSES):
        done = await _pass(store, keys, batch, replaced, on_batch)
        replaced = done.replaced
        if not done.left or len(done.unreadable) == done.left:
            break
    return done


async def _pass(
    store: Administration, keys: Keyring, batch: int, replaced: int, on_batch: Callable[[Rotation], None] | None
) -> Rotation:
    done = Rotation(replaced=replaced)
    cursor: str | None = None
    while True:
        page = await store.encrypted_payloads(cursor, batch)
        done.encrypted += len(page.payloads)
        changes = []
        for stored in page.payloads:
            payload = decode(stored.payload)
            if keys.is_current(payload):
                continue
            try:
                changes.append((stored, encode_plain(keys.renew(payload, Owner(stored.tenant, stored.definition)))))
            except LeaseholdError:
                done.left += 1
                if len(done.unreadable) < SHOWN:
                    done.unreadable.append(stored.job)
        written = await store.replace_payloads(changes) if changes else 0
        done.replaced += written
        done.left += len(changes) - written
        if on_batch is not None:
            on_batch(done)
        if page.next is None:
            return done
        cursor = page.next
