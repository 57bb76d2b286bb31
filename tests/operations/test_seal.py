"""Sealing of jobs: only payloads with secrets are changed, and no other value stops it."""

from typing import Any

import pytest
from tests.tenant_kit import ACME

from leasehold.model.job import NewJob
from leasehold.operations.seal import seal


@pytest.mark.parametrize("payload", [{"a": 1}, {}, None, 7, "text", [1]])
def test_a_payload_without_secrets_stays_as_it_is(payload: Any) -> None:
    job = NewJob(definition="report", payload=payload)
    assert seal(job, ACME) is job
