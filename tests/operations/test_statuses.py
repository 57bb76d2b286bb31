"""Exit codes and HTTP statuses of errors."""

import pytest

from leasehold import errors
from leasehold.errors import LeaseholdError
from leasehold.operations.statuses import statuses_of

EXPECTED = {
    "InvalidInput": (2, 422),
    "PayloadInvalid": (2, 422),
    "NotJson": (2, 422),
    "NoTenant": (2, 422),
    "UnknownJob": (3, 404),
    "UnknownDefinition": (3, 404),
    "UnknownTenant": (3, 404),
    "UnknownOperation": (3, 404),
    "TenantDeleted": (4, 409),
    "InactiveDefinition": (4, 409),
    "WrongState": (4, 409),
    "DuplicateJob": (4, 409),
    "IdReused": (4, 409),
    "ChangedMeanwhile": (4, 412),
    "SchemaMismatch": (6, 503),
    "Unreachable": (7, 503),
    "EmbeddedError": (7, 503),
    "ResultTimeout": (8, 504),
    "JobFailed": (9, 409),
    "TransactionConflict": (1, 503),
    "RegistrationLost": (1, 409),
    "NotAuthenticated": (5, 401),
    "NotPermitted": (5, 403),
    "TooManyRequests": (5, 429),
    "UnknownToken": (3, 404),
    "MalformedRequest": (2, 400),
    "RequestTooLarge": (2, 413),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_an_error_has_one_exit_code_and_one_http_status(name: str) -> None:
    kind: type[LeaseholdError] = getattr(errors, name)
    assert statuses_of(kind("It happened.", fix="Mend it.")) == EXPECTED[name]
