"""Errors of the client in our words, where a caller would act on them; and those that only this engine handles."""

from collections.abc import Mapping, Sequence
from typing import Any

from botocore import exceptions

from leasehold.engines.dynamodb.wire import Item, item_from_wire
from leasehold.errors import InvalidInput, LeaseholdError, SchemaMismatch, Unreachable, ValueRefused

CONDITION = "ConditionalCheckFailed"

# It may go better in a moment, and nothing was written.
_THROTTLED = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "ThrottlingException",
        "Throttling",
        "TransactionConflictException",
        "TransactionInProgressException",
        "LimitExceededException",
    }
)
_THROTTLED_REASONS = frozenset({"ProvisionedThroughputExceeded", "ThrottlingError", "TransactionConflict"})
# The service may have done what was asked for.
_FAILED = frozenset({"InternalServerError", "InternalFailure", "ServiceUnavailable", "RequestTimeout"})
_DENIED = frozenset(
    {
        "AccessDeniedException",
        "AccessDenied",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "MissingAuthenticationToken",
        "UnrecognizedClientException",
    }
)
LOST_REPLY = (
    exceptions.ConnectionClosedError,
    exceptions.HTTPClientError,
    exceptions.ReadTimeoutError,
    exceptions.ResponseStreamingError,
)
NOT_SENT = (exceptions.ConnectTimeoutError, exceptions.EndpointConnectionError, exceptions.ConnectionError)
_NO_CREDENTIALS = (
    exceptions.NoCredentialsError,
    exceptions.PartialCredentialsError,
    exceptions.CredentialRetrievalError,
    exceptions.NoRegionError,
    exceptions.ProfileNotFound,
)


class ConditionFailed(Exception):
    """The items are not as a write requires. `items` has each as it is, in the order of the write.

    `in_doubt`: an earlier try of the same request got no reply, so it may be this very write that changed the items.
    """

    def __init__(self, items: Sequence[Item | None], *, in_doubt: bool) -> None:
        super().__init__("the condition of a write does not hold")
        self.items = items
        self.in_doubt = in_doubt

    @property
    def item(self) -> Item | None:
        return self.items[0]


def code_of(error: exceptions.ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def is_throttle(error: exceptions.ClientError) -> bool:
    """Returns whether the request did nothing, and will be accepted later."""
    if code_of(error) == "TransactionCanceledException":
        reasons = {reason.get("Code") for reason in _reasons(error)}
        return CONDITION not in reasons and bool(reasons & _THROTTLED_REASONS)
    return code_of(error) in _THROTTLED


def is_failure(error: exceptions.ClientError) -> bool:
    """Returns whether the service failed, so that it is not known whether the request did anything."""
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return code_of(error) in _FAILED or int(status) >= 500


def failed_condition(error: exceptions.ClientError, *, in_doubt: bool) -> ConditionFailed | None:
    if code_of(error) == "ConditionalCheckFailedException":
        return ConditionFailed([_item_of(error.response.get("Item"))], in_doubt=in_doubt)
    if code_of(error) == "TransactionCanceledException":
        reasons = _reasons(error)
        if any(reason.get("Code") == CONDITION for reason in reasons):
            return ConditionFailed([_item_of(reason.get("Item")) for reason in reasons], in_doubt=in_doubt)
    return None


def _reasons(error: exceptions.ClientError) -> Sequence[Mapping[str, Any]]:
    reasons: Sequence[Mapping[str, Any]] = error.response.get("CancellationReasons", ())
    return reasons


def _item_of(found: Any) -> Item | None:
    return item_from_wire(found) if found else None


def in_our_words(error: Exception, table: str) -> LeaseholdError | None:
    """Returns the error for the caller; None for an error that passes as it is."""
    if isinstance(error, _NO_CREDENTIALS):
        return InvalidInput(
            f"AWS can't be asked ({type(error).__name__}: {error}). Nothing was changed.",
            fix="Configure credentials and a region as the AWS command line reads them, or add ?region=… to the URL.",
        )
    if isinstance(error, exceptions.ClientError):
        return _of_service(error, table)
    if isinstance(error, (*LOST_REPLY, *NOT_SENT, TimeoutError, OSError)):
        return unreachable(error)
    return None


def _of_service(error: exceptions.ClientError, table: str) -> LeaseholdError | None:
    code, message = code_of(error), str(error.response.get("Error", {}).get("Message", ""))
    if code == "ResourceNotFoundException":
        return missing_table(table)
    if code in _DENIED:
        return InvalidInput(
            f'AWS denies access to the table "{table}" ({code}: {message:.300}). Nothing was changed.',
            fix="Check the region of the URL and the policy of the role; docs/how-to/dynamodb.md lists the actions.",
        )
    if is_throttle(error) or is_failure(error):
        return unreachable(error)
    if code in ("ValidationException", "TransactionCanceledException", "ItemCollectionSizeLimitExceededException"):
        return ValueRefused(
            f"the table can't hold one of the values ({code}: {message:.300}). Nothing was changed.",
            fix="Correct the value.",
        )
    return None


def missing_table(table: str) -> SchemaMismatch:
    return SchemaMismatch(
        f'the table "{table}" does not exist. Nothing was changed.',
        fix="Run: leasehold migrate",
        code="LH-2001",
    )


def unreachable(error: Exception) -> Unreachable:
    why = f"{type(error).__name__}: {error!s:.300}"
    told = Unreachable(
        f"DynamoDB did not answer, or takes no more requests now ({why}). The request under way took effect "
        "wholly or not at all.",
        fix="Check the endpoint and region of LEASEHOLD_URL, and the capacity of the table.",
    )
    told.too_slow = isinstance(error, exceptions.ClientError)
    return told
