"""The OpenAPI document: complete, valid, and true."""

import re
from typing import Any

import jsonschema_rs
import pytest
from tests.api.conftest import Client, make_app

from leasehold.model.access import Role

DOCUMENT: dict[str, Any] = make_app("postgresql://x/y").api().openapi()
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]
OPERATIONS = [
    (path, method, operation) for path, found in DOCUMENT["paths"].items() for method, operation in found.items()
]


def whole(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "components": {"schemas": SCHEMAS}}


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*(references(each) for each in value.values()))
    return set().union(*(references(each) for each in value)) if isinstance(value, list) else set()


def test_schemas_are_valid_and_references_lead_somewhere() -> None:
    assert DOCUMENT["openapi"].startswith("3.1")
    for schema in SCHEMAS.values():
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
    assert {each.removeprefix("#/components/schemas/") for each in references(DOCUMENT)} <= SCHEMAS.keys()


def test_every_example_fits_its_schema() -> None:
    examples = {name: schema["examples"] for name, schema in SCHEMAS.items() if "examples" in schema}
    assert {
        "EnqueueJob",
        "SaveTrigger",
        "EmitEvent",
        "Claims",
        "Complete",
        "Fail",
        "ProblemDocument",
    } <= examples.keys()
    for name, given in examples.items():
        for each in given:
            jsonschema_rs.validator_for(whole(SCHEMAS[name])).validate(each)


def test_every_operation_has_its_errors_and_permission() -> None:
    assert len({operation["operationId"] for _, _, operation in OPERATIONS}) == len(OPERATIONS)
    for path, _, operation in OPERATIONS:
        assert operation["summary"].endswith("."), path
        assert operation["responses"]["default"]["content"]["application/problem+json"], path
        assert operation["x-permission"], path
        assert set(re.findall(r"\{(\w+)\}", path)) == {
            each["name"] for each in operation.get("parameters", ()) if each["in"] == "path"
        }


def test_requests_refuse_unknown_fields() -> None:
    for path, _, operation in OPERATIONS:
        if "requestBody" in operation:
            for name in references(operation["requestBody"]):
                assert SCHEMAS[name.rpartition("/")[2]]["additionalProperties"] is False, path


@pytest.mark.parametrize(
    ("path", "role"),
    [
        ("/jobs", Role.VIEWER),
        ("/jobs/summary", Role.OPERATOR),
        ("/jobs/definitions", Role.VIEWER),
        ("/jobs/triggers", Role.TENANT_ADMIN),
        ("/events", Role.OPERATOR),
        ("/me", Role.WORKER),
        ("/admin/limits", Role.SUPER_ADMIN),
        ("/admin/workers", Role.SUPER_ADMIN),
        ("/admin/activity", Role.SUPER_ADMIN),
    ],
)
async def test_an_answer_fits_the_document(client: Client, path: str, role: Role) -> None:
    await client.enqueue()
    answer = await client.send("GET", path, role=role)
    schema = DOCUMENT["paths"][f"/api/v1{path}"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    jsonschema_rs.validator_for(whole(schema)).validate(answer.json())


async def test_a_problem_fits_the_document(client: Client) -> None:
    answer = await client.send("GET", "/jobs/not-an-id")
    jsonschema_rs.validator_for(whole(SCHEMAS["ProblemDocument"])).validate(answer.json())


async def test_the_document_is_served_to_those_who_have_a_token(client: Client) -> None:
    assert (await client.send("GET", "/openapi.json", role=Role.WORKER)).json() == client.api.openapi()
    assert (await client.http.get("/api/v1/openapi.json")).status_code == 401


def test_the_document_is_valid_openapi() -> None:
    from openapi_spec_validator import validate

    validate(DOCUMENT)


def test_operations_have_short_names() -> None:
    for _, _, operation in OPERATIONS:
        assert re.fullmatch(r"[a-z]+(_[a-z]+){1,3}", operation["operationId"]), operation["operationId"]
        assert len(operation["tags"]) == 1
