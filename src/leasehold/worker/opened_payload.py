"""Decrypts the secret fields of a job's payload. Only the worker that runs the job does this."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leasehold.config import keyring
from leasehold.model.job import Claim
from leasehold.model.keyring import Owner
from leasehold.model.secret_fields import secret_values
from leasehold.worker.job import Job


@dataclass(frozen=True, slots=True)
class OpenedPayload:
    """A payload in plain. `values` are the secrets in it, for a redactor: `redactor.with_values(*opened.values)`."""

    payload: Mapping[str, Any]
    secret_fields: frozenset[str]
    values: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<payload with secret fields {', '.join(sorted(self.secret_fields)) or 'none'}>"

    @property
    def public(self) -> dict[str, Any]:
        """The fields that may be shown, logged, or passed in an argv."""
        return {name: value for name, value in self.payload.items() if name not in self.secret_fields}

    @property
    def secret(self) -> dict[str, Any]:
        """The secret fields. They may be handed to a process by its environment or a file, and never by argv."""
        return {name: value for name, value in self.payload.items() if name in self.secret_fields}


def open_payload(claim: Claim, payload: Mapping[str, Any]) -> OpenedPayload:
    """Returns the stored payload of a claim in plain; it is not validated yet.

    Raises NoSecretKey or SecretUnreadable if a key is missing, and InvalidInput if a value is not what was encrypted.
    """
    fields = claim.definition.secret_fields
    if not fields:
        return OpenedPayload(payload, fields, ())
    opened = keyring().open(payload, fields, Owner(claim.tenant, claim.definition.key))
    return OpenedPayload(opened, fields, secret_values(claim.definition.schema, opened))


def open_secrets(job: Job, payload: Any) -> Any:
    """Returns the payload of a job in plain. From then on its secrets are redacted from all that the job stores."""
    if not isinstance(payload, dict):
        return payload
    opened = open_payload(job._claim, payload)
    job._redactor = job._redactor.with_values(*opened.values)
    return opened.payload
