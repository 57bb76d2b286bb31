"""API tokens, for super admins."""

from typing import Annotated

from fastapi import Query, Response

from leasehold.api.admin_documents import CreateToken, RotateToken, TokenDocument, TokenPath, TokensDocument
from leasehold.api.context import Asked
from leasehold.api.documents import Limit, OfTenant
from leasehold.api.route import Routes, answer
from leasehold.model.access import Permission, read_permissions
from leasehold.model.duration import read_duration
from leasehold.model.job import tenant_id
from leasehold.model.token import TokenId, token_id
from leasehold.operations import tokens

routes = Routes("tokens")


@routes.add("GET", "/admin/tokens", Permission.TOKENS_READ, TokensDocument)
async def list_tokens(
    context: Asked,
    limit: Limit = 50,
    cursor: Annotated[str | None, Query(max_length=40, description="`next` of the page before.")] = None,
    tenant: OfTenant = None,
) -> Response:
    """Lists tokens, expired and revoked ones too."""
    after = None if cursor is None else token_id(cursor)
    found = await context.ask(lambda store: tokens.list_all(store, limit, after, tenant))
    documents = [tokens.as_document(each) for each in found]
    return answer({"tokens": documents, "next": found[-1].id if len(found) == limit else None})


@routes.add("POST", "/admin/tokens", Permission.TOKENS_WRITE, TokenDocument, status=201)
async def create_token(context: Asked, sent: CreateToken) -> Response:
    """Creates a token. Its text is in this answer only: the database has a hash of it."""
    actor, owner = context.actor, None if sent.tenant is None else tenant_id(sent.tenant)
    record, text = await context.ask(
        lambda store: tokens.create(
            store,
            sent.name,
            sent.role,
            tenant=owner,
            permissions=None if sent.permissions is None else read_permissions(sent.role, sent.permissions),
            definitions=None if sent.definitions is None else tuple(sent.definitions),
            life=read_duration(sent.life),
            created_by=actor.name,
            actor=actor,
        )
    )
    return answer({**tokens.as_document(record), "token": str(text)}, 201)


@routes.add("POST", "/admin/tokens/{token_id}/rotate", Permission.TOKENS_WRITE, TokenDocument)
async def rotate_token(context: Asked, token: TokenPath, sent: RotateToken) -> Response:
    """Gives a token a new secret; the one before stays valid for the overlap."""
    life, overlap = read_duration(sent.life), read_duration(sent.overlap)
    record, text = await context.ask(
        lambda store: tokens.rotate(store, TokenId(token), life=life, overlap=overlap, actor=context.actor)
    )
    return answer({**tokens.as_document(record), "token": str(text)})


@routes.add("POST", "/admin/tokens/{token_id}/revoke", Permission.TOKENS_WRITE, TokenDocument)
async def revoke_token(context: Asked, token: TokenPath) -> Response:
    """Ends a token. Every server refuses it after 5 s at the latest."""
    record = await context.ask(lambda store: tokens.revoke(store, TokenId(token), context.actor))
    return answer(tokens.as_document(record))
