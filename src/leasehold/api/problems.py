"""Errors as problem+json, with the codes of the command line."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from leasehold.config import process_redactor
from leasehold.errors import InvalidInput, LeaseholdError, MalformedRequest, TooManyRequests
from leasehold.operations import views
from leasehold.operations.statuses import statuses_of

log = logging.getLogger("leasehold.api")

TYPES = "urn:leasehold:error:"
MOST_PROBLEMS = 20
_TITLES = {
    400: "The request can't be read",
    401: "Not authenticated",
    403: "Not permitted",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    412: "Changed meanwhile",
    413: "Too large",
    422: "Invalid values",
    429: "Too many requests",
    500: "Internal error",
    503: "Not available",
    504: "Timed out",
}
_RETRY = {"Retry-After": "1"}


def answer_error(request: Request, error: LeaseholdError) -> Response:
    """Answers with the status of an error. Texts are redacted."""
    status = statuses_of(error).http
    headers: dict[str, str] = {}
    if isinstance(error, TooManyRequests):
        headers["Retry-After"] = str(max(1, round(error.retry_after)))
    elif status == 503:
        headers |= _RETRY
    elif status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return _problem(request, status, error.code, error.happened, error.fix, headers)


def answer_invalid(request: Request, error: RequestValidationError) -> Response:
    """Answers for values that do not fit the document of a route. Values are not repeated."""
    found = [_describe(each) for each in error.errors()[:MOST_PROBLEMS]]
    listed = "; ".join(f"{each['field']}: {each['message']}" for each in found)
    happened = f"{listed}. Nothing was done."
    return _problem(request, 422, InvalidInput.code, happened, "Correct the values.", {}, {"errors": found})


def answer_http(request: Request, error: HTTPException) -> Response:
    """Answers for an address or a method that the API does not have."""
    happened = f"{request.method} is not a request of this address. Nothing was done."
    fix = "The OpenAPI document lists all of them: /api/v1/openapi.json"
    return _problem(request, error.status_code, MalformedRequest.code, happened, fix, error.headers or {})


def answer_bug(request: Request, error: Exception) -> Response:
    """Answers for an unforeseen error: its text is only logged."""
    log.error("request %s failed", request_id(request), exc_info=error)
    happened = "the server failed; its log has the reason under this request id."
    return _problem(request, 500, "LH-0000", happened, "Report it, with the request id.", {})


def request_id(request: Request) -> str:
    return str(request.scope.get("state", {}).get("request_id", ""))


def _describe(error: Mapping[str, Any]) -> dict[str, str]:
    place: Sequence[object] = error["loc"]
    field = ".".join(str(part)[:60] for part in place[:8])
    return {"field": field, "message": str(error["msg"])[:300]}


def _problem(
    request: Request,
    status: int,
    code: str,
    happened: str,
    fix: str,
    headers: Mapping[str, str],
    more: Mapping[str, Any] | None = None,
) -> Response:
    document = {
        "type": f"{TYPES}{code}",
        "title": _TITLES.get(status, "The request was refused"),
        "status": status,
        "code": code,
        "detail": process_redactor().text(happened),
        "fix": fix,
        "request_id": request_id(request),
        **(more or {}),
    }
    return Response(views.as_json(document), status, dict(headers), "application/problem+json")
