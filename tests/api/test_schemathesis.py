"""Requests that Schemathesis generates from the OpenAPI document: every answer fits it, and none is a 5xx."""

from typing import TYPE_CHECKING, Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from tests.api.conftest import ACME, Client
from tests.api.generated import unhurried

from leasehold.api.routes import TOPICS, WHERE_HANDLERS_ARE
from leasehold.model.access import Role

if TYPE_CHECKING:
    from schemathesis import APIOperation, Case

TAGS = [topic.tag for topic in (*TOPICS, *WHERE_HANDLERS_ARE)]
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
)


async def furnish(client: Client) -> dict[str, str]:
    """Gives the tenant one of everything. Returns the parameters of paths that lead to it."""
    job = await client.enqueue(payload={"name": "june"}, correlation_id="shared")
    about = {"definition_key": "report", "payload_template": {"name": "june"}}
    saved = await client.send("POST", "/jobs/triggers", {"label": "wanted", "event_name": "report.wanted", **about})
    operation = await client.send("POST", "/operations", {"kind": "cancel", "correlation_id": "shared"})
    return {
        "job_id": job,
        "trigger_id": saved.json()["id"],
        "operation_id": operation.json()["id"],
        "definition_id": "report",
        "tenant_id": ACME,
        "kind": "tenant",
        "key": ACME,
        "token_id": (await client.token(Role.VIEWER)).split("_")[1],
    }


def generated_cases(
    operation: "APIOperation[Any, Any, Any, Any]", known: dict[str, str], examples: int
) -> "list[Case[Any]]":
    """Returns requests that fit the document, some of them about what exists, and requests that do not fit it."""
    from schemathesis import GenerationMode

    found: list[Case[Any]] = []
    asked = {name: value for name, value in known.items() if f"{{{name}}}" in operation.path}
    own = {"tenant": ACME} if any(each.name == "tenant" for each in operation.query) else None
    strategies = [operation.as_strategy(path_parameters=asked or None, query=own)]
    if asked or own:
        strategies.append(operation.as_strategy())
    if operation.body or operation.query or operation.path_parameters:
        strategies.append(operation.as_strategy(GenerationMode.NEGATIVE))
    for strategy in strategies:
        collect = settings(
            max_examples=examples,
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )(given(strategy)(lambda case: found.append(case)))
        collect()
    return found


def role_for(path: str) -> Role:
    if "/admin/" in path:
        return Role.SUPER_ADMIN
    return Role.WORKER if "/worker" in path or path.endswith("/tick") else Role.TENANT_ADMIN


async def send(client: Client, case: "Case[Any]", role: Role) -> httpx.Response:
    asked = case.as_transport_kwargs(base_url="http://api.test")
    headers = {name: str(value) for name, value in (asked.get("headers") or {}).items()}
    headers["Authorization"] = f"Bearer {await client.token(role)}"
    return await client.http.request(
        asked["method"],
        asked["url"],
        params=asked.get("params"),
        json=asked.get("json"),
        content=asked.get("data"),
        headers=headers,
    )


def without_tokens(document: dict[str, Any]) -> dict[str, Any]:
    """Returns the document as if it needed no tokens: every request has one, and test_access sends those without."""
    paths = {
        path: {
            method: {name: value for name, value in operation.items() if name != "security"}
            for method, operation in operations.items()
        }
        for path, operations in document["paths"].items()
    }
    return {**document, "paths": paths}


def is_stream(answer: httpx.Response) -> bool:
    return answer.status_code == 200 and answer.headers["content-type"].startswith("text/event-stream")


async def conform(client: Client, tag: str, examples: int) -> int:
    import schemathesis
    from schemathesis import checks as known
    from schemathesis.core.result import Ok

    known.load_all_checks()
    checks: list[Any] = list(known.CHECKS.get_by_names(CHECKS))
    # The schema of a stream is that of its text; Schemathesis compares it with each event, as an object.
    of_streams: list[Any] = list(
        known.CHECKS.get_by_names([name for name in CHECKS if name != "response_schema_conformance"])
    )
    schema = schemathesis.openapi.from_dict(without_tokens(client.api.openapi()))
    places, sent = await furnish(client), 0
    for result in schema.get_all_operations():
        assert isinstance(result, Ok), result
        operation = result.ok()
        if tag not in (operation.tags or ()):
            continue
        for case in generated_cases(operation, places, examples):
            answer = await send(client, case, role_for(operation.path))
            case.validate_response(answer, checks=of_streams if is_stream(answer) else checks)
            sent += 1
    return sent


@pytest.mark.parametrize("tag", TAGS)
async def test_generated_requests_get_answers_that_fit(database_url: str, tag: str) -> None:
    async with unhurried(database_url) as client:
        assert await conform(client, tag, 3)


@pytest.mark.faults
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("tag", TAGS)
async def test_many_generated_requests_get_answers_that_fit(database_url: str, tag: str) -> None:
    async with unhurried(database_url) as client:
        assert await conform(client, tag, 200)
