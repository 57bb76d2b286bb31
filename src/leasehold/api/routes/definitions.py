"""Definitions, for super admins; tenants read those that they can enqueue."""

from typing import Annotated, Any

from fastapi import Path, Response

from leasehold.api.admin_documents import DefinitionFields, NewDefinition, ResetFields
from leasehold.api.context import Asked
from leasehold.api.documents import DefinitionDocument, DefinitionsDocument
from leasehold.api.etags import IfMatch, etag, read_version
from leasehold.api.route import Routes, answer
from leasehold.errors import InvalidInput
from leasehold.model.access import Permission
from leasehold.operations import admin, views
from leasehold.operations import definitions as changes

routes = Routes("definitions")
Key = Annotated[str, Path(alias="definition_id", max_length=100, description="The key of the definition.")]
_SPELLINGS = {"arg_schema": "schema", "timeout_seconds": "timeout", "is_active": "active"}


@routes.add("GET", "/jobs/definitions", Permission.DEFINITIONS_READ, DefinitionsDocument)
async def list_definitions(context: Asked) -> Response:
    """Lists the definitions that jobs can be enqueued of, with their schemas."""
    found = await context.ask(admin.definitions)
    return answer({"definitions": [views.definition(each) for each in found]})


@routes.add("GET", "/admin/jobs/definitions", Permission.DEFINITIONS_WRITE, DefinitionsDocument)
async def list_all_definitions(context: Asked) -> Response:
    """Lists all definitions."""
    return await list_definitions(context)


@routes.add("GET", "/admin/jobs/definitions/{definition_id}", Permission.DEFINITIONS_WRITE, DefinitionDocument)
async def show_definition(context: Asked, key: Key) -> Response:
    """Shows the current version of a definition, and which fields the code or an administrator has set."""
    return _answer(await context.ask(lambda store: changes.details(store, key)))


@routes.add("POST", "/admin/jobs/definitions", Permission.DEFINITIONS_WRITE, DefinitionDocument, status=201)
async def create_definition(context: Asked, sent: NewDefinition) -> Response:
    """Creates a definition without code; workers that serve its key run its jobs."""
    fields = _fields(sent)
    return _answer(await context.ask(lambda store: changes.create(store, sent.key, fields, context.actor)), 201)


@routes.add("PATCH", "/admin/jobs/definitions/{definition_id}", Permission.DEFINITIONS_WRITE, DefinitionDocument)
async def override_definition(context: Asked, key: Key, sent: DefinitionFields, if_match: IfMatch = None) -> Response:
    """Sets fields in place of those of the code, until they are reset.

    With If-Match, answers 412 if the definition was changed meanwhile.
    """
    fields, seen = _fields(sent), read_version(if_match)
    return _answer(
        await context.ask(lambda store: changes.override(store, key, fields, context.actor, revision=seen))
    )


@routes.add("POST", "/admin/jobs/definitions/{definition_id}/reset", Permission.DEFINITIONS_WRITE, DefinitionDocument)
async def reset_definition(context: Asked, key: Key, sent: ResetFields, if_match: IfMatch = None) -> Response:
    """Gives fields the values of the code again; all fields if none is named."""
    seen = read_version(if_match)
    return _answer(
        await context.ask(lambda store: changes.reset(store, key, sent.fields, context.actor, revision=seen))
    )


@routes.add(
    "POST", "/admin/jobs/definitions/{definition_id}/activate", Permission.DEFINITIONS_WRITE, DefinitionDocument
)
async def activate_definition(context: Asked, key: Key) -> Response:
    """Lets a definition take new jobs, and starts those that waited."""
    return answer(
        views.definition(await context.ask(lambda store: changes.set_active(store, key, True, context.actor)))
    )


@routes.add(
    "POST", "/admin/jobs/definitions/{definition_id}/deactivate", Permission.DEFINITIONS_WRITE, DefinitionDocument
)
async def deactivate_definition(context: Asked, key: Key) -> Response:
    """Stops new jobs of a definition, and holds those that wait. Jobs that run go on."""
    return answer(
        views.definition(await context.ask(lambda store: changes.set_active(store, key, False, context.actor)))
    )


def _fields(sent: DefinitionFields) -> dict[str, Any]:
    """Returns the fields by their own names. Raises InvalidInput for one that is sent in two spellings."""
    fields = sent.model_dump(exclude_unset=True, exclude={"key"}, by_alias=True)
    for spelling, name in _SPELLINGS.items():
        if spelling in fields and name in fields:
            raise InvalidInput(
                f"{spelling} and {name} are the same field. Nothing was changed.", fix="Send one of them."
            )
        if spelling in fields:
            fields[name] = fields.pop(spelling)
    if isinstance(seconds := fields.get("timeout"), int):
        fields["timeout"] = f"{seconds}s"
    return fields


def _answer(found: changes.Details, status: int = 200) -> Response:
    document = views.definition_details(found.registered, found.origins)
    return answer(document, status, {"ETag": etag(found.registered.revision)})
