"""Encrypts the secret fields of jobs, once their tenant is known."""

from dataclasses import replace
from typing import Any

from leasehold.config import keyring
from leasehold.model.job import NewJob, TenantId
from leasehold.model.keyring import Owner
from leasehold.model.secret_fields import Unsealed, unwrap


def seal(job: NewJob, tenant: TenantId) -> NewJob:
    """Returns the job with its secret fields encrypted. Raises NoSecretKey without a key.

    A dedupe key that the database would make of the payload is made here: it has HMACs of the secrets.
    """
    if type(job.payload) is not dict:  # is refused when it is encoded
        return job
    fields = frozenset(name for name, value in job.payload.items() if type(value) is Unsealed)
    if not fields:
        return job
    keys, owner, plain = keyring(), Owner(tenant, job.definition), unwrap(job.payload)
    keys.require(job.definition)
    changed: dict[str, Any] = {"payload": keys.seal(plain, fields, owner, repeatable=job.id)}
    if job.dedupe is not None and job.dedupe.key is None:
        changed["dedupe"] = replace(job.dedupe, key=keys.dedupe_key(plain, fields, owner))
    return job.with_fields(job.version, changed)
